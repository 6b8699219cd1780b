// SPDX-License-Identifier: Apache-2.0
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>

#include <array>
#include <cerrno>

#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

tcmsg tc_header(IfIndex device, std::uint32_t parent) {
    tcmsg header{};
    header.tcm_family = AF_UNSPEC;
    header.tcm_ifindex = static_cast<int>(device);
    header.tcm_parent = parent;
    return header;
}

bool is_of(nlmsghdr* header, IfIndex device) {
    return static_cast<tcmsg*>(nlmsg_data(header))->tcm_ifindex == static_cast<int>(device);
}

std::string kind_of(nlmsghdr* header) {
    std::array<nlattr*, TCA_MAX + 1> a{};
    nlmsg_parse(header, sizeof(tcmsg), a.data(), TCA_MAX, nullptr);
    return a[TCA_KIND] == nullptr ? std::string{} : nla_get_string(a[TCA_KIND]);
}

}  // namespace

Result<std::vector<Qdisc>> SystemRtnl::list_qdiscs(IfIndex device) {
    std::vector<Qdisc> qdiscs;
    const auto make = [device] { return make_message(RTM_GETQDISC, 0, tc_header(device, 0)); };
    const auto receive = [&](nlmsghdr* header) {
        if (is_of(header, device)) qdiscs.push_back({.device = device, .kind = kind_of(header)});
    };
    auto done = route_.dump(make, "list qdiscs", receive, [&] { qdiscs.clear(); });
    if (!done) return std::move(done.error());
    return qdiscs;
}

Result<std::vector<TcFilter>> SystemRtnl::list_tc_filters(IfIndex device) {
    std::vector<TcFilter> filters;
    for (const bool ingress : {true, false}) {
        const std::uint32_t parent = TC_H_MAKE(TC_H_CLSACT, ingress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS);
        const std::size_t before = filters.size();
        const auto make = [&] { return make_message(RTM_GETTFILTER, 0, tc_header(device, parent)); };
        const auto receive = [&](nlmsghdr* header) {
            if (is_of(header, device)) filters.push_back({.kind = kind_of(header), .ingress = ingress});
        };
        auto done = route_.dump(make, "list tc filters", receive, [&] { filters.resize(before); });
        // Without a clsact or ingress qdisc there is nothing to hold filters.
        if (!done && done.error().errno_value != EINVAL && done.error().errno_value != ENOENT)
            return std::move(done.error());
    }
    return filters;
}

}  // namespace xveth::netlink
