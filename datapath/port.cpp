// SPDX-License-Identifier: Apache-2.0
#include "datapath/port.hpp"

#include <algorithm>
#include <cerrno>

namespace xveth::datapath {
namespace {

bpf::xv_port describe(const VethPair& pair, const PortSpec& spec) {
    bpf::xv_port port{};
    port.ifindex = static_cast<std::uint32_t>(pair.host.index);
    port.flags = bpf::XV_PORT_TARGET;
    if (spec.fast) port.flags |= bpf::XV_PORT_FAST;
    if (spec.spoof_check) port.flags |= bpf::XV_PORT_SPOOFCHECK;
    if (!spec.sources.empty()) port.flags |= bpf::XV_PORT_EXTRA_SOURCES;
    if (!spec.fast_to.empty()) port.flags |= bpf::XV_PORT_FAST_TO;
    if (spec.place.chain != 0 && spec.place.position == 0) port.flags |= bpf::XV_PORT_PROTECTED;
    if (spec.place.stack_path_passes) port.flags |= bpf::XV_PORT_STACK_PATH;
    port.chain = spec.place.chain;
    port.position = spec.place.position;
    port.mtu = std::min(pair.host.mtu, pair.container.mtu);
    std::ranges::copy(pair.container.mac.bytes, port.mac);
    std::ranges::copy(pair.host.mac.bytes, port.host_mac);
    return port;
}

// An entry whose port is free, or whose device is gone, is what a lost DEL left; it does not hold the address.
Result<bool> is_held(Node& node, const IpAddress& address) {
    auto owner = node.bpf.find_endpoint(address);
    if (!owner) return std::move(owner.error());
    if (!*owner) return false;
    auto port = node.bpf.get_port(**owner);
    if (!port) return std::move(port.error());
    if (port->ifindex == 0) return false;
    auto link = node.rtnl.find_link(netlink::IfIndex{port->ifindex});
    if (!link) return std::move(link.error());
    return link->has_value();
}

Result<void> enter(Node& node, bpf::PortId id, const VethPair& pair, const PortSpec& spec) {
    if (auto put = node.bpf.put_target(id, static_cast<std::uint32_t>(pair.host.index)); !put) return put;
    for (const auto& prefix : spec.fast_to)
        if (auto put = node.bpf.put_fast_to(id, prefix.network()); !put) return put;
    for (const auto& prefix : spec.sources)
        if (auto put = node.bpf.put_source(id, prefix.network()); !put) return put;
    for (const auto& address : spec.addresses)
        if (auto put = node.bpf.put_endpoint(address, id); !put) return put;
    return node.bpf.bump_generation();
}

// What is sent to the node itself would be redirected into the container.
Result<void> refuse_own_addresses(Node& node, const std::vector<IpAddress>& addresses) {
    for (const auto& address : addresses) {
        auto route = node.rtnl.route_to(address);
        if (!route) return std::move(route.error());
        if (*route && (*route)->local)
            return Error{.code = 7,
                         .errno_value = EADDRINUSE,
                         .text = "address " + address.to_string() + " is one of the node's own",
                         .hint =
                             "give the containers a range that holds neither an address of the node nor a gateway "
                             "of another network"};
    }
    return ok();
}

// Only where the node has bridges.
Result<void> leave_bridge(Node& node, bpf::PortId id) {
    auto port = node.bpf.get_port(id);
    if (!port) return std::move(port.error());
    return port->bridge != 0 ? node.bridges.remove_port_if_present(id) : ok();
}

}  // namespace

Error address_is_held(const IpAddress& address, const std::string& holder) {
    return {.code = 7,
            .errno_value = EADDRINUSE,
            .text = "address " + address.to_string() + " belongs to " +
                    (holder.empty() ? "another attachment of this node" : "attachment " + holder),
            .hint = "two networks of one node cannot share an address in route mode: give them ranges of their own"};
}

Result<void> refuse_held_addresses(Node& node, const std::vector<IpAddress>& addresses, const AddressHolder& holder) {
    for (const auto& address : addresses) {
        auto held = is_held(node, address);
        if (!held) return std::move(held.error());
        if (*held) return address_is_held(address, holder(address));
    }
    return ok();
}

Result<bpf::PortId> publish_port(Node& node, const NodeLock&, const VethPair& pair, const PortSpec& spec,
                                 const AddressHolder& holder) {
    if (auto foreign = refuse_own_addresses(node, spec.addresses); !foreign) return std::move(foreign.error());
    if (auto free = refuse_held_addresses(node, spec.addresses, holder); !free) return std::move(free.error());
    auto id = node.bpf.allocate_port(describe(pair, spec));
    if (!id) return std::move(id.error()).in("port of " + pair.host.name);
    auto entered = enter(node, *id, pair, spec);
    if (entered) return *id;
    (void)withdraw_port(node, *id, spec.addresses);
    return std::move(entered.error()).in("port of " + pair.host.name);
}

Result<void> withdraw_port(Node& node, bpf::PortId id, const std::vector<IpAddress>& addresses) {
    Result<void> first;
    const auto keep_first = [&](Result<void> step) {
        if (first && !step) first = std::move(step);
    };
    keep_first(leave_bridge(node, id));
    for (const auto& address : addresses) keep_first(node.bpf.remove_endpoint_if_of(address, id));
    keep_first(node.bpf.remove_target_if_present(id));
    keep_first(node.bpf.free_port(id));
    keep_first(node.bpf.bump_generation());
    return first;
}

Result<std::vector<IpAddress>> addresses_of(Node& node, bpf::PortId id) {
    auto endpoints = node.bpf.list_endpoints();
    if (!endpoints) return std::move(endpoints.error());
    std::vector<IpAddress> addresses;
    for (const auto& [address, owner] : *endpoints)
        if (owner == id) addresses.push_back(address);
    return addresses;
}

}  // namespace xveth::datapath
