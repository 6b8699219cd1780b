// SPDX-License-Identifier: Apache-2.0
#include "datapath/bridge.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/files.hpp"
#include "datapath/addressing.hpp"
#include "datapath/arming.hpp"
#include "datapath/bridge_parts.hpp"
#include "datapath/port.hpp"

namespace xveth::datapath {
namespace {

using netlink::IfIndex;
using netlink::Link;

// Ten hex digits: with "xvbr-" in front fifteen characters, as many as a device's name may have.
std::string short_hash(const std::string& text) {
    constexpr std::uint64_t low_40 = (std::uint64_t{1} << 40U) - 1;
    const std::uint64_t hash = hash64(text);
    std::array<char, 16> hex{};
    std::snprintf(hex.data(), hex.size(), "%010llx", static_cast<unsigned long long>((hash >> 40U) ^ (hash & low_40)));
    return hex.data();
}

std::string port_alias(const std::string& network, std::uint16_t vlan) {
    return bridge_alias(network).substr(0, 240) + "#" + std::to_string(vlan);
}
std::string port_key(const std::string& network, std::uint16_t vlan) { return network + "#" + std::to_string(vlan); }
std::string inner_name(const std::string& network, std::uint16_t vlan) {
    return "xvbp-" + short_hash(port_key(network, vlan));
}

// Fixed while the machine is the same one: containers that remember the gateway's MAC stay right. Two machines on one wire
// differ.
Mac fixed_mac(const std::string& what) {
    const auto machine = read_file("/etc/machine-id");
    std::array<char, 256> host{};
    if (!machine) (void)::gethostname(host.data(), host.size() - 1);
    std::uint64_t hash = hash64(what + "@" + (machine ? *machine : std::string(host.data())));
    Mac mac;
    for (auto& byte : mac.bytes) {
        byte = static_cast<std::uint8_t>(hash);
        hash >>= 8U;
    }
    mac.bytes[0] = static_cast<std::uint8_t>((mac.bytes[0] & 0xfcU) | 0x02U);
    return mac;
}

Error disagreement(const std::string& network, const std::string& what) {
    return {.code = 7,
            .errno_value = EINVAL,
            .text = "network " + network + ": " + what,
            .hint = "one bridge serves all containers of a network: use the same value, or a network of another name"};
}

Result<Link> read_back(Node& node, const std::string& name) {
    auto link = node.rtnl.find_link(name);
    if (!link) return std::move(link.error());
    if (!*link) return errno_error(ENODEV, "read back " + name).with_code(100);
    return std::move(**link);
}

// ---- the kernel's bridge

Result<Link> create_kernel_bridge(Node& node, const std::string& network, bool vlans) {
    const std::string name = bridge_name(network);
    netlink::BridgeSpec spec{.name = name, .mac = fixed_mac(name), .filters_vlans = vlans};
    auto created = node.rtnl.create_bridge(spec);
    if (!created && vlans && created.error().errno_value == EOPNOTSUPP) {
        spec.filters_vlans = false;
        created = node.rtnl.create_bridge(spec);
    }
    if (!created) return std::move(created.error());
    return read_back(node, name);
}

Result<Link> ensure_kernel_bridge(Node& node, const std::string& network, bool vlans) {
    auto found = node.rtnl.find_link(bridge_name(network));
    if (!found) return std::move(found.error());
    if (*found &&
        ((*found)->kind != "bridge" || ((*found)->alias != bridge_alias(network) && !(*found)->alias.empty())))
        return Error{.code = 100,
                     .errno_value = EEXIST,
                     .text = "create bridge " + (*found)->name + ": the node has a device of this name, of alias \"" +
                             (*found)->alias + "\", that xveth did not make for network " + network,
                     .hint = "rename or remove it: ip link set " + (*found)->name + " name OTHER"};
    auto bridge = *found ? Result<Link>(std::move(**found)) : create_kernel_bridge(node, network, vlans);
    if (!bridge) return bridge;
    if (bridge->alias.empty()) {
        if (auto named = node.rtnl.set_alias(bridge->index, bridge_alias(network)); !named)
            return std::move(named.error());
        if (auto quiet = node.rtnl.set_no_ipv6_autoconf(bridge->index); !quiet) return std::move(quiet.error());
    }
    if (!bridge->up) {
        if (auto up = node.rtnl.set_up(bridge->index, true); !up) return std::move(up.error());
    }
    return bridge;
}

// ---- the host's own port

// What stands for its being complete: it is entered last.
Result<bool> is_complete(Node& node, const NetworkBridge& bridge, const Link& port, const Link& host) {
    if (port.peer != host.index || port.master != bridge.kernel.index || !port.up || !host.up) return false;
    auto id = node.bpf.find_port(static_cast<std::uint32_t>(port.index));
    if (!id) return std::move(id.error());
    if (!*id) return false;
    auto entry = node.bridges.find_port(**id);
    if (!entry) return std::move(entry.error());
    return *entry && (*entry)->bridge == bridge.id;
}

Result<void> remove_port_of(Node& node, std::uint32_t ifindex) {
    auto id = node.bpf.find_port(ifindex);
    if (!id) return std::move(id.error());
    if (!*id) return ok();
    if (auto left = node.bridges.remove_port_if_present(**id); !left) return left;
    return node.bpf.free_port(**id);
}

Result<void> remove_host_port(Node& node, const std::string& name, const std::string& alias) {
    auto port = find_host_end(node, name, alias);
    if (!port) return std::move(port.error());
    if (*port) {
        if (auto removed = remove_port_of(node, static_cast<std::uint32_t>((*port)->index)); !removed) return removed;
    }
    if (auto gone = node.bpf.remove_link_if_present(bridge_pin(name)); !gone) return gone;
    return remove_veth_pair_if_present(node, name, alias);
}

Result<Link> create_host_port(Node& node, const NetworkBridge& bridge, const BridgeSpec& spec, std::uint32_t mtu) {
    const std::uint16_t vlan = spec.access.vlan;
    const std::string name = inner_name(spec.network, vlan);
    const std::string alias = port_alias(spec.network, vlan);
    if (auto stale = remove_host_port(node, name, alias); !stale) return std::move(stale.error());
    const VethPairSpec veth{.host_name = name,
                            .alias = alias,
                            .container_name = host_port_name(spec.network, vlan),
                            .container_mac = fixed_mac(host_port_name(spec.network, vlan)),
                            .mtu = mtu,
                            .queues = spec.queues};
    auto pair = create_veth_pair(node, node.ns, node.rtnl, veth);
    if (!pair) return std::move(pair.error());
    const IfIndex host = pair->container.index;
    if (auto named = node.rtnl.set_alias(host, alias); !named) return std::move(named.error());
    if (auto set = node.rtnl.set_features(host, container_end_features()); !set) return std::move(set.error());
    if (auto set = node.rtnl.set_features(pair->host.index, host_end_features(false)); !set)
        return std::move(set.error());
    if (auto joined = enslave(node, bridge, pair->host.index, {.vlan = vlan}); !joined)
        return std::move(joined.error());
    if (auto up = node.rtnl.set_up(host, true); !up) return std::move(up.error());
    if (auto up = node.rtnl.set_up(pair->host.index, true); !up) return std::move(up.error());
    auto attached =
        node.bpf.attach(node.ns, static_cast<std::uint32_t>(pair->host.index), bpf::Program::bridge, bridge_pin(name));
    if (!attached) return std::move(attached.error()).in("the host's port " + name).or_code(101);
    if (auto carrier = await_carrier(node, node.rtnl, *pair); !carrier) return std::move(carrier.error());
    auto entered = enter_bridge_port(node, bridge, pair->host, pair->container.mac, {.vlan = vlan}, bpf::XV_PORT_FAST);
    if (!entered) return std::move(entered.error());
    return std::move(pair->container);
}

Result<Link> ensure_host_port(Node& node, const NetworkBridge& bridge, const BridgeSpec& spec) {
    auto port = node.rtnl.find_link(inner_name(spec.network, spec.access.vlan));
    if (!port) return std::move(port.error());
    auto host = node.rtnl.find_link(host_port_name(spec.network, spec.access.vlan));
    if (!host) return std::move(host.error());
    if (*port && *host) {
        auto complete = is_complete(node, bridge, **port, **host);
        if (!complete) return std::move(complete.error());
        if (*complete) return std::move(**host);
    }
    return create_host_port(node, bridge, spec, bridge.mtu);
}

// The MTU that the ports have; 0 without any.
Result<std::uint32_t> present_mtu(Node& node, bpf::BridgeId id) {
    auto ports = node.bridges.list_ports(id);
    if (!ports) return std::move(ports.error());
    for (const auto port : *ports) {
        auto entry = node.bpf.get_port(port);
        if (!entry) return std::move(entry.error());
        if ((entry->flags & bpf::XV_PORT_NIC) == 0) return entry->mtu;
    }
    return 0U;
}

Result<std::uint32_t> agree_on_mtu(Node& node, const BridgeSpec& spec, bpf::BridgeId id) {
    auto present = present_mtu(node, id);
    if (!present) return present;
    if (*present == 0) return spec.mtu != 0 ? spec.mtu : spec.default_mtu;
    if (spec.mtu == 0 || spec.mtu == *present) return *present;
    return disagreement(spec.network, "MTU " + std::to_string(spec.mtu) + " is asked for, and its containers have " +
                                          std::to_string(*present));
}

Result<bpf::BridgeId> ensure_tables(Node& node, const BridgeSpec& spec) {
    if (auto loaded = node.bridges.ensure_loaded(); !loaded) return std::move(loaded.error());
    auto id = node.bridges.put_bridge({.network = spec.network, .vlans = spec.access.uses_vlans()});
    if (id || id.error().errno_value != EBUSY) return id;
    return disagreement(spec.network, spec.access.uses_vlans()
                                          ? "VLANs are asked for, and its containers were attached without"
                                          : "its containers use VLANs, and this one asks for none");
}

bool is_container(const Link& port, const std::string& network) {
    return port.alias.starts_with(bridge_alias(network) + "/");
}

// The bridge's end of a host's own port, whose alias is yet to come when its making was cut off.
std::optional<std::string> alias_of_host_port(const Link& link, const std::string& network) {
    if (!link.name.starts_with("xvbp-")) return std::nullopt;
    if (link.alias.starts_with(bridge_alias(network) + "#")) return link.alias;
    if (!link.alias.empty()) return std::nullopt;
    for (std::uint16_t vlan = 0; vlan < bpf::XV_MAX_VLANS; ++vlan)
        if (link.name == inner_name(network, vlan)) return port_alias(network, vlan);
    return std::nullopt;
}

// The devices of a bridge, containers' apart; nothing when a container is among them.
Result<std::optional<std::vector<Link>>> ports_without_containers(Node& node, const std::string& network,
                                                                  IfIndex bridge) {
    auto links = node.rtnl.list_links();
    if (!links) return std::move(links.error());
    std::vector<Link> ports;
    for (auto& link : *links) {
        if (link.master != bridge && !alias_of_host_port(link, network)) continue;
        if (link.master == bridge && is_container(link, network)) return std::optional<std::vector<Link>>{};
        ports.push_back(std::move(link));
    }
    return std::optional{std::move(ports)};
}

Result<void> remove_tables(Node& node, const std::string& network) {
    auto loaded = node.bridges.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (!*loaded) return ok();
    auto id = node.bridges.find_bridge(network);
    if (!id) return std::move(id.error());
    if (!*id) return ok();
    auto ports = node.bridges.list_ports(**id);
    if (!ports) return std::move(ports.error());
    for (const auto port : *ports) {  // of devices that are gone
        if (auto left = node.bridges.remove_port_if_present(port); !left) return left;
        if (auto freed = node.bpf.free_port(port); !freed) return freed;
    }
    return node.bridges.free_bridge(**id);
}

}  // namespace

std::string bridge_name(const std::string& network) { return "xvb-" + short_hash(network); }
std::string bridge_alias(const std::string& network) { return ("xveth:" + network).substr(0, 255); }
std::string host_port_name(const std::string& network, std::uint16_t vlan) {
    return "xvbr-" + short_hash(port_key(network, vlan));
}
std::string bridge_pin(const std::string& port_name) { return port_name.substr(port_name.find('-') + 1) + "b"; }

Result<NetworkBridge> ensure_bridge(Node& node, const NodeLock& lock, const BridgeSpec& spec,
                                    std::vector<std::string>& notes) {
    const bool vlans = spec.access.uses_vlans();
    // The kernel's bridge comes first and goes last: by it a DEL knows that there is something to remove.
    auto kernel = ensure_kernel_bridge(node, spec.network, vlans);
    if (!kernel) return std::move(kernel.error());
    auto id = ensure_tables(node, spec);
    if (!id) return std::move(id.error());
    NetworkBridge bridge{.kernel = std::move(*kernel), .id = *id, .host = {}, .mtu = 0, .separates_vlans = true};
    bridge.separates_vlans = !vlans || bridge.kernel.filters_vlans;
    if (!bridge.separates_vlans)
        notes.push_back(
            "bridge " + bridge.kernel.name +
            ": this kernel's bridges know no VLANs (CONFIG_BRIDGE_VLAN_FILTERING): what XDP cannot carry is "
            "dropped");
    auto mtu = agree_on_mtu(node, spec, *id);
    if (!mtu) return std::move(mtu.error());
    bridge.mtu = *mtu;
    if (auto nics = ensure_bridge_nics(node, lock, bridge, spec, notes); !nics) return std::move(nics.error());
    if (vlans && spec.access.vlan == 0) return bridge;  // a trunk without a VLAN of its own: none of the host's either
    auto host = ensure_host_port(node, bridge, spec);
    if (!host) return std::move(host.error());
    bridge.host = std::move(*host);
    return bridge;
}

Result<void> ensure_gateway(Node& node, const NodeLock&, const Link& host, const IpPrefix& gateway) {
    const bool ipv6 = gateway.address.family == Family::ipv6;
    if (ipv6) {
        if (auto on = ensure_ipv6(node, node.ns, host.name); !on) return on;
        if (auto added = ensure_link_local(node.rtnl, host.index, host.mac); !added) return added;
    }
    auto present = node.rtnl.list_addresses(host.index);
    if (!present) return std::move(present.error());
    if (std::ranges::any_of(*present, [&](const auto& known) { return known.prefix == gateway; })) return ok();
    auto route = node.rtnl.route_to(gateway.address);
    if (!route) return std::move(route.error());
    if (*route && (*route)->local && (*route)->device != host.index)
        return Error{.code = 7,
                     .errno_value = EADDRINUSE,
                     .text = "gateway " + gateway.address.to_string() + " is an address of the node at another device",
                     .hint = R"(give the network a range of its own, or set "isGateway": false)"};
    return node.rtnl.add_address(host.index, {.prefix = gateway,
                                              .peer = {},
                                              .scope = netlink::scope_universe,
                                              .no_dad = true,
                                              .no_prefix_route = false,
                                              .tentative = false});
}

Result<void> remove_bridge_if_unused(Node& node, const NodeLock&, const std::string& network) {
    auto bridge = node.rtnl.find_link(bridge_name(network));
    if (!bridge) return std::move(bridge.error());
    const bool ours = *bridge && (*bridge)->kind == "bridge" &&
                      ((*bridge)->alias == bridge_alias(network) || (*bridge)->alias.empty());
    if (ours) {
        auto ports = ports_without_containers(node, network, (*bridge)->index);
        if (!ports) return std::move(ports.error());
        if (!*ports) return ok();
        for (const auto& port : **ports) {
            const auto alias = alias_of_host_port(port, network);
            auto removed = alias ? remove_host_port(node, port.name, *alias) : release_bridge_nic(node, port);
            if (!removed) return removed;
        }
    }
    if (auto removed = remove_tables(node, network); !removed) return removed;
    return ours ? node.rtnl.remove_link_if_present((*bridge)->index) : ok();
}

}  // namespace xveth::datapath
