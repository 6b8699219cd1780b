// SPDX-License-Identifier: Apache-2.0
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <netlink/attr.h>

#include <array>
#include <cerrno>

#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

using Attributes = std::array<nlattr*, IFLA_MAX + 1>;

std::string string_of(nlattr* attribute) { return attribute == nullptr ? std::string{} : nla_get_string(attribute); }
std::uint32_t u32_of(nlattr* attribute) { return attribute == nullptr ? 0 : nla_get_u32(attribute); }

void decode_xdp(nlattr* xdp, Link& link) {
    std::array<nlattr*, IFLA_XDP_MAX + 1> part{};
    if (xdp == nullptr || nla_parse_nested(part.data(), IFLA_XDP_MAX, xdp, nullptr) < 0) return;
    switch (part[IFLA_XDP_ATTACHED] == nullptr ? 0 : nla_get_u8(part[IFLA_XDP_ATTACHED])) {
        case XDP_ATTACHED_DRV: link.xdp_mode = XdpMode::native; break;
        case XDP_ATTACHED_SKB: link.xdp_mode = XdpMode::generic; break;
        case XDP_ATTACHED_HW: link.xdp_mode = XdpMode::offloaded; break;
        case XDP_ATTACHED_MULTI: link.xdp_mode = XdpMode::multiple; break;
        default: return;
    }
    link.xdp_program_id = u32_of(part[IFLA_XDP_DRV_PROG_ID]);
    if (link.xdp_program_id == 0) link.xdp_program_id = u32_of(part[IFLA_XDP_PROG_ID]);
}

Link decode_link(nlmsghdr* header) {
    const auto* info = static_cast<ifinfomsg*>(nlmsg_data(header));
    Attributes a{};
    nlmsg_parse(header, sizeof *info, a.data(), IFLA_MAX, nullptr);
    Link link;
    link.index = IfIndex{static_cast<std::uint32_t>(info->ifi_index)};
    link.up = (info->ifi_flags & IFF_UP) != 0;
    link.loopback = (info->ifi_flags & IFF_LOOPBACK) != 0;
    link.name = string_of(a[IFLA_IFNAME]);
    link.alias = string_of(a[IFLA_IFALIAS]);
    link.mtu = u32_of(a[IFLA_MTU]);
    link.max_mtu = u32_of(a[IFLA_MAX_MTU]);
    link.rx_queues = u32_of(a[IFLA_NUM_RX_QUEUES]);
    link.tx_queues = u32_of(a[IFLA_NUM_TX_QUEUES]);
    link.peer = IfIndex{u32_of(a[IFLA_LINK])};
    link.master = IfIndex{u32_of(a[IFLA_MASTER])};
    if (a[IFLA_LINK_NETNSID] != nullptr) link.peer_netns_id = nla_get_s32(a[IFLA_LINK_NETNSID]);
    if (a[IFLA_ADDRESS] != nullptr && nla_len(a[IFLA_ADDRESS]) == 6)
        nla_memcpy(link.mac.bytes.data(), a[IFLA_ADDRESS], 6);
    std::array<nlattr*, IFLA_INFO_MAX + 1> part{};
    if (a[IFLA_LINKINFO] != nullptr && nla_parse_nested(part.data(), IFLA_INFO_MAX, a[IFLA_LINKINFO], nullptr) >= 0)
        link.kind = string_of(part[IFLA_INFO_KIND]);
    decode_xdp(a[IFLA_XDP], link);
    return link;
}

Message link_request(int type, int flags, IfIndex device) {
    return make_message(type, flags, ifinfomsg{.ifi_family = AF_UNSPEC, .__ifi_pad = 0, .ifi_type = 0,
                                               .ifi_index = static_cast<int>(device), .ifi_flags = 0, .ifi_change = 0});
}

void put_no_ipv6_autoconf(nl_msg* message) {
    nlattr* families = nla_nest_start(message, IFLA_AF_SPEC);
    nlattr* inet6 = nla_nest_start(message, AF_INET6);
    nla_put_u8(message, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
    nla_nest_end(message, inet6);
    nla_nest_end(message, families);
}

// Queue numbers stand on both ends: given on one alone, the kernel gives the other as many as there are CPUs.
void put_veth_end(nl_msg* message, const VethEnd& end, const VethSpec& spec) {
    nla_put_string(message, IFLA_IFNAME, end.name.c_str());
    nla_put(message, IFLA_ADDRESS, 6, end.mac.bytes.data());
    nla_put_u32(message, IFLA_MTU, spec.mtu);
    nla_put_u32(message, IFLA_NUM_TX_QUEUES, spec.queues);
    nla_put_u32(message, IFLA_NUM_RX_QUEUES, spec.queues);
    nla_put_u32(message, IFLA_NET_NS_FD, static_cast<std::uint32_t>(end.netns_fd));
}

}  // namespace

