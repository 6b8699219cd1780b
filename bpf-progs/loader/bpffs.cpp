// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/bpffs.hpp"

#include <bpf/bpf.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/files.hpp"
#include "bpf-progs/include/abi.h"

namespace xveth::bpf {
namespace {

namespace fs = std::filesystem;

bool is_mounted(const std::string& path, long magic) {
    struct statfs info{};
    return ::statfs(path.c_str(), &info) == 0 && info.f_type == magic;
}

constexpr unsigned long harmless = MS_NOSUID | MS_NODEV | MS_NOEXEC;

}  // namespace

std::string PinPaths::layout() const { return bpffs_ + "/xveth/v" + std::to_string(XV_LAYOUT); }

Result<void> ensure_sysfs() {
    const std::string path = "/sys";
    if (is_mounted(path, SYSFS_MAGIC)) return ok();
    if (auto made = make_directories(path, 0755); !made) return made;
    if (::mount("sysfs", path.c_str(), "sysfs", harmless, nullptr) != 0)
        return errno_error(errno, "mount sysfs at " + path)
            .with_code(106)
            .with_hint("mount it before: mount -t sysfs sysfs " + path);
    return ok();
}

Result<void> ensure_bpffs(const std::string& path) {
    if (is_mounted(path, BPF_FS_MAGIC)) return ok();
    // sysfs makes the directory /sys/fs/bpf itself and refuses others; anywhere else it may be missing.
    if (auto made = make_directories(path, 0700); !made) return made;
    if (::mount("bpf", path.c_str(), "bpf", harmless, "mode=0700") != 0)
        return errno_error(errno, "mount a bpffs at " + path)
            .with_code(106)
            .with_hint("mount it before: mount -t bpf bpf " + path);
    return ok();
}

Result<UniqueFd> open_pin(const std::string& path) {
    UniqueFd fd{bpf_obj_get(path.c_str())};
    if (!fd.valid()) return errno_error(errno, "open " + path);
    return fd;
}

Result<bool> pin_exists(const std::string& path) {
    if (::access(path.c_str(), F_OK) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return errno_error(errno, "look for " + path);
}

Result<void> unpin_if_present(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return errno_error(errno, "remove " + path);
    return ok();
}

Result<std::vector<std::string>> list_pins(const std::string& dir) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it{dir, error}, end; !error && it != end; it.increment(error))
        names.push_back(it->path().filename().string());
    if (error && error != std::errc::no_such_file_or_directory) return errno_error(error.value(), "list " + dir);
    return names;
}

void remove_pins(const std::string& dir) {
    std::error_code ignored;
    fs::remove_all(dir, ignored);
}

}  // namespace xveth::bpf
