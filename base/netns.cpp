// SPDX-License-Identifier: Apache-2.0
#include "base/netns.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace xveth {

Result<Netns> Netns::current() {
    // /proc may be absent (a chroot); a socket knows its namespace and hands it out.
    UniqueFd fd{::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)};
    if (fd.valid()) return Netns{std::move(fd)};
    UniqueFd sock{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    if (!sock.valid()) return errno_error(errno, "open a socket to find the current network namespace");
    constexpr unsigned long siocgskns = 0x894C;
    fd.reset(::ioctl(sock.get(), siocgskns));
    if (!fd.valid()) return errno_error(errno, "find the current network namespace");
    return Netns{std::move(fd)};
}

Result<Netns> Netns::open(const std::string& path) {
    const std::string phrase = "open network namespace " + path;
    UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (!fd.valid()) {
        // A path below a plain file, or of a process that ended, names nothing either.
        const int err = (errno == ENOTDIR || errno == ESRCH) ? ENOENT : errno;
        return errno_error(err, phrase);
    }
    struct statfs fs{};
    if (::fstatfs(fd.get(), &fs) != 0) return errno_error(errno, phrase);
    if (fs.f_type != NSFS_MAGIC && fs.f_type != PROC_SUPER_MAGIC) {
        struct stat st{};
        const bool unmounted = ::fstat(fd.get(), &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
        if (unmounted)  // what `ip netns del` leaves for a moment: the mount point without its namespace
            return Error{.code = 0, .errno_value = ENOENT, .text = phrase + ": the namespace is gone", .hint = {}};
        return Error{.code = 0, .errno_value = EINVAL, .text = phrase + ": not a namespace file", .hint = {}};
    }
    if (::ioctl(fd.get(), NS_GET_NSTYPE) != CLONE_NEWNET)
        return Error{.code = 0, .errno_value = EINVAL, .text = phrase + ": not a network namespace", .hint = {}};
    return Netns{std::move(fd)};
}

Result<Netns> Netns::duplicate() const {
    UniqueFd fd{::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 3)};
    if (!fd.valid()) return errno_error(errno, "duplicate a namespace handle");
    return Netns{std::move(fd)};
}

Result<Netns> Netns::create() {
    auto home = Netns::current();
    if (!home) return home;
    auto way_back = NetnsScope::enter(*home);
    if (!way_back) return std::move(way_back.error());
    if (::unshare(CLONE_NEWNET) != 0) return errno_error(errno, "create a network namespace");
    return Netns::current();
}

Result<Netns> Netns::from_fd(int fd) {
    UniqueFd own{::fcntl(fd, F_DUPFD_CLOEXEC, 3)};
    if (!own.valid()) return errno_error(errno, "take a handle to a network namespace");
    return Netns{std::move(own)};
}

Result<std::uint64_t> Netns::cookie() const {
    auto scope = NetnsScope::enter(*this);
    if (!scope) return std::move(scope.error());
    UniqueFd sock{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    if (!sock.valid()) return errno_error(errno, "open a socket for the namespace's cookie");
    std::uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    if (::getsockopt(sock.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) != 0)
        return errno_error(errno, "read the namespace's cookie");
    return cookie;
}

bool Netns::same_as(const Netns& other) const {
    struct stat a{};
    struct stat b{};
    return ::fstat(fd(), &a) == 0 && ::fstat(other.fd(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

Result<NetnsScope> NetnsScope::enter(const Netns& ns) {
    auto home = Netns::current();
    if (!home) return std::move(home.error());
    UniqueFd home_fd{::fcntl(home->fd(), F_DUPFD_CLOEXEC, 3)};
    if (!home_fd.valid()) return errno_error(errno, "remember the current network namespace");
    if (::setns(ns.fd(), CLONE_NEWNET) != 0) return errno_error(errno, "enter the network namespace");
    return NetnsScope{std::move(home_fd)};
}

NetnsScope::~NetnsScope() {
    if (home_.valid() && ::setns(home_.get(), CLONE_NEWNET) != 0) {
        std::perror("xveth: cannot return to the host's network namespace");
        std::abort();
    }
}

}  // namespace xveth
