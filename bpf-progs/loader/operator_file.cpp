// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/operator_file.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.hpp"
#include "base/unique_fd.hpp"

namespace xveth::bpf {
namespace {

constexpr off_t largest_object = off_t{16} << 20;

Error refused(const std::string& path, const std::string& why, std::string hint) {
    return {.code = 105, .errno_value = EACCES, .text = path + ": " + why, .hint = std::move(hint)};
}

Result<void> check_name(const std::string& directory, const std::string& name) {
    if (!name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
        name.find('\0') == std::string::npos)
        return ok();
    return refused("\"" + name + "\"", "no file's name",
                   "name a file of " + directory + ", without slashes and without a dot in front");
}

Result<struct stat> describe(int fd, const std::string& path) {
    struct stat info{};
    if (::fstat(fd, &info) != 0) return errno_error(errno, "look at " + path).with_code(105);
    return info;
}

Result<void> check_owner(const struct stat& info, const std::string& path) {
    if (info.st_uid != 0) return refused(path, "belongs to user " + std::to_string(info.st_uid), "chown root " + path);
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return refused(path, "others than root may write it", "chmod go-w " + path);
    return ok();
}

Result<UniqueFd> open_directory(const std::string& directory) {
    UniqueFd fd{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!fd.valid())
        return errno_error(errno, directory).with_code(105).with_hint("make it, and put the object files there");
    auto info = describe(fd.get(), directory);
    if (!info) return std::move(info.error());
    if (auto owned = check_owner(*info, directory); !owned) return std::move(owned.error());
    return fd;
}

// O_NONBLOCK: a FIFO would wait for its writer.
Result<UniqueFd> open_beneath(int directory, const std::string& name, const std::string& path) {
    struct open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    UniqueFd fd{static_cast<int>(::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof(how)))};
    if (fd.valid()) return fd;
    if (errno == EXDEV) return refused(path, "a symbolic link that leaves the directory", "copy the file there");
    return errno_error(errno, path).with_code(105).with_hint("the operator puts the object file there");
}

Result<void> check_file(const struct stat& info, const std::string& path) {
    if (!S_ISREG(info.st_mode)) return refused(path, "no regular file", "put the object file itself there");
    if (auto owned = check_owner(info, path); !owned) return owned;
    if (info.st_size == 0) return refused(path, "the file is empty", "build and install it anew");
    if (info.st_size > largest_object)
        return refused(path, "the file has " + std::to_string(info.st_size) + " bytes, more than an object of 16 MiB",
                       "is it a BPF object file at all?");
    return ok();
}

}  // namespace

Result<std::string> read_operator_file(const std::string& directory, const std::string& name) {
    if (auto named = check_name(directory, name); !named) return std::move(named.error());
    const std::string path = directory + "/" + name;
    auto opened = open_directory(directory);
    if (!opened) return std::move(opened.error());
    auto file = open_beneath(opened->get(), name, path);
    if (!file) return std::move(file.error());
    auto info = describe(file->get(), path);
    if (!info) return std::move(info.error());
    if (auto checked = check_file(*info, path); !checked) return std::move(checked.error());
    auto content = read_all(file->get(), path);
    if (!content) return std::move(content.error()).with_code(105);
    return content;
}

}  // namespace xveth::bpf
