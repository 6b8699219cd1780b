// SPDX-License-Identifier: Apache-2.0
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>

#include <algorithm>
#include <cerrno>

#include "netlink/messages.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

ifinfomsg device_header(IfIndex device) {
    ifinfomsg header{};
    header.ifi_index = number(device);
    return header;
}

// Statistics are half of a link message, and collecting them asks every CPU.
Message encode_get_link(IfIndex device) {
    Message message(RTM_GETLINK, 0);
    message.header(device_header(device)).put_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    return message;
}

Message encode_set_link(IfIndex device) {
    Message message(RTM_SETLINK, 0);
    message.header(device_header(device));
    return message;
}

void put_no_ipv6_autoconf(Message& message) {
    message.nest(IFLA_AF_SPEC, [](Message& families) {
        families.nest(AF_INET6, [](Message& ipv6) { ipv6.put_u8(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE); });
    });
}

// A device without IPv6 (EAFNOSUPPORT) configures no IPv6 address by itself either.
Result<void> accept_lack_of_ipv6(Result<void> result) {
    if (!result && result.error().errno_value == EAFNOSUPPORT) return ok();
    return result;
}

void put_veth_end(Message& message, const VethEnd& end, const VethSpec& spec) {
    message.put_text(IFLA_IFNAME, end.name)
        .put_u32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(end.netns_fd))
        .put_bytes(IFLA_ADDRESS, end.mac.bytes)
        .put_u32(IFLA_MTU, spec.mtu)
        .put_u32(IFLA_NUM_RX_QUEUES, spec.queues)
        .put_u32(IFLA_NUM_TX_QUEUES, spec.queues);
}

XdpMode parse_xdp_mode(std::uint8_t attached) {
    switch (attached) {
        case XDP_ATTACHED_DRV:
            return XdpMode::native;
        case XDP_ATTACHED_SKB:
            return XdpMode::generic;
        case XDP_ATTACHED_HW:
            return XdpMode::offloaded;
        case XDP_ATTACHED_MULTI:
            return XdpMode::multiple;
        default:
            return XdpMode::none;
    }
}

void parse_xdp(const Attributes& xdp, Link& link) {
    link.xdp_mode = parse_xdp_mode(xdp.u8(IFLA_XDP_ATTACHED));
    link.xdp_program_id = xdp.has(IFLA_XDP_DRV_PROG_ID) ? xdp.u32(IFLA_XDP_DRV_PROG_ID) : xdp.u32(IFLA_XDP_PROG_ID);
}

void parse_kind(const Attributes& info, Link& link) {
    link.kind = info.text(IFLA_INFO_KIND);
    if (link.kind == "bridge") link.filters_vlans = info.nested(IFLA_INFO_DATA).u8(IFLA_BR_VLAN_FILTERING) != 0;
    if (info.text(IFLA_INFO_SLAVE_KIND) != "bridge") return;
    const auto port = info.nested(IFLA_INFO_SLAVE_DATA);
    link.bridge_port = {.learning = port.u8(IFLA_BRPORT_LEARNING) != 0, .isolated = port.u8(IFLA_BRPORT_ISOLATED) != 0};
}

Result<std::optional<Link>> absence_is_nothing(Result<Received> answer) {
    if (answer) return std::optional<Link>(parse_link(*answer));
    if (answer.error().errno_value == ENODEV) return std::optional<Link>{};
    return std::move(answer.error());
}

}  // namespace

Message encode_create_veth(const VethSpec& spec) {
    Message message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    message.header(ifinfomsg{});
    put_veth_end(message, spec.host, spec);
    message.nest(IFLA_LINKINFO, [&](Message& info) {
        info.put_text(IFLA_INFO_KIND, "veth");
        info.nest(IFLA_INFO_DATA, [&](Message& data) {
            data.nest_with_header(VETH_INFO_PEER, ifinfomsg{},
                                  [&](Message& peer) { put_veth_end(peer, spec.container, spec); });
        });
    });
    return message;
}

Link parse_link(const Received& message) {
    const auto header = message.header<ifinfomsg>();
    const auto attributes = message.attributes<ifinfomsg>();
    Link link;
    link.index = IfIndex{static_cast<std::uint32_t>(header.ifi_index)};
    link.name = attributes.text(IFLA_IFNAME);
    parse_kind(attributes.nested(IFLA_LINKINFO), link);
    if (const auto mac = attributes.bytes(IFLA_ADDRESS); mac.size() == link.mac.bytes.size())
        std::ranges::copy(mac, link.mac.bytes.begin());
    link.alias = attributes.text(IFLA_IFALIAS);
    link.qdisc = attributes.text(IFLA_QDISC);
    link.mtu = attributes.u32(IFLA_MTU);
    link.max_mtu = attributes.u32(IFLA_MAX_MTU);
    link.up = (header.ifi_flags & IFF_UP) != 0;
    link.running = attributes.u8(IFLA_OPERSTATE) == IF_OPER_UP;
    link.loopback = (header.ifi_flags & IFF_LOOPBACK) != 0;
    link.rx_queues = attributes.u32(IFLA_NUM_RX_QUEUES);
    link.tx_queues = attributes.u32(IFLA_NUM_TX_QUEUES);
    link.peer = IfIndex{attributes.u32(IFLA_LINK)};
    link.peer_netns_id = attributes.find_value<std::int32_t>(IFLA_LINK_NETNSID);
    link.master = IfIndex{attributes.u32(IFLA_MASTER)};
    parse_xdp(attributes.nested(IFLA_XDP), link);
    return link;
}

