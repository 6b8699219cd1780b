// SPDX-License-Identifier: Apache-2.0
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>

#include "netlink/messages.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

tcmsg header_for(IfIndex device, std::uint32_t parent) {
    tcmsg header{};
    header.tcm_ifindex = number(device);
    header.tcm_parent = parent;
    return header;
}

}  // namespace

Result<std::vector<Qdisc>> SystemRtnl::list_qdiscs(IfIndex device) {
    Message message(RTM_GETQDISC, 0);
    message.header(header_for(device, 0));
    auto answers = route_.dump(message, "list qdiscs of " + device_text(device));
    if (!answers) return std::move(answers.error());
    std::vector<Qdisc> qdiscs;
    for (const auto& answer : *answers)
        if (answer.header<tcmsg>().tcm_ifindex == number(device))
            qdiscs.push_back({.device = device, .kind = answer.attributes<tcmsg>().text(TCA_KIND)});
    return qdiscs;
}

Result<std::vector<TcFilter>> SystemRtnl::list_tc_filters(IfIndex device) {
    auto qdiscs = list_qdiscs(device);
    if (!qdiscs) return std::move(qdiscs.error());
    const bool hooks = std::ranges::any_of(
        *qdiscs, [](const Qdisc& qdisc) { return qdisc.kind == "clsact" || qdisc.kind == "ingress"; });
    std::vector<TcFilter> filters;
    if (!hooks) return filters;
    for (const bool ingress : {true, false}) {
        const std::uint32_t hook = ingress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS;
        Message message(RTM_GETTFILTER, 0);
        message.header(header_for(device, TC_H_MAKE(TC_H_CLSACT, hook)));
        auto answers = route_.dump(message, "list tc filters of " + device_text(device));
        if (!answers) return std::move(answers.error());
        // Each priority is announced by a message of its own, without a handle.
        for (const auto& answer : *answers)
            if (answer.header<tcmsg>().tcm_handle != 0)
                filters.push_back({.kind = answer.attributes<tcmsg>().text(TCA_KIND), .ingress = ingress});
    }
    return filters;
}

}  // namespace xveth::netlink
