// SPDX-License-Identifier: Apache-2.0
// Ports of a bridge: in the kernel's bridge, and in the tables of XDP's.
#include <algorithm>
#include <cerrno>

#include "datapath/arming.hpp"
#include "datapath/bridge.hpp"
#include "datapath/bridge_parts.hpp"

namespace xveth::datapath {
namespace {

using netlink::IfIndex;
using netlink::Link;

// The VLANs in which the tables of XDP know a port's MAC: 0 where the bridge has none.
std::vector<std::uint16_t> vlans_of(const BridgeAccess& access) {
    std::vector<std::uint16_t> vlans;
    if (!access.uses_vlans()) return {0};
    for (std::uint16_t vlan = 1; vlan < bpf::XV_MAX_VLANS; ++vlan)
        if (vlan == access.vlan || access.tagged.test(vlan)) vlans.push_back(vlan);
    return vlans;
}

}  // namespace

Result<void> enslave_vlans(Node& node, IfIndex device, const BridgeAccess& access) {
    if (access.vlan != 0) {
        auto own = node.rtnl.add_bridge_vlan(device, {.first = access.vlan, .last = access.vlan, .own = true});
        if (!own) return own;
    }
    for (std::uint16_t vlan = 1; vlan < bpf::XV_MAX_VLANS; ++vlan) {
        if (!access.tagged.test(vlan) || vlan == access.vlan) continue;
        if (auto added = node.rtnl.add_bridge_vlan(device, {.first = vlan, .last = vlan}); !added) return added;
    }
    return ok();
}

namespace {

Result<void> put_macs(Node& node, const NetworkBridge& bridge, bpf::PortId id, IfIndex device, const Mac& mac,
                      const BridgeAccess& access) {
    for (const std::uint16_t vlan : vlans_of(access)) {
        auto entered = node.bridges.put_static(id, vlan, mac);
        if (!entered && entered.error().errno_value == EEXIST)
            return std::move(entered.error()).with_code(7).with_hint("give the container another MAC, or none");
        if (!entered) return entered;
        if (!bridge.separates_vlans) continue;
        if (auto put = node.rtnl.put_bridge_mac({.mac = mac, .vlan = vlan, .port = device}); !put) return put;
    }
    return ok();
}

Result<void> enter(Node& node, const NetworkBridge& bridge, bpf::PortId id, const Link& device, const Mac& mac,
                   const BridgeAccess& access) {
    auto takes = takes_redirected_frames(node.rtnl, device.index);
    if (!takes) return std::move(takes.error());
    auto put = node.bridges.put_port(id, {.bridge = bridge.id,
                                          .vlan = access.vlan,
                                          .tagged = access.tagged,
                                          .isolated = access.isolated,
                                          .target = *takes});
    if (!put) return put;
    return put_macs(node, bridge, id, device.index, mac, access);
}

Result<NetworkBridge> find_bridge(Node& node, bpf::PortId id) {
    auto port = node.bridges.find_port(id);
    if (!port) return std::move(port.error());
    auto entry = node.bpf.get_port(id);
    if (!entry) return std::move(entry.error());
    auto device = node.rtnl.find_link(IfIndex{entry->ifindex});
    if (!device) return std::move(device.error());
    if (!*port || !*device) return errno_error(ENODEV, "bridge port").with_code(102);
    auto kernel = node.rtnl.find_link((*device)->master);
    if (!kernel) return std::move(kernel.error());
    if (!*kernel) return errno_error(ENODEV, "the bridge of " + (*device)->name).with_code(100);
    NetworkBridge bridge{
        .kernel = std::move(**kernel), .id = (*port)->bridge, .host = {}, .mtu = entry->mtu, .separates_vlans = true};
    const bool vlans = (*port)->vlan != 0 || (*port)->tagged.any();
    bridge.separates_vlans = !vlans || bridge.kernel.filters_vlans;
    return bridge;
}

std::string who(const Link& device) { return "host end " + device.name; }

}  // namespace

// Frames that nobody separates are carried by nobody: each port is isolated from each.
Result<void> enslave(Node& node, const NetworkBridge& bridge, IfIndex device, const BridgeAccess& access) {
    if (auto joined = node.rtnl.set_master(device, bridge.kernel.index); !joined) return joined;
    const netlink::BridgePort port{.learning = false, .isolated = access.isolated || !bridge.separates_vlans};
    if (auto set = node.rtnl.set_bridge_port(device, port); !set) return set;
    return access.uses_vlans() && bridge.separates_vlans ? enslave_vlans(node, device, access) : ok();
}

Result<bpf::PortId> enter_bridge_port(Node& node, const NetworkBridge& bridge, const Link& device, const Mac& mac,
                                      const BridgeAccess& access, std::uint32_t flags) {
    bpf::xv_port port{};
    port.ifindex = static_cast<std::uint32_t>(device.index);
    port.flags = flags;
    port.mtu = device.mtu;
    std::ranges::copy(mac.bytes, port.mac);
    std::ranges::copy(device.mac.bytes, port.host_mac);
    auto id = node.bpf.allocate_port(port);
    if (!id) return std::move(id.error()).in("port of " + device.name);
    auto entered = enter(node, bridge, *id, device, mac, access);
    if (entered) return *id;
    (void)node.bridges.remove_port_if_present(*id);
    (void)node.bpf.free_port(*id);
    return std::move(entered.error()).in("port of " + device.name);
}

Result<bpf::PortId> publish_bridged_port(Node& node, const NodeLock&, const NetworkBridge& bridge, const VethPair& pair,
                                         const BridgedPortSpec& spec) {
    std::uint32_t flags = 0;
    if (spec.fast) flags |= bpf::XV_PORT_FAST;
    if (spec.spoof_check) flags |= bpf::XV_PORT_SPOOFCHECK;
    return enter_bridge_port(node, bridge, pair.host, pair.container.mac, spec.access, flags);
}

Result<void> change_bridged_mac(Node& node, const NodeLock&, bpf::PortId id, const Mac& mac) {
    auto entry = node.bpf.get_port(id);
    if (!entry) return std::move(entry.error());
    auto port = node.bridges.find_port(id);
    if (!port) return std::move(port.error());
    auto bridge = find_bridge(node, id);
    if (!bridge) return std::move(bridge.error());
    Mac old;
    std::ranges::copy(entry->mac, old.bytes.begin());
    const BridgeAccess access{.vlan = (*port)->vlan, .tagged = (*port)->tagged, .isolated = (*port)->isolated};
    const IfIndex device{entry->ifindex};
    if (auto put = put_macs(node, *bridge, id, device, mac, access); !put) return put;
    std::ranges::copy(mac.bytes, entry->mac);
    if (auto updated = node.bpf.update_port(id, *entry); !updated) return updated;
    if (auto again = node.bridges.put_port(id, **port); !again) return again;
    for (const std::uint16_t vlan : vlans_of(access)) {
        if (auto gone = node.bridges.remove_static_if_of(id, vlan, old); !gone) return gone;
        if (!bridge->separates_vlans) continue;
        auto gone = node.rtnl.remove_bridge_mac_if_present({.mac = old, .vlan = vlan, .port = device});
        if (!gone) return gone;
    }
    return ok();
}

Result<std::string> find_bridge_fault(Node& node, const std::string& network, std::uint16_t vlan) {
    auto kernel = node.rtnl.find_link(bridge_name(network));
    if (!kernel) return std::move(kernel.error());
    if (!*kernel) return "bridge " + bridge_name(network) + " is gone";
    if (!(*kernel)->up) return "bridge " + (*kernel)->name + " is down";
    auto host = node.rtnl.find_link(host_port_name(network, vlan));
    if (!host) return std::move(host.error());
    if (!*host) return "the host's own port " + host_port_name(network, vlan) + " is gone";
    if (!(*host)->up) return "the host's own port " + (*host)->name + " is down";
    auto port = node.rtnl.find_link((*host)->peer);
    if (!port) return std::move(port.error());
    if (!*port || (*port)->master != (*kernel)->index)
        return "the host's own port " + (*host)->name + " is no longer at bridge " + (*kernel)->name;
    if (!(*port)->up) return "the host's own port " + (*port)->name + " is down";
    return find_link_fault(node, node.ns, bridge_pin((*port)->name), **port, bpf::Program::bridge);
}

Result<std::string> find_bridged_port_fault(Node& node, const std::string& network, bpf::PortId id,
                                            const Link& host_end, const BridgeAccess& access, const Mac& mac) {
    auto kernel = node.rtnl.find_link(bridge_name(network));
    if (!kernel) return std::move(kernel.error());
    if (!*kernel || host_end.master != (*kernel)->index)
        return who(host_end) + " is no longer a port of bridge " + bridge_name(network);
    const bool separates = !access.uses_vlans() || (*kernel)->filters_vlans;
    const netlink::BridgePort wanted{.learning = false, .isolated = access.isolated || !separates};
    if (host_end.bridge_port != wanted)
        return who(host_end) + " learns, or has another isolation, in the kernel's bridge";
    auto port = node.bridges.find_port(id);
    if (!port) return std::move(port.error());
    if (!*port) return who(host_end) + " is missing in the bridge's tables";
    if ((*port)->vlan != access.vlan || (*port)->tagged != access.tagged || (*port)->isolated != access.isolated)
        return who(host_end) + " has other VLANs or another isolation in the bridge's tables";
    auto fdb = node.bridges.list_fdb((*port)->bridge);
    if (!fdb) return std::move(fdb.error());
    for (const std::uint16_t vlan : vlans_of(access)) {
        const bool known = std::ranges::any_of(*fdb, [&](const bpf::FdbEntry& entry) {
            return entry.mac == mac && entry.vlan == vlan && entry.port == id && !entry.age;
        });
        if (!known) return "MAC " + mac.to_string() + " does not lead to " + host_end.name + " in the bridge's tables";
        if (!separates) continue;
        auto at = node.rtnl.find_bridge_mac((*kernel)->index, vlan, mac);
        if (!at) return std::move(at.error());
        if (*at != host_end.index)
            return "MAC " + mac.to_string() + " does not lead to " + host_end.name + " in the kernel's bridge";
    }
    return std::string{};
}

}  // namespace xveth::datapath
