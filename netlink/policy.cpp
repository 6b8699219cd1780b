// SPDX-License-Identifier: Apache-2.0
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <linux/xfrm.h>

#include <algorithm>
#include <cerrno>

#include "netlink/messages.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {

Result<bool> SystemRtnl::has_xfrm_policies() {
    auto socket = Socket::open(ns_, NETLINK_XFRM);
    if (!socket && socket.error().errno_value == EPROTONOSUPPORT) return false;  // a kernel without IPsec
    if (!socket) return std::move(socket.error());
    Message message(XFRM_MSG_GETPOLICY, 0);
    auto answers = socket->dump(message, "list xfrm policies");
    if (!answers) return std::move(answers.error());
    return !answers->empty();
}

Result<bool> SystemRtnl::has_fwmark_rules() {
    for (const Family family : {Family::ipv4, Family::ipv6}) {
        fib_rule_hdr header{};
        header.family = static_cast<std::uint8_t>(address_family(family));
        Message message(RTM_GETRULE, 0);
        message.header(header);
        auto answers = route_.dump(message, "list ip rules");
        const bool no_family =
            !answers && (answers.error().errno_value == EAFNOSUPPORT || answers.error().errno_value == EOPNOTSUPP);
        if (no_family) continue;
        if (!answers) return std::move(answers.error());
        const bool marks = std::ranges::any_of(*answers, [](const Received& rule) {
            const auto attributes = rule.attributes<fib_rule_hdr>();
            return attributes.u32(FRA_FWMARK) != 0 || attributes.u32(FRA_FWMASK) != 0;
        });
        if (marks) return true;
    }
    return false;
}

}  // namespace xveth::netlink
