// SPDX-License-Identifier: Apache-2.0
#include "datapath/addressing.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace xveth::datapath {
namespace {

using netlink::IfIndex;
using netlink::Route;

// fe80::/64 with the modified EUI-64 of a MAC.
IpAddress link_local_of(const Mac& mac) {
    IpAddress address{.family = Family::ipv6, .bytes = {0xfe, 0x80}};
    const auto& m = mac.bytes;
    const std::array<std::uint8_t, 8> id{
        static_cast<std::uint8_t>(m[0] ^ 2U), m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
    std::ranges::copy(id, address.bytes.begin() + 8);
    return address;
}

// Every family's first gateway.
std::optional<IpAddress> gateway_of(const AddressPlan& plan, Family family) {
    for (const auto& address : plan.addresses)
        if (address.prefix.address.family == family) return address.gateway;
    return std::nullopt;
}

std::vector<IpAddress> distinct_gateways(const AddressPlan& plan) {
    std::vector<IpAddress> gateways;
    for (const auto& address : plan.addresses)
        if (std::ranges::find(gateways, address.gateway) == gateways.end()) gateways.push_back(address.gateway);
    return gateways;
}

bool is_local(const AddressPlan& plan, const IpPrefix& destination) {
    return std::ranges::any_of(plan.local_subnets, [&](const IpPrefix& local) {
        return local.length <= destination.length && local.contains(destination.address);
    });
}

void add_once(std::vector<Route>& routes, Route route) {
    const bool known = std::ranges::any_of(routes, [&](const Route& other) {
        return other.destination.network() == route.destination.network() && other.table == route.table &&
               other.priority == route.priority;
    });
    if (!known) routes.push_back(std::move(route));
}

Result<void> add_link_local(netlink::Rtnl& rtnl, IfIndex device, const Mac& mac) {
    const netlink::Address address{.prefix = {.address = link_local_of(mac), .length = 64},
                                   .peer = {},
                                   .scope = netlink::scope_link,
                                   .no_dad = true,
                                   .no_prefix_route = false,
                                   .tentative = false};
    return rtnl.add_address(device, address);
}

bool uses(const AddressPlan& plan, Family family) { return gateway_of(plan, family).has_value(); }

netlink::Address usable_at_once(const IpPrefix& prefix) {
    return {.prefix = prefix,
            .peer = {},
            .scope = netlink::scope_universe,
            .no_dad = true,
            .no_prefix_route = true,
            .tentative = false};
}

// Devices whose IPv6 default route came with a router advertisement keep listening to them.
Result<void> keep_router_advertisements(Node& node) {
    auto routes = node.rtnl.list_routes(Family::ipv6, IfIndex::none);
    if (!routes) return std::move(routes.error());
    for (const auto& route : *routes) {
        if (!route.destination.is_default()) continue;
        auto link = node.rtnl.find_link(route.device);
        if (!link) return std::move(link.error());
        if (!*link) continue;
        const std::string name = "net/ipv6/conf/" + (*link)->name + "/accept_ra";
        auto accepts = node.sysctls.read(node.ns, name);
        if (!accepts && accepts.error().errno_value != ENOENT) return std::move(accepts.error()).or_code(100);
        if (!accepts || *accepts != "1") continue;
        if (auto kept = node.sysctls.ensure(node.ns, name, "2"); !kept) return std::move(kept.error()).or_code(100);
    }
    return ok();
}

}  // namespace

Result<void> ensure_link_local(netlink::Rtnl& rtnl, IfIndex device, const Mac& mac) {
    auto present = rtnl.list_addresses(device);
    if (!present) return std::move(present.error());
    const auto own = link_local_of(mac);
    if (std::ranges::any_of(*present, [&](const auto& known) { return known.prefix.address == own; })) return ok();
    return add_link_local(rtnl, device, mac);
}

Result<void> configure_bridged_container(netlink::Rtnl& container, const VethPair& pair, const BridgedLayer3& layer3) {
    const IfIndex device = pair.container.index;
    const bool ipv6 = std::ranges::any_of(layer3.addresses,
                                          [](const IpPrefix& prefix) { return prefix.address.family == Family::ipv6; });
    if (ipv6) {
        if (auto added = add_link_local(container, device, pair.container.mac); !added) return added;
    }
    for (const auto& prefix : layer3.addresses) {
        auto address = usable_at_once(prefix);
        address.no_prefix_route = false;
        if (auto added = container.add_address(device, address); !added) return added;
    }
    for (auto route : layer3.routes) {
        route.device = device;
        if (auto added = container.add_route(route); !added) return added;
    }
    return ok();
}

Result<void> announce_addresses(netlink::Rtnl& container, const VethPair& pair) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (;;) {
        auto present = container.list_addresses(pair.container.index);
        if (!present) return std::move(present.error());
        if (std::ranges::none_of(*present, &netlink::Address::tentative)) break;
        if (std::chrono::steady_clock::now() >= deadline) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return container.set_mac(pair.container.index, pair.container.mac);
}

IpAddress default_gateway_of(const IpPrefix& address) {
    const unsigned host_bits = address.address.bits() - address.length;
    IpAddress first = address.network().address;
    first.bytes.at(first.size() - 1) |= 1U;
    if (host_bits >= 2 && first != address.address) return first;
    return address.address.family == Family::ipv4 ? *IpAddress::parse("169.254.1.1") : *IpAddress::parse("fe80::1");
}

std::vector<Route> container_routes(const AddressPlan& plan, IfIndex device) {
    std::vector<Route> routes;
    for (const auto& gateway : distinct_gateways(plan)) {
        Route link_route;
        link_route.destination = IpPrefix::host(gateway);
        link_route.device = device;
        link_route.scope = netlink::scope_link;
        if (gateway.is_link_local() && gateway.family == Family::ipv6) continue;  // reached by fe80::/64 already
        add_once(routes, link_route);
    }
    const auto via_gateway = [&](const IpPrefix& destination, std::optional<IpAddress> gateway) {
        Route route;
        route.destination = destination.network();
        route.gateway = gateway ? gateway : gateway_of(plan, destination.address.family);
        route.device = device;
        route.onlink = true;
        if (!is_local(plan, destination)) route.mtu = plan.path_mtu;
        return route;
    };
    for (const auto& wanted : plan.routes) {
        Route route = via_gateway(wanted.destination, wanted.gateway);
        if (wanted.mtu != 0) route.mtu = plan.path_mtu == 0 ? wanted.mtu : std::min(wanted.mtu, plan.path_mtu);
        route.advmss = wanted.advmss;
        route.priority = wanted.priority;
        route.table = wanted.table;
        if (wanted.scope == netlink::scope_link && !wanted.gateway) {
            route.gateway.reset();
            route.onlink = false;
            route.scope = netlink::scope_link;
        }
        // A family that the container has no address of has no gateway either: such a route leads nowhere.
        if (!route.gateway && route.onlink) continue;
        add_once(routes, route);
    }
    for (const auto& subnet : plan.local_subnets)
        if (uses(plan, subnet.address.family)) add_once(routes, via_gateway(subnet, std::nullopt));
    for (const auto& address : plan.addresses)
        if (address.prefix.length < address.prefix.address.bits())
            add_once(routes, via_gateway(address.prefix, address.gateway));
    return routes;
}

Result<void> configure_container(netlink::Rtnl& container, const VethPair& pair, const AddressPlan& plan) {
    const IfIndex device = pair.container.index;
    if (uses(plan, Family::ipv6)) {
        if (auto added = add_link_local(container, device, pair.container.mac); !added) return added;
    }
    for (const auto& address : plan.addresses) {
        if (auto added = container.add_address(device, usable_at_once(address.prefix)); !added) return added;
    }
    // The gateway's MAC is known, so the first packet waits for nobody.
    for (const auto& gateway : distinct_gateways(plan)) {
        const netlink::Neighbour known{.device = device,
                                       .address = gateway,
                                       .mac = pair.host.mac,
                                       .state = netlink::NeighbourState::permanent,
                                       .managed = false};
        if (auto added = container.replace_neighbour(known); !added) return added;
    }
    for (const auto& route : container_routes(plan, device)) {
        if (auto added = container.add_route(route); !added) return added;
    }
    return ok();
}

Result<void> configure_host(Node& node, const VethPair& pair, const AddressPlan& plan) {
    const IfIndex device = pair.host.index;
    if (uses(plan, Family::ipv6)) {
        if (auto added = add_link_local(node.rtnl, device, pair.host.mac); !added) return added;
    }
    for (const auto& gateway : distinct_gateways(plan)) {
        if (auto added = node.rtnl.add_address(device, usable_at_once(IpPrefix::host(gateway))); !added) return added;
    }
    for (const auto& address : plan.addresses) {
        // STALE, not permanent: a container that announces another MAC, or answers no probe at this one, is then found
        // again.
        const netlink::Neighbour known{.device = device,
                                       .address = address.prefix.address,
                                       .mac = pair.container.mac,
                                       .state = netlink::NeighbourState::stale,
                                       .managed = false};
        if (auto added = node.rtnl.replace_neighbour(known); !added) return added;
        Route route;
        route.destination = IpPrefix::host(address.prefix.address);
        route.device = device;
        route.scope = netlink::scope_link;
        if (auto added = node.rtnl.add_route(route); !added) return added;
    }
    return ok();
}

Result<void> await_local_route(netlink::Rtnl& rtnl, const IpAddress& address) {
    if (address.family == Family::ipv4) return ok();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (;;) {
        auto route = rtnl.route_to(address);
        if (!route) return std::move(route.error());
        if (*route && (*route)->local) return ok();
        if (std::chrono::steady_clock::now() >= deadline)
            return errno_error(ETIMEDOUT, "wait for the local route of " + address.to_string()).with_code(100);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

Result<void> await_local_routes(Node& node, netlink::Rtnl& container, const AddressPlan& plan) {
    for (const auto& [prefix, gateway] : plan.addresses) {
        if (auto local = await_local_route(container, prefix.address); !local) return local;
        if (gateway.is_link_local()) continue;  // every device may have it: no route tells them apart
        if (auto local = await_local_route(node.rtnl, gateway); !local) return local;
    }
    return ok();
}

Result<void> ensure_forwarding(Node& node, bool ipv4, bool ipv6) {
    if (ipv4) {
        if (auto on = node.sysctls.ensure(node.ns, "net/ipv4/ip_forward", "1"); !on)
            return std::move(on.error()).or_code(100);
    }
    if (!ipv6) return ok();
    auto now = node.sysctls.read(node.ns, "net/ipv6/conf/all/forwarding");
    if (now && *now == "1") return ok();
    if (auto kept = keep_router_advertisements(node); !kept) return kept;
    if (auto on = node.sysctls.ensure(node.ns, "net/ipv6/conf/all/forwarding", "1"); !on)
        return std::move(on.error()).or_code(100);
    return ok();
}

Result<void> announce_mac_changes(Node& node, const Netns& ns, const std::string& device, bool ipv4, bool ipv6) {
    if (ipv4) {
        auto on = node.sysctls.ensure(ns, "net/ipv4/conf/" + device + "/arp_notify", "1");
        if (!on) return std::move(on.error()).or_code(100);
    }
    if (ipv6) {
        auto on = node.sysctls.ensure(ns, "net/ipv6/conf/" + device + "/ndisc_notify", "1");
        if (!on) return std::move(on.error()).or_code(100);
    }
    return ok();
}

Result<void> ensure_ipv6(Node& node, const Netns& ns, const std::string& device) {
    auto enabled = node.sysctls.ensure(ns, "net/ipv6/conf/" + device + "/disable_ipv6", "0");
    if (enabled) return ok();
    if (enabled.error().errno_value != ENOENT) return std::move(enabled.error()).or_code(100);
    return Error{.code = 100,
                 .errno_value = EAFNOSUPPORT,
                 .text = "an IPv6 address for " + device + ", but the kernel runs without IPv6",
                 .hint = "boot without ipv6.disable=1, or take the IPv6 range out of the IPAM configuration"};
}

}  // namespace xveth::datapath
