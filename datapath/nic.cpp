// SPDX-License-Identifier: Apache-2.0
#include "datapath/nic.hpp"

#include <algorithm>
#include <cerrno>

#include "base/files.hpp"
#include "datapath/arming.hpp"
#include "datapath/bridge_parts.hpp"

namespace xveth::datapath {
namespace {

using netlink::IfIndex;
using netlink::Link;

constexpr const char* vlan_parse = "rx-vlan-hw-parse";

// The devices of the default routes of both families, each once.
Result<std::vector<Link>> default_route_devices(netlink::Rtnl& rtnl) {
    std::vector<IfIndex> devices;
    for (const Family family : {Family::ipv4, Family::ipv6}) {
        auto routes = rtnl.list_routes(family, IfIndex::none);
        if (!routes) return std::move(routes.error()).in("look for the default route");
        for (const auto& route : *routes)
            if (route.destination.is_default() && route.device != IfIndex::none &&
                std::ranges::find(devices, route.device) == devices.end())
                devices.push_back(route.device);
    }
    std::vector<Link> links;
    for (const IfIndex device : devices) {
        auto link = rtnl.find_link(device);
        if (!link) return std::move(link.error());
        if (*link && !(*link)->loopback) links.push_back(std::move(**link));
    }
    return links;
}

// Remembers that VLAN parsing was on, for detach_nic().
std::string vlan_record(const Node& node, const Link& nic) {
    return node.lock_path + "-" + nic_pin(static_cast<std::uint32_t>(nic.index)) + "-vlan-parse";
}

// Whether the NIC carries the bridge's program, which stays when the bridge goes. Error 7 while it is a port of one.
Result<bool> is_of_bridge(Node& node, const bpf::LinkInfo& link) {
    const auto program = node.bpf.program_id(bpf::Program::bridge);
    if (!program && program.error().errno_value != ENOENT) return program.error();
    if (!program || *program != link.program_id) return false;
    auto id = node.bpf.find_port(link.ifindex);
    if (!id) return std::move(id.error());
    if (!*id) return true;
    auto port = node.bpf.get_port(**id);
    if (!port) return std::move(port.error());
    if (port->bridge == 0) return true;
    return Error{.code = 7,
                 .errno_value = EBUSY,
                 .text = "it is a port of a network in bridge mode",
                 .hint = "name another NIC, or delete the containers of that network"};
}

Result<void> ensure_program(Node& node, const Link& nic) {
    const auto index = static_cast<std::uint32_t>(nic.index);
    auto link = node.bpf.find_link(nic_pin(index));
    if (!link) return std::move(link.error());
    if (*link && (*link)->ifindex == index) {
        auto bridge = is_of_bridge(node, **link);
        if (!bridge) return std::move(bridge.error());
        if (!*bridge) return ok();
    }
    if (*link) {  // of a device that is gone, whose ifindex a new one got; or of a bridge that is gone
        if (auto removed = node.bpf.remove_link_if_present(nic_pin(index)); !removed) return removed;
    }
    if (auto kept = keep_vlan_tags_in_frames(node, nic); !kept) return kept;
    return node.bpf.attach(node.ns, index, bpf::Program::nic, nic_pin(index));
}

bpf::xv_port describe(const Link& nic, bool target) {
    bpf::xv_port port{};
    port.ifindex = static_cast<std::uint32_t>(nic.index);
    port.flags = bpf::XV_PORT_NIC | bpf::XV_PORT_FAST | (target ? std::uint32_t{bpf::XV_PORT_TARGET} : 0U);
    port.mtu = nic.mtu;
    std::ranges::copy(nic.mac.bytes, port.mac);
    std::ranges::copy(nic.mac.bytes, port.host_mac);
    return port;
}

bool same_port(const bpf::xv_port& a, const bpf::xv_port& b) {
    return a.ifindex == b.ifindex && a.flags == b.flags && a.mtu == b.mtu && std::ranges::equal(a.mac, b.mac) &&
           std::ranges::equal(a.host_mac, b.host_mac);
}

// Allocates or refreshes the NIC's port; frames go to it by redirect only if `target`.
Result<void> ensure_port(Node& node, const Link& nic, bool target) {
    const auto wanted = describe(nic, target);
    auto known = node.bpf.find_port(wanted.ifindex);
    if (!known) return std::move(known.error());
    bpf::PortId id = known->value_or(bpf::PortId::none);
    if (id == bpf::PortId::none) {
        auto allocated = node.bpf.allocate_port(wanted);
        if (!allocated) return std::move(allocated.error());
        id = *allocated;
    } else {
        auto now = node.bpf.get_port(id);
        if (!now) return std::move(now.error());
        auto entry = node.bpf.find_target(id);
        if (!entry) return std::move(entry.error());
        if (same_port(*now, wanted) && entry->has_value() == target) return ok();
        if (auto updated = node.bpf.update_port(id, wanted); !updated) return updated;
    }
    auto entered = target ? node.bpf.put_target(id, wanted.ifindex) : node.bpf.remove_target_if_present(id);
    if (!entered) return entered;
    return node.bpf.bump_generation();
}

// bpf_fib_lookup accepts a stale neighbour and never probes: the kernel has to keep the next hops resolved by itself.
Result<void> keep_gateways_resolved(Node& node, const Link& nic) {
    for (const Family family : {Family::ipv4, Family::ipv6}) {
        auto routes = node.rtnl.list_routes(family, nic.index);
        if (!routes) return std::move(routes.error());
        for (const auto& route : *routes) {
            if (!route.gateway) continue;
            auto known = node.rtnl.find_neighbour(nic.index, *route.gateway);
            if (!known) return std::move(known.error());
            if (*known && ((*known)->managed || (*known)->state == netlink::NeighbourState::permanent)) continue;
            const netlink::Neighbour managed{.device = nic.index,
                                             .address = *route.gateway,
                                             .mac = {},
                                             .state = netlink::NeighbourState::none,
                                             .managed = true};
            if (auto kept = node.rtnl.replace_neighbour(managed); !kept) return kept;
        }
    }
    return ok();
}

Result<void> ensure_nic(Node& node, const Link& nic, std::vector<std::string>& notes) {
    if (auto attached = ensure_program(node, nic); !attached) return attached;
    auto target = takes_redirected_frames(node.rtnl, nic.index);
    if (!target) return std::move(target.error());
    if (!*target)
        notes.push_back("NIC " + nic.name + " cannot take redirected frames (no NDO_XMIT)" +
                        (nic.kind == "veth" ? ": switch GRO on at its other end" : "") +
                        "; flows beyond this node use the stack");
    if (auto port = ensure_port(node, nic, *target); !port) return port;
    return keep_gateways_resolved(node, nic);
}

}  // namespace

Result<void> keep_vlan_tags_in_frames(Node& node, const Link& nic) {
    auto features = node.rtnl.features(nic.index);
    if (!features) return std::move(features.error());
    const auto parse = features->find(vlan_parse);
    if (parse == features->end() || !parse->second.active) return ok();
    if (parse->second.changeable) {
        if (auto off = node.rtnl.set_features(nic.index, {{.name = vlan_parse, .on = false}}); !off) return off;
        return write_file_atomically(vlan_record(node, nic), "on\n");
    }
    auto links = node.rtnl.list_links();
    if (!links) return std::move(links.error());
    const bool has_vlans =
        std::ranges::any_of(*links, [&](const Link& link) { return link.kind == "vlan" && link.peer == nic.index; });
    if (!has_vlans) return ok();
    return Error{.code = 101,
                 .errno_value = EOPNOTSUPP,
                 .text = std::string(vlan_parse) + " is fixed on, and " + nic.name +
                         " carries VLAN devices: their frames would reach containers untagged",
                 .hint = "use another NIC, or \"nic\": \"none\""};
}

std::string nic_pin(std::uint32_t ifindex) { return "nic-" + std::to_string(ifindex); }

Result<std::vector<Link>> choose_nics(netlink::Rtnl& rtnl, const NicRequest& request, std::vector<std::string>& notes) {
    if (request.automatic) return default_route_devices(rtnl);
    std::vector<Link> links;
    for (const auto& name : request.names) {
        auto link = rtnl.find_link(name);
        if (!link) return std::move(link.error());
        if (*link) {
            links.push_back(std::move(**link));
        } else if (request.required) {
            return Error{.code = 7,
                         .errno_value = ENODEV,
                         .text = "key \"nic\": there is no device " + name,
                         .hint = "name a device of this node, or \"auto\" or \"none\""};
        } else {
            notes.push_back("NIC " + name + " skipped: there is no such device");
        }
    }
    return links;
}

Result<NicSet> ensure_nics(Node& node, const NodeLock&, const NicRequest& request, std::vector<std::string>& notes) {
    auto chosen = choose_nics(node.rtnl, request, notes);
    if (!chosen) return std::move(chosen.error());
    NicSet set;
    for (auto& nic : *chosen) {
        set.mtu = set.mtu == 0 ? nic.mtu : std::min(set.mtu, nic.mtu);
        auto ready = ensure_nic(node, nic, notes);
        if (ready) {
            set.links.push_back(std::move(nic));
        } else if (request.required) {
            return std::move(ready.error()).in("NIC " + nic.name).or_code(101);
        } else {
            notes.push_back("NIC " + nic.name + " skipped: " + ready.error().text);
        }
    }
    return set;
}

Result<void> detach_nic(Node& node, const NodeLock&, const Link& nic) {
    const auto index = static_cast<std::uint32_t>(nic.index);
    auto id = node.bpf.find_port(index);
    if (!id) return std::move(id.error());
    if (*id) {
        auto port = node.bpf.get_port(**id);
        if (!port) return std::move(port.error());
        if (port->bridge != 0) {
            if (auto released = release_bridge_nic(node, nic); !released) return released;
        } else if (auto freed = node.bpf.free_port(**id); !freed) {
            return freed;
        }
        if (auto bumped = node.bpf.bump_generation(); !bumped) return bumped;
    }
    if (auto removed = node.bpf.remove_link_if_present(nic_pin(index)); !removed) return removed;
    if (!read_file(vlan_record(node, nic))) return ok();
    if (auto on = node.rtnl.set_features(nic.index, {{.name = vlan_parse, .on = true}}); !on) return on;
    return remove_file_if_present(vlan_record(node, nic));
}

}  // namespace xveth::datapath
