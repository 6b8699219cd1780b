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

// Whether somebody put qdiscs below the classes of `device`: the kernel's own leaves have no handle.
Result<bool> has_leaves(Socket& socket, IfIndex device) {
    Message message(RTM_GETTCLASS, 0);
    message.header(header_for(device, 0));
    auto classes = socket.dump(message, "list traffic classes of " + device_text(device));
    if (!classes) return std::move(classes.error());
    return std::ranges::any_of(*classes, [](const Received& answer) { return answer.header<tcmsg>().tcm_info != 0; });
}

// The kernel lists those of all devices.
Result<std::vector<Qdisc>> dump_qdiscs(Socket& socket, IfIndex device) {
    Message message(RTM_GETQDISC, 0);
    message.header(header_for(device, 0));
    auto answers = socket.dump(message, "list qdiscs of " + device_text(device));
    if (!answers) return std::move(answers.error());
    std::vector<Qdisc> qdiscs;
    for (const auto& answer : *answers)
        if (answer.header<tcmsg>().tcm_ifindex == number(device))
            qdiscs.push_back({.device = device, .kind = answer.attributes<tcmsg>().text(TCA_KIND)});
    return qdiscs;
}

}  // namespace

// The root's kind comes with the device. Asking for a qdisc by itself would tell everybody who listens that there is a new
// one, and a dump grows with the node; so it is made only for classes that somebody changed.
Result<std::vector<Qdisc>> SystemRtnl::list_qdiscs(IfIndex device) {
    auto link = find_link(device);
    if (!link) return std::move(link.error());
    if (!*link) return errno_error(ENODEV, "list qdiscs of " + device_text(device)).with_code(100);
    const std::string& root = (*link)->qdisc;
    if (root == "noop" || root.empty()) return std::vector<Qdisc>{};
    if (root == "noqueue" || root == "pfifo_fast") return std::vector{Qdisc{.device = device, .kind = root}};
    auto leaves = has_leaves(route_, device);
    if (!leaves) return std::move(leaves.error());
    if (*leaves) return dump_qdiscs(route_, device);
    return std::vector{Qdisc{.device = device, .kind = root}};
}

Result<std::vector<TcFilter>> SystemRtnl::list_tc_filters(IfIndex device) {
    std::vector<TcFilter> filters;
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
