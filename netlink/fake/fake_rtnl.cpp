// SPDX-License-Identifier: Apache-2.0
#include "netlink/fake/fake_rtnl.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace xveth::netlink {
namespace {

constexpr int code_kernel = 100;
constexpr std::uint32_t main_table = 254;

Error failure(int err, const std::string& what) { return errno_error(err, what).with_code(code_kernel); }

std::uint32_t table_of(const Route& route) { return route.table == 0 ? main_table : route.table; }

bool same_place(const Route& a, const Route& b) {
    return a.destination.network() == b.destination.network() && table_of(a) == table_of(b) && a.priority == b.priority;
}

// The route that the kernel makes for an address with a prefix.
std::optional<Route> prefix_route(IfIndex device, const Address& address) {
    const IpPrefix& prefix = address.prefix;
    if (address.no_prefix_route || prefix.length == prefix.address.bits()) return std::nullopt;
    Route route;
    route.destination = prefix.network();
    route.device = device;
    route.scope = 253;
    return route;
}

}  // namespace

Result<std::unique_ptr<Rtnl>> FakeKernel::open_rtnl(const Netns& ns) {
    if (auto counted = world_.step("open_rtnl"); !counted) return std::move(counted.error());
    return std::unique_ptr<Rtnl>(std::make_unique<FakeRtnl>(world_, ns));
}

Result<FakeDevice*> FakeRtnl::step_at(const char* name, IfIndex device) {
    if (auto counted = world_.step(name); !counted) return std::move(counted.error());
    FakeDevice* found = space().find(device);
    if (found == nullptr) return failure(ENODEV, name);
    return found;
}

// -- links

Result<std::optional<Link>> FakeRtnl::find_link(const std::string& name) {
    if (auto counted = world_.step("find_link"); !counted) return std::move(counted.error());
    const FakeDevice* device = space().find(name);
    return device == nullptr ? std::optional<Link>{} : world_.seen(*device);
}

Result<std::optional<Link>> FakeRtnl::find_link(IfIndex index) {
    if (auto counted = world_.step("find_link"); !counted) return std::move(counted.error());
    const FakeDevice* device = space().find(index);
    return device == nullptr ? std::optional<Link>{} : world_.seen(*device);
}

Result<std::vector<Link>> FakeRtnl::list_links() {
    if (auto counted = world_.step("list_links"); !counted) return std::move(counted.error());
    std::vector<Link> links;
    for (const auto& [index, device] : space().devices) links.push_back(device.link);
    return links;
}

Result<void> FakeRtnl::create_veth(const VethSpec& spec) {
    if (auto counted = world_.step("create_veth"); !counted) return counted;
    return world_.create_veth(spec);
}

Result<void> FakeRtnl::set_alias(IfIndex device, const std::string& alias) {
    auto at = step_at("set_alias", device);
    if (!at) return std::move(at.error());
    (*at)->link.alias = alias;
    return ok();
}

Result<void> FakeRtnl::set_mac(IfIndex device, const Mac& mac) {
    auto at = step_at("set_mac", device);
    if (!at) return std::move(at.error());
    (*at)->link.mac = mac;
    return ok();
}

Result<void> FakeRtnl::set_mtu(IfIndex device, std::uint32_t mtu) {
    auto at = step_at("set_mtu", device);
    if (!at) return std::move(at.error());
    if (mtu > (*at)->link.max_mtu) return failure(EINVAL, "set_mtu");
    (*at)->link.mtu = mtu;
    return ok();
}

Result<void> FakeRtnl::set_up(IfIndex device, bool up) {
    auto at = step_at("set_up", device);
    if (!at) return std::move(at.error());
    const bool was_up = std::exchange((*at)->link.up, up);
    if (!up) std::erase_if(space().routes, [&](const Route& route) { return route.device == device; });
    if (!up || was_up) return ok();
    for (const auto& address : (*at)->addresses)
        if (auto route = prefix_route(device, address)) space().routes.push_back(*route);
    return ok();
}

Result<void> FakeRtnl::set_no_ipv6_autoconf(IfIndex device) {
    auto at = step_at("set_no_ipv6_autoconf", device);
    if (!at) return std::move(at.error());
    return ok();
}

Result<void> FakeRtnl::remove_link_if_present(IfIndex device) {
    if (auto counted = world_.step("remove_link_if_present"); !counted) return counted;
    world_.remove_device(cookie_, device);
    return ok();
}

// -- addresses, routes, neighbours

