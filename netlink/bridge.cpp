// SPDX-License-Identifier: Apache-2.0
#include <linux/if.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

#include "netlink/messages.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

// A change of a port as a port: family AF_BRIDGE.
Message encode_set_port(IfIndex port) {
    ifinfomsg header{};
    header.ifi_family = AF_BRIDGE;
    header.ifi_index = number(port);
    Message message(RTM_SETLINK, 0);
    message.header(header);
    return message;
}

void put_vlan(Message& message, std::uint16_t vlan, std::uint16_t flags) {
    const bridge_vlan_info info{.flags = flags, .vid = vlan};
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&info);
    message.put_bytes(IFLA_BRIDGE_VLAN_INFO, {bytes, sizeof info});
}

ndmsg fdb_header(IfIndex device, std::uint8_t flags) {
    ndmsg header{};
    header.ndm_family = AF_BRIDGE;
    header.ndm_ifindex = number(device);
    header.ndm_state = NUD_REACHABLE;
    header.ndm_flags = flags;
    return header;
}

void put_mac(Message& message, const Mac& mac, std::uint16_t vlan) {
    message.put_bytes(NDA_LLADDR, mac.bytes);
    if (vlan != 0) message.put_u16(NDA_VLAN, vlan);
}

std::string text_of(const BridgeMac& entry) {
    return "MAC " + entry.mac.to_string() + " at " + device_text(entry.port);
}

}  // namespace

Message encode_create_bridge(const BridgeSpec& spec) {
    ifinfomsg header{};
    header.ifi_flags = IFF_NOARP;
    header.ifi_change = IFF_NOARP;
    Message message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    message.header(header).put_text(IFLA_IFNAME, spec.name).put_bytes(IFLA_ADDRESS, spec.mac.bytes);
    message.nest(IFLA_LINKINFO, [&](Message& info) {
        info.put_text(IFLA_INFO_KIND, "bridge");
        info.nest(IFLA_INFO_DATA, [&](Message& data) {
            data.put_u32(IFLA_BR_STP_STATE, 0).put_u32(IFLA_BR_FORWARD_DELAY, 0).put_u8(IFLA_BR_MCAST_SNOOPING, 0);
            if (spec.filters_vlans) data.put_u8(IFLA_BR_VLAN_FILTERING, 1).put_u16(IFLA_BR_VLAN_DEFAULT_PVID, 0);
        });
    });
    return message;
}

Result<void> SystemRtnl::create_bridge(const BridgeSpec& spec) {
    auto message = encode_create_bridge(spec);
    return route_.execute(message, "create bridge " + spec.name);
}

Result<void> SystemRtnl::set_master(IfIndex device, IfIndex bridge) {
    ifinfomsg header{};
    header.ifi_index = number(device);
    Message message(RTM_SETLINK, 0);
    message.header(header).put_u32(IFLA_MASTER, static_cast<std::uint32_t>(bridge));
    if (bridge == IfIndex::none) return route_.execute(message, "take " + device_text(device) + " out of its bridge");
    return route_.execute(message, "make " + device_text(device) + " a port of bridge " + device_text(bridge));
}

Result<void> SystemRtnl::set_bridge_port(IfIndex device, const BridgePort& port) {
    auto message = encode_set_port(device);
    message.nest(IFLA_PROTINFO | NLA_F_NESTED, [&](Message& flags) {
        flags.put_u8(IFLA_BRPORT_LEARNING, port.learning ? 1 : 0).put_u8(IFLA_BRPORT_ISOLATED, port.isolated ? 1 : 0);
    });
    return route_.execute(message, "set up bridge port " + device_text(device));
}

Result<void> SystemRtnl::add_bridge_vlan(IfIndex port, const BridgeVlan& vlan) {
    auto message = encode_set_port(port);
    message.nest(IFLA_AF_SPEC, [&](Message& vlans) {
        if (vlan.first == vlan.last) {
            const int own = BRIDGE_VLAN_INFO_PVID | BRIDGE_VLAN_INFO_UNTAGGED;
            put_vlan(vlans, vlan.first, static_cast<std::uint16_t>(vlan.own ? own : 0));
        } else {
            put_vlan(vlans, vlan.first, BRIDGE_VLAN_INFO_RANGE_BEGIN);
            put_vlan(vlans, vlan.last, BRIDGE_VLAN_INFO_RANGE_END);
        }
    });
    return route_.execute(message, "add VLAN " + std::to_string(vlan.first) + " to bridge port " + device_text(port));
}

Result<void> SystemRtnl::put_bridge_mac(const BridgeMac& entry) {
    Message message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE);
    message.header(fdb_header(entry.port, NTF_MASTER | NTF_EXT_LEARNED));
    put_mac(message, entry.mac, entry.vlan);
    return route_.execute(message, "enter " + text_of(entry));
}

Result<std::optional<IfIndex>> SystemRtnl::find_bridge_mac(IfIndex bridge, std::uint16_t vlan, const Mac& mac) {
    ndmsg header{};
    header.ndm_family = AF_BRIDGE;
    Message message(RTM_GETNEIGH, 0);
    message.header(header).put_u32(NDA_MASTER, static_cast<std::uint32_t>(bridge));
    put_mac(message, mac, vlan);
    auto answer = route_.get(message, "look for MAC " + mac.to_string() + " in bridge " + device_text(bridge));
    if (answer) return std::optional<IfIndex>{IfIndex{static_cast<std::uint32_t>(answer->header<ndmsg>().ndm_ifindex)}};
    if (answer.error().errno_value == ENOENT) return std::optional<IfIndex>{};
    return std::move(answer.error());
}

Result<void> SystemRtnl::remove_bridge_mac_if_present(const BridgeMac& entry) {
    Message message(RTM_DELNEIGH, 0);
    message.header(fdb_header(entry.port, NTF_MASTER | NTF_EXT_LEARNED));
    put_mac(message, entry.mac, entry.vlan);
    return absence_is_success(route_.execute(message, "remove " + text_of(entry)));
}

}  // namespace xveth::netlink
