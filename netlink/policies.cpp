// SPDX-License-Identifier: Apache-2.0
// Policy routing by mark, and IPsec policies.
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <linux/xfrm.h>
#include <netlink/attr.h>

#include <array>
#include <cerrno>

#include "netlink/ip_attributes.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {

Result<bool> SystemRtnl::has_xfrm_policies() {
    auto socket = Socket::open(ns_, NETLINK_XFRM);
    if (!socket) {
        // A kernel without IPsec has no such protocol.
        if (socket.error().errno_value == EPROTONOSUPPORT) return false;
        return std::move(socket.error());
    }
    bool found = false;
    const auto make = [] { return Message{nlmsg_alloc_simple(XFRM_MSG_GETPOLICY, 0)}; };
    auto done = socket->dump(make, "list xfrm policies", [&](nlmsghdr*) { found = true; }, [&] { found = false; });
    if (!done) return std::move(done.error());
    return found;
}

Result<bool> SystemRtnl::has_fwmark_rules() {
    bool found = false;
    for (const Family family : {Family::ipv4, Family::ipv6}) {
        const auto make = [family] {
            fib_rule_hdr header{};
            header.family = kernel_family(family);
            return make_message(RTM_GETRULE, 0, header);
        };
        const auto receive = [&](nlmsghdr* header) {
            std::array<nlattr*, FRA_MAX + 1> a{};
            nlmsg_parse(header, sizeof(fib_rule_hdr), a.data(), FRA_MAX, nullptr);
            if (a[FRA_FWMARK] != nullptr || a[FRA_FWMASK] != nullptr) found = true;
        };
        auto done = route_.dump(make, "list ip rules", receive, [] {});
        if (!done && done.error().errno_value != EAFNOSUPPORT && done.error().errno_value != EOPNOTSUPP)
            return std::move(done.error());
    }
    return found;
}

}  // namespace xveth::netlink