Result<void> FakeRtnl::add_address(IfIndex device, const Address& address) {
    auto at = step_at("add_address", device);
    if (!at) return std::move(at.error());
    auto& addresses = (*at)->addresses;
    const auto same = [&](const Address& other) { return other.prefix == address.prefix; };
    if (std::ranges::any_of(addresses, same)) return failure(EEXIST, "add address " + address.prefix.to_string());
    addresses.push_back(address);
    if (auto route = prefix_route(device, address); route && (*at)->link.up) space().routes.push_back(*route);
    return ok();
}

Result<std::vector<Address>> FakeRtnl::list_addresses(IfIndex device) {
    auto at = step_at("list_addresses", device);
    if (!at) return std::move(at.error());
    return (*at)->addresses;
}

Result<void> FakeRtnl::add_route(const Route& route) {
    auto at = step_at("add_route", route.device);
    if (!at) return std::move(at.error());
    const std::string what = "add route to " + route.destination.to_string();
    if (!(*at)->link.up) return failure(ENETDOWN, what);
    auto& routes = space().routes;
    if (std::ranges::any_of(routes, [&](const Route& other) { return same_place(other, route); }))
        return failure(EEXIST, what);
    const auto leads_to_gateway = [&](const Route& other) {
        return other.device == route.device && !other.gateway && other.destination.contains(*route.gateway);
    };
    if (route.gateway && !route.onlink && std::ranges::none_of(routes, leads_to_gateway))
        return failure(ENETUNREACH, what);
    routes.push_back(route);
    return ok();
}

Result<void> FakeRtnl::remove_route_if_present(const Route& route) {
    if (auto counted = world_.step("remove_route_if_present"); !counted) return counted;
    std::erase_if(space().routes, [&](const Route& other) {
        return same_place(other, route) && (route.device == IfIndex::none || other.device == route.device);
    });
    return ok();
}

Result<std::optional<Route>> FakeRtnl::route_to(const IpAddress& destination) {
    if (auto counted = world_.step("route_to"); !counted) return std::move(counted.error());
    std::optional<Route> best;
    for (const auto& [index, device] : space().devices)
        for (const auto& address : device.addresses)
            if (address.prefix.address == destination) {
                best.emplace();
                best->destination = IpPrefix::host(destination);
                best->device = index;
                best->local = true;
                return best;
            }
    for (const auto& route : space().routes) {
        const bool fits = table_of(route) == main_table && route.destination.contains(destination);
        if (fits && (!best || route.destination.length > best->destination.length)) best = route;
    }
    return best;
}

Result<std::vector<Route>> FakeRtnl::list_routes(Family family, IfIndex device) {
    if (auto counted = world_.step("list_routes"); !counted) return std::move(counted.error());
    std::vector<Route> routes;
    for (const auto& route : space().routes) {
        const bool wanted = device == IfIndex::none || route.device == device;
        if (wanted && route.destination.address.family == family && table_of(route) == main_table)
            routes.push_back(route);
    }
    return routes;
}

Result<void> FakeRtnl::replace_neighbour(const Neighbour& neighbour) {
    auto at = step_at("replace_neighbour", neighbour.device);
    if (!at) return std::move(at.error());
    (*at)->neighbours[neighbour.address] = neighbour;
    return ok();
}

Result<std::optional<Neighbour>> FakeRtnl::find_neighbour(IfIndex device, const IpAddress& address) {
    auto at = step_at("find_neighbour", device);
    if (!at) return std::move(at.error());
    const auto found = (*at)->neighbours.find(address);
    return found == (*at)->neighbours.end() ? std::optional<Neighbour>{} : found->second;
}

Result<void> FakeRtnl::remove_neighbour_if_present(IfIndex device, const IpAddress& address) {
    if (auto counted = world_.step("remove_neighbour_if_present"); !counted) return counted;
    if (FakeDevice* at = space().find(device)) at->neighbours.erase(address);
    return ok();
}

// -- bridges

Result<void> FakeRtnl::create_bridge(const BridgeSpec& spec) {
    if (auto counted = world_.step("create_bridge"); !counted) return counted;
    return world_.create_bridge(cookie_, spec);
}

Result<void> FakeRtnl::set_master(IfIndex device, IfIndex bridge) {
    auto at = step_at("set_master", device);
    if (!at) return std::move(at.error());
    world_.leave_bridge(cookie_, **at);
    if (bridge == IfIndex::none) return ok();
    if (space().find(bridge) == nullptr) return failure(ENODEV, "set_master");
    (*at)->link.master = bridge;
    (*at)->link.bridge_port.emplace();
    return ok();
}

