// SPDX-License-Identifier: Apache-2.0
#include "netlink/system_rtnl.hpp"

#include <linux/netlink.h>

#include <cerrno>

namespace xveth::netlink {
namespace {

class SystemKernel final : public Kernel {
public:
    Result<std::unique_ptr<Rtnl>> open_rtnl(const Netns& ns) override { return SystemRtnl::open(ns); }
};

}  // namespace

Kernel& system_kernel() {
    static SystemKernel kernel;
    return kernel;
}

Result<std::unique_ptr<Rtnl>> SystemRtnl::open(const Netns& ns) {
    auto own = Netns::from_fd(ns.fd());
    if (!own) return std::move(own.error()).with_code(100);
    auto socket = Socket::open(ns, NETLINK_ROUTE);
    if (!socket) return std::move(socket.error());
    return std::unique_ptr<Rtnl>(new SystemRtnl(std::move(*own), std::move(*socket)));
}

std::string device_text(IfIndex device) { return "device " + std::to_string(number(device)); }

Result<void> absence_is_success(Result<void> removal) {
    if (removal) return removal;
    const int err = removal.error().errno_value;
    if (err == ESRCH || err == ENOENT || err == ENODEV || err == EADDRNOTAVAIL) return ok();
    return removal;
}

}  // namespace xveth::netlink