Result<std::optional<Link>> SystemRtnl::get_link(Message message, const std::string& phrase) {
    nla_put_u32(message.get(), IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    std::optional<Link> link;
    auto done = route_.request(std::move(message), phrase, [&](nlmsghdr* header) { link = decode_link(header); });
    if (done) return link;
    if (done.error().errno_value == ENODEV) return std::optional<Link>{};
    return std::move(done.error());
}

Result<std::optional<Link>> SystemRtnl::find_link(const std::string& name) {
    Message message = link_request(RTM_GETLINK, 0, IfIndex::none);
    nla_put_string(message.get(), IFLA_IFNAME, name.c_str());
    return get_link(std::move(message), "read link " + name);
}

Result<std::optional<Link>> SystemRtnl::find_link(IfIndex index) {
    if (index == IfIndex::none) return std::optional<Link>{};
    return get_link(link_request(RTM_GETLINK, 0, index),
                    "read link with ifindex " + std::to_string(static_cast<std::uint32_t>(index)));
}

Result<std::vector<Link>> SystemRtnl::list_links() {
    std::vector<Link> links;
    const auto make = [] {
        Message message = link_request(RTM_GETLINK, 0, IfIndex::none);
        nla_put_u32(message.get(), IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
        return message;
    };
    auto done = route_.dump(make, "list links", [&](nlmsghdr* header) { links.push_back(decode_link(header)); },
                            [&] { links.clear(); });
    if (!done) return std::move(done.error());
    return links;
}

Result<void> SystemRtnl::create_veth(const VethSpec& spec) {
    Message message = link_request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, IfIndex::none);
    nl_msg* m = message.get();
    put_veth_end(m, spec.host, spec);
    if (spec.host.no_ipv6_autoconf) put_no_ipv6_autoconf(m);
    nlattr* info = nla_nest_start(m, IFLA_LINKINFO);
    nla_put_string(m, IFLA_INFO_KIND, "veth");
    nlattr* data = nla_nest_start(m, IFLA_INFO_DATA);
    nlattr* peer = nla_nest_start(m, VETH_INFO_PEER);
    ifinfomsg header{};
    nlmsg_append(m, &header, sizeof header, NLMSG_ALIGNTO);
    put_veth_end(m, spec.container, spec);
    nla_nest_end(m, peer);
    nla_nest_end(m, data);
    nla_nest_end(m, info);
    return route_.request(std::move(message), "create veth pair " + spec.host.name + "/" + spec.container.name);
}

Result<void> SystemRtnl::change_link(IfIndex device, unsigned flags, unsigned mask, const std::string& phrase,
                                     const std::function<void(nl_msg*)>& attributes) {
    Message message = make_message(RTM_NEWLINK, 0,
                                   ifinfomsg{.ifi_family = AF_UNSPEC, .__ifi_pad = 0, .ifi_type = 0,
                                             .ifi_index = static_cast<int>(device), .ifi_flags = flags, .ifi_change = mask});
    if (attributes) attributes(message.get());
    return route_.request(std::move(message),
                          phrase + " of ifindex " + std::to_string(static_cast<std::uint32_t>(device)));
}

Result<void> SystemRtnl::set_alias(IfIndex device, const std::string& alias) {
    return change_link(device, 0, 0, "set alias", [&](nl_msg* m) { nla_put_string(m, IFLA_IFALIAS, alias.c_str()); });
}

Result<void> SystemRtnl::set_mtu(IfIndex device, std::uint32_t mtu) {
    return change_link(device, 0, 0, "set mtu", [&](nl_msg* m) { nla_put_u32(m, IFLA_MTU, mtu); });
}

Result<void> SystemRtnl::set_up(IfIndex device, bool up) {
    return change_link(device, up ? IFF_UP : 0, IFF_UP, up ? "set up" : "set down", {});
}

Result<void> SystemRtnl::set_no_ipv6_autoconf(IfIndex device) {
    return change_link(device, 0, 0, "switch off IPv6 autoconfiguration", put_no_ipv6_autoconf);
}

Result<void> SystemRtnl::remove_link_if_present(IfIndex device) {
    auto done = route_.request(link_request(RTM_DELLINK, 0, device),
                               "remove link with ifindex " + std::to_string(static_cast<std::uint32_t>(device)));
    if (!done && done.error().errno_value == ENODEV) return ok();
    return done;
}

}  // namespace xveth::netlink