Result<FakeDevice*> FakeRtnl::step_at_port(const char* name, IfIndex device) {
    auto at = step_at(name, device);
    if (at && !(*at)->link.bridge_port) return failure(EINVAL, name);
    return at;
}

Result<void> FakeRtnl::set_bridge_port(IfIndex device, const BridgePort& port) {
    auto at = step_at_port("set_bridge_port", device);
    if (!at) return std::move(at.error());
    (*at)->link.bridge_port = port;
    return ok();
}

Result<void> FakeRtnl::add_bridge_vlan(IfIndex port, const BridgeVlan& vlan) {
    auto at = step_at_port("add_bridge_vlan", port);
    if (!at) return std::move(at.error());
    (*at)->vlans.push_back(vlan);
    return ok();
}

Result<void> FakeRtnl::put_bridge_mac(const BridgeMac& entry) {
    auto at = step_at_port("put_bridge_mac", entry.port);
    if (!at) return std::move(at.error());
    space().find((*at)->link.master)->bridge_macs[{entry.mac, entry.vlan}] = entry.port;
    return ok();
}

Result<std::optional<IfIndex>> FakeRtnl::find_bridge_mac(IfIndex bridge, std::uint16_t vlan, const Mac& mac) {
    auto at = step_at("find_bridge_mac", bridge);
    if (!at) return std::move(at.error());
    const auto found = (*at)->bridge_macs.find({mac, vlan});
    return found == (*at)->bridge_macs.end() ? std::optional<IfIndex>{} : found->second;
}

Result<void> FakeRtnl::remove_bridge_mac_if_present(const BridgeMac& entry) {
    if (auto counted = world_.step("remove_bridge_mac_if_present"); !counted) return counted;
    const FakeDevice* port = space().find(entry.port);
    FakeDevice* bridge = port == nullptr ? nullptr : space().find(port->link.master);
    if (bridge != nullptr) bridge->bridge_macs.erase({entry.mac, entry.vlan});
    return ok();
}

// -- ethtool and netdev

Result<void> FakeRtnl::set_features(IfIndex device, const std::vector<Feature>& features) {
    auto at = step_at("set_features", device);
    if (!at) return std::move(at.error());
    auto& states = (*at)->features;
    for (const auto& feature : features) {
        const auto state = states.find(feature.name);
        if (state == states.end()) return failure(EOPNOTSUPP, "set feature " + feature.name);
        if (state->second.active != feature.on && !state->second.changeable)
            return failure(EOPNOTSUPP, "set fixed feature " + feature.name);
    }
    for (const auto& feature : features) states[feature.name].active = feature.on;
    return ok();
}

Result<std::map<std::string, FeatureState>> FakeRtnl::features(IfIndex device) {
    auto at = step_at("features", device);
    if (!at) return std::move(at.error());
    return (*at)->features;
}

Result<Channels> FakeRtnl::channels(IfIndex device) {
    auto at = step_at("channels", device);
    if (!at) return std::move(at.error());
    return Channels{.rx = (*at)->link.rx_queues, .tx = (*at)->link.tx_queues};
}

Result<std::uint64_t> FakeRtnl::xdp_features(IfIndex device) {
    auto at = step_at("xdp_features", device);
    if (!at) return std::move(at.error());
    return world_.xdp_features(**at);
}

Result<std::map<std::string, std::uint64_t>> FakeRtnl::driver_statistics(IfIndex device) {
    auto at = step_at("driver_statistics", device);
    if (!at) return std::move(at.error());
    return (*at)->statistics;
}

// -- what else could touch a frame

Result<std::vector<Qdisc>> FakeRtnl::list_qdiscs(IfIndex device) {
    auto at = step_at("list_qdiscs", device);
    if (!at) return std::move(at.error());
    std::vector<Qdisc> qdiscs;
    for (const auto& kind : (*at)->qdiscs) qdiscs.push_back({.device = device, .kind = kind});
    return qdiscs;
}

Result<std::vector<TcFilter>> FakeRtnl::list_tc_filters(IfIndex device) {
    auto at = step_at("list_tc_filters", device);
    if (!at) return std::move(at.error());
    return (*at)->filters;
}

Result<bool> FakeRtnl::has_xfrm_policies() {
    if (auto counted = world_.step("has_xfrm_policies"); !counted) return std::move(counted.error());
    return world_.has_xfrm_policies;
}

Result<bool> FakeRtnl::has_fwmark_rules() {
    if (auto counted = world_.step("has_fwmark_rules"); !counted) return std::move(counted.error());
    return world_.has_fwmark_rules;
}

}  // namespace xveth::netlink