Result<std::optional<Link>> SystemRtnl::find_link(const std::string& name) {
    if (name.empty() || name.size() >= IFNAMSIZ) return std::optional<Link>{};
    auto message = encode_get_link(IfIndex::none);
    message.put_text(IFLA_IFNAME, name);
    return absence_is_nothing(route_.get(message, "look for device " + name));
}

Result<std::optional<Link>> SystemRtnl::find_link(IfIndex index) {
    if (index == IfIndex::none) return std::optional<Link>{};
    auto message = encode_get_link(index);
    return absence_is_nothing(route_.get(message, "look for " + device_text(index)));
}

Result<std::vector<Link>> SystemRtnl::list_links() {
    auto message = encode_get_link(IfIndex::none);
    auto answers = route_.dump(message, "list devices");
    if (!answers) return std::move(answers.error());
    std::vector<Link> links;
    for (const auto& answer : *answers) links.push_back(parse_link(answer));
    return links;
}

Result<void> SystemRtnl::create_veth(const VethSpec& spec) {
    const std::string what = "create veth pair " + spec.host.name + "/" + spec.container.name;
    auto message = encode_create_veth(spec);
    if (auto created = route_.execute(message, what); !created) return created;
    auto outer = finish_veth_end(spec.host);
    auto inner = outer ? finish_veth_end(spec.container) : ok();
    if (outer && inner) return ok();
    Error error = std::move(outer ? inner.error() : outer.error()).in(what);
    if (auto removed = remove_veth_end(spec.host); !removed) error.text += "; " + removed.error().text;
    return error;
}

// RTM_NEWLINK ignores IFLA_AF_SPEC when it creates a device; until the device is up there is time to say it.
Result<void> SystemRtnl::finish_veth_end(const VethEnd& end) {
    if (!end.no_ipv6_autoconf) return ok();
    auto message = encode_set_link(IfIndex::none);
    message.put_text(IFLA_IFNAME, end.name);
    put_no_ipv6_autoconf(message);
    return accept_lack_of_ipv6(execute_at(end, message, "switch IPv6 autoconfiguration off"));
}

Result<void> SystemRtnl::remove_veth_end(const VethEnd& end) {
    Message message(RTM_DELLINK, 0);
    message.header(ifinfomsg{}).put_text(IFLA_IFNAME, end.name);
    return execute_at(end, message, "remove " + end.name);
}

Result<void> SystemRtnl::execute_at(const VethEnd& end, Message& message, const std::string& what) {
    auto ns = Netns::from_fd(end.netns_fd);
    if (!ns) return std::move(ns.error()).with_code(100);
    if (ns->same_as(ns_)) return route_.execute(message, what);
    auto there = Socket::open(*ns, NETLINK_ROUTE);
    if (!there) return std::move(there.error());
    return there->execute(message, what);
}

Result<void> SystemRtnl::set_alias(IfIndex device, const std::string& alias) {
    auto message = encode_set_link(device);
    // Without the closing NUL: the kernel counts the attribute's bytes.
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(alias.data());
    message.put_bytes(IFLA_IFALIAS, {bytes, alias.size()});
    return route_.execute(message, "set the alias of " + device_text(device));
}

Result<void> SystemRtnl::set_mac(IfIndex device, const Mac& mac) {
    auto message = encode_set_link(device);
    message.put_bytes(IFLA_ADDRESS, mac.bytes);
    return route_.execute(message, "set MAC " + mac.to_string() + " of " + device_text(device));
}

Result<void> SystemRtnl::set_mtu(IfIndex device, std::uint32_t mtu) {
    auto message = encode_set_link(device);
    message.put_u32(IFLA_MTU, mtu);
    return route_.execute(message, "set MTU " + std::to_string(mtu) + " of " + device_text(device));
}

Result<void> SystemRtnl::set_up(IfIndex device, bool up) {
    auto header = device_header(device);
    header.ifi_change = IFF_UP;
    header.ifi_flags = up ? static_cast<unsigned>(IFF_UP) : 0U;
    Message message(RTM_SETLINK, 0);
    message.header(header);
    return route_.execute(message, (up ? "set up " : "set down ") + device_text(device));
}

Result<void> SystemRtnl::set_no_ipv6_autoconf(IfIndex device) {
    auto message = encode_set_link(device);
    put_no_ipv6_autoconf(message);
    return accept_lack_of_ipv6(route_.execute(message, "switch IPv6 autoconfiguration off on " + device_text(device)));
}

Result<void> SystemRtnl::remove_link_if_present(IfIndex device) {
    Message message(RTM_DELLINK, 0);
    message.header(device_header(device));
    return absence_is_success(route_.execute(message, "remove " + device_text(device)));
}

}  // namespace xveth::netlink
