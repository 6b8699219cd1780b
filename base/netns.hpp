// SPDX-License-Identifier: Apache-2.0
// Network namespaces: handles to them, entering them, and the kernel's name for them.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xveth {

// A handle that keeps a network namespace alive.
class Netns {
public:
    // The calling thread's own namespace.
    [[nodiscard]] static Result<Netns> current();
    // The namespace at `path` (/run/netns/NAME, /proc/PID/ns/net). The error's errno_value is ENOENT when there is
    // nothing (also for a namespace file whose namespace is gone: an empty regular file), EINVAL when it is something else.
    [[nodiscard]] static Result<Netns> open(const std::string& path);

    // A new namespace with nothing but a loopback device that is down; it lives as long as its handles and members. The
    // calling thread stays where it is.
    [[nodiscard]] static Result<Netns> create();
    // A handle of its own to the namespace that `fd` stands for; `fd` stays its owner's.
    [[nodiscard]] static Result<Netns> from_fd(int fd);

    [[nodiscard]] int fd() const { return fd_.get(); }
    // A second handle to the same namespace.
    [[nodiscard]] Result<Netns> duplicate() const;
    // The kernel's number for this namespace, never used twice until reboot (SO_NETNS_COOKIE, Linux 5.14).
    [[nodiscard]] Result<std::uint64_t> cookie() const;
    [[nodiscard]] bool same_as(const Netns& other) const;  // by device and inode

private:
    explicit Netns(UniqueFd fd) : fd_(std::move(fd)) {}
    UniqueFd fd_;
};

// Puts the calling thread into `ns` until the end of the scope. If the way back fails the process aborts: going on in a
// container's namespace would configure the wrong one. setns(CLONE_NEWNET) leaves mounts alone, so bpffs stays visible.
class NetnsScope {
public:
    [[nodiscard]] static Result<NetnsScope> enter(const Netns& ns);
    NetnsScope(NetnsScope&& other) noexcept = default;
    NetnsScope& operator=(NetnsScope&&) = delete;
    ~NetnsScope();

private:
    explicit NetnsScope(UniqueFd home) : home_(std::move(home)) {}
    UniqueFd home_;  // empty in a moved-from scope
};

}  // namespace xveth
