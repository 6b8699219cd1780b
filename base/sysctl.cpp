// SPDX-License-Identifier: Apache-2.0
#include "base/sysctl.hpp"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.hpp"

namespace xveth {
namespace {

// A procfs that is mounted nowhere: works without a /proc directory.
UniqueFd private_procfs() {
    const UniqueFd context{static_cast<int>(::syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC))};
    if (!context.valid()) return {};
    if (::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
    return UniqueFd{static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0))};
}

Result<UniqueFd> open_sysctl(const std::string& name, int flags) {
    UniqueFd fd{::open(("/proc/sys/" + name).c_str(), flags | O_CLOEXEC)};
    if (!fd.valid() && errno == ENOENT && ::access("/proc/sys", F_OK) != 0) {
        const UniqueFd proc = private_procfs();
        if (!proc.valid()) return errno_error(errno, "mount procfs to reach sysctl " + name);
        fd.reset(::openat(proc.get(), ("sys/" + name).c_str(), flags | O_CLOEXEC));
    }
    if (!fd.valid()) return errno_error(errno, "open sysctl " + name);
    return fd;
}

}  // namespace

Result<std::string> read_sysctl(const std::string& name) {
    auto fd = open_sysctl(name, O_RDONLY);
    if (!fd) return std::move(fd.error());
    std::array<char, 256> buffer{};
    const ssize_t n = ::read(fd->get(), buffer.data(), buffer.size());
    if (n < 0) return errno_error(errno, "read sysctl " + name);
    std::string value(buffer.data(), static_cast<std::size_t>(n));
    while (!value.empty() && (value.back() == '\n' || value.back() == ' ')) value.pop_back();
    return value;
}

Result<void> ensure_sysctl(const std::string& name, std::string_view value) {
    auto now = read_sysctl(name);
    if (!now) return std::move(now.error());
    if (*now == value) return ok();
    auto fd = open_sysctl(name, O_WRONLY);
    if (!fd) return std::move(fd.error());
    if (::write(fd->get(), value.data(), value.size()) < 0)
        return errno_error(errno, "set sysctl " + name + " to " + std::string(value));
    return ok();
}

Result<std::string> Sysctls::read(const Netns& ns, const std::string& name) {
    auto scope = NetnsScope::enter(ns);
    if (!scope) return std::move(scope.error());
    return read_sysctl(name);
}

Result<void> Sysctls::ensure(const Netns& ns, const std::string& name, std::string_view value) {
    auto scope = NetnsScope::enter(ns);
    if (!scope) return std::move(scope.error());
    return ensure_sysctl(name, value);
}

}  // namespace xveth
