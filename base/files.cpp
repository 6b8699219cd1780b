// SPDX-License-Identifier: Apache-2.0
#include "base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/scope_exit.hpp"
#include "base/unique_fd.hpp"

namespace xveth {

Result<void> write_all(int fd, std::string_view content, const std::string& what) {
    while (!content.empty()) {
        const ssize_t n = ::write(fd, content.data(), content.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error(errno, "write " + what);
        content.remove_prefix(static_cast<std::size_t>(n));
    }
    return ok();
}

Result<std::string> read_all(int fd, const std::string& what) {
    std::string content;
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t n = ::read(fd, buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error(errno, "read " + what);
        if (n == 0) return content;
        content.append(buffer.data(), static_cast<std::size_t>(n));
    }
}

Result<std::string> read_file(const std::string& path) {
    const UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!fd.valid()) return errno_error(errno, "open " + path);
    return read_all(fd.get(), path);
}

Result<void> write_file_atomically(const std::string& path, std::string_view content, mode_t mode) {
    if (auto made = make_parents(path, 0700); !made) return made;
    std::string temp = path + ".XXXXXX";
    UniqueFd fd{::mkostemp(temp.data(), O_CLOEXEC)};
    if (!fd.valid()) return errno_error(errno, "create " + temp);
    ScopeExit discard{[&] { ::unlink(temp.c_str()); }};
    if (auto written = write_all(fd.get(), content, temp); !written) return written;
    if (::fchmod(fd.get(), mode) != 0) return errno_error(errno, "chmod " + temp);
    if (::rename(temp.c_str(), path.c_str()) != 0) return errno_error(errno, "rename " + temp + " to " + path);
    discard.dismiss();
    return ok();
}

Result<void> overwrite_file(const std::string& path, std::string_view content) {
    UniqueFd fd{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (!fd.valid()) return errno_error(errno, "open " + path);
    return write_all(fd.get(), content, path);
}

Result<void> remove_file_if_present(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) return errno_error(errno, "remove " + path);
    return ok();
}

Result<void> make_directories(const std::string& dir, mode_t mode) {
    if (dir.empty() || ::mkdir(dir.c_str(), mode) == 0 || errno == EEXIST) return ok();
    if (errno != ENOENT) return errno_error(errno, "make directory " + dir);
    if (auto made = make_parents(dir, mode); !made) return made;
    if (::mkdir(dir.c_str(), mode) != 0 && errno != EEXIST) return errno_error(errno, "make directory " + dir);
    return ok();
}

Result<void> make_parents(const std::string& path, mode_t mode) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos || slash == 0) return ok();
    return make_directories(path.substr(0, slash), mode);
}

void remove_directory_if_empty(const std::string& dir) { ::rmdir(dir.c_str()); }

std::uint64_t hash64(std::string_view bytes) {
    std::uint64_t h = 0xcbf29ce484222325U;
    for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return h;
}

}  // namespace xveth
