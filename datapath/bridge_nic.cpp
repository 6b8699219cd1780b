// SPDX-License-Identifier: Apache-2.0
// NICs as ports of a bridge.
#include <algorithm>
#include <cerrno>

#include "datapath/arming.hpp"
#include "datapath/bridge.hpp"
#include "datapath/bridge_parts.hpp"
#include "datapath/nic.hpp"
#include "datapath/policy.hpp"

namespace xveth::datapath {
namespace {

using netlink::Link;

Error unusable(const Link& nic, const std::string& why, const std::string& cure) {
    return {.code = 7,
            .errno_value = EBUSY,
            .text = R"(key "nic": )" + nic.name + " cannot be a port of a bridge: " + why,
            .hint = cure};
}

// Frames for the node itself that come in at a bridge's port never reach the node's stack.
Result<void> refuse_nic_in_use(Node& node, const NetworkBridge& bridge, const Link& nic) {
    if (nic.loopback || nic.kind == "bridge") return unusable(nic, "it is no NIC", "name another device");
    if (nic.master != netlink::IfIndex::none && nic.master != bridge.kernel.index)
        return unusable(nic, "it belongs to another device (bond, bridge)",
                        "take it out there, or name another device");
    auto addresses = node.rtnl.list_addresses(nic.index);
    if (!addresses) return std::move(addresses.error());
    for (const auto& address : *addresses)
        if (address.scope != netlink::scope_link)
            return unusable(nic, "it has address " + address.prefix.to_string() + ", which would be cut off",
                            "name a device without addresses");
    return ok();
}

Result<void> ensure_nic_program(Node& node, const Link& nic) {
    const auto index = static_cast<std::uint32_t>(nic.index);
    auto link = node.bpf.find_link(nic_pin(index));
    if (!link) return std::move(link.error());
    auto ours = node.bpf.program_id(bpf::Program::bridge);
    if (!ours) return std::move(ours.error());
    if (*link && (*link)->ifindex == index) {
        if ((*link)->program_id == *ours) return ok();
        return unusable(nic, "it is a port of a routed network", "xvethctl nic detach " + nic.name);
    }
    if (auto removed = node.bpf.remove_link_if_present(nic_pin(index)); !removed) return removed;
    if (auto kept = keep_vlan_tags_in_frames(node, nic); !kept) return kept;
    return node.bpf.attach(node.ns, index, bpf::Program::bridge, nic_pin(index));
}

// A container's VLANs are added to those that the NIC has already.
Result<void> ensure_nic_port(Node& node, const NetworkBridge& bridge, const Link& nic, const BridgeAccess& access,
                             bool fast) {
    BridgeAccess wanted{.vlan = 0, .tagged = access.tagged, .isolated = false};
    if (access.vlan != 0) wanted.tagged.set(access.vlan);
    auto id = node.bpf.find_port(static_cast<std::uint32_t>(nic.index));
    if (!id) return std::move(id.error());
    std::optional<bpf::BridgePort> present;
    if (*id) {
        auto port = node.bridges.find_port(**id);
        if (!port) return std::move(port.error());
        present = *port;
    }
    const bool joined = nic.master == bridge.kernel.index;
    if (present) wanted.tagged |= present->tagged;
    if (joined && present && present->tagged == wanted.tagged) return ok();
    if (!joined) {
        if (auto entered = enslave(node, bridge, nic.index, wanted); !entered) return entered;
    } else if (bridge.separates_vlans && access.uses_vlans()) {
        if (auto again = enslave_vlans(node, nic.index, wanted); !again) return again;
    }
    if (present) {
        present->tagged = wanted.tagged;
        return node.bridges.put_port(**id, *present);
    }
    if (*id) {
        if (auto freed = node.bpf.free_port(**id); !freed) return freed;
    }
    const std::uint32_t flags = bpf::XV_PORT_NIC | (fast ? std::uint32_t{bpf::XV_PORT_FAST} : 0U);
    auto entered = enter_bridge_port(node, bridge, nic, nic.mac, wanted, flags);
    return entered ? ok() : Result<void>(std::move(entered.error()));
}

Result<void> ensure_bridge_nic(Node& node, const NetworkBridge& bridge, const Link& nic, const BridgeSpec& spec,
                               std::vector<std::string>& notes) {
    if (auto usable = refuse_nic_in_use(node, bridge, nic); !usable) return usable;
    if (auto armed = ensure_nic_program(node, nic); !armed) return armed;
    if (!nic.up) {
        if (auto up = node.rtnl.set_up(nic.index, true); !up) return up;
    }
    auto takes = takes_redirected_frames(node.rtnl, nic.index);
    if (!takes) return std::move(takes.error());
    if (!*takes)
        notes.push_back("NIC " + nic.name + " cannot take redirected frames (no NDO_XMIT)" +
                        (nic.kind == "veth" ? ": switch GRO on at its other end" : "") +
                        "; the kernel's bridge sends to it");
    const auto objection = find_bridge_objection(node, {nic.index});
    if (objection) notes.push_back("NIC " + nic.name + " stays with the kernel's bridge: " + *objection);
    if (!bridge.separates_vlans && (objection || !*takes))
        return unusable(nic, "it needs the kernel's bridge, which knows no VLANs here",
                        "a kernel with CONFIG_BRIDGE_VLAN_FILTERING");
    return ensure_nic_port(node, bridge, nic, spec.access, !objection);
}

}  // namespace

Result<void> ensure_bridge_nics(Node& node, const NodeLock&, const NetworkBridge& bridge, const BridgeSpec& spec,
                                std::vector<std::string>& notes) {
    const NicRequest request{.automatic = false, .names = spec.nics, .required = spec.nics_required};
    auto nics = choose_nics(node.rtnl, request, notes);
    if (!nics) return std::move(nics.error());
    for (const auto& nic : *nics) {
        auto ready = ensure_bridge_nic(node, bridge, nic, spec, notes);
        if (ready) continue;
        if (spec.nics_required) return std::move(ready.error()).in("NIC " + nic.name).or_code(101);
        notes.push_back("NIC " + nic.name + " skipped: " + ready.error().text);
    }
    return ok();
}

Result<void> release_bridge_nic(Node& node, const Link& nic) {
    auto id = node.bpf.find_port(static_cast<std::uint32_t>(nic.index));
    if (!id) return std::move(id.error());
    if (*id) {
        if (auto left = node.bridges.remove_port_if_present(**id); !left) return left;
        if (auto freed = node.bpf.free_port(**id); !freed) return freed;
    }
    return node.rtnl.set_master(nic.index, netlink::IfIndex::none);
}

}  // namespace xveth::datapath
