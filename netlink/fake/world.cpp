// SPDX-License-Identifier: Apache-2.0
#include "netlink/fake/world.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <utility>

namespace xveth::netlink {
namespace {

constexpr std::uint32_t limit_beside_a_program = 73138;
constexpr std::uint64_t veth_base = xdp_act_basic | xdp_act_redirect | xdp_act_rx_sg;
constexpr std::uint64_t xmit = xdp_act_ndo_xmit | xdp_act_ndo_xmit_sg;
constexpr int code_kernel = 100;

std::map<std::string, FeatureState> veth_features() {
    const FeatureState on{.active = true, .changeable = true};
    const FeatureState off{.active = false, .changeable = true};
    return {{"rx-gro", off},           {"tx-checksum-ip-generic", on}, {"tx-checksum-sctp", on},
            {"tx-vlan-hw-insert", on}, {"tx-vlan-stag-hw-insert", on}, {"rx-vlan-hw-parse", on}};
}

std::uint32_t number(IfIndex index) { return static_cast<std::uint32_t>(index); }

bool is_active(const FakeDevice& device, const std::string& feature) {
    const auto found = device.features.find(feature);
    return found != device.features.end() && found->second.active;
}

void print(std::ostream& out, const FakeDevice& device) {
    const Link& link = device.link;
    out << "  device " << number(link.index) << " " << link.name << " kind " << link.kind << " mac "
        << link.mac.to_string() << " alias '" << link.alias << "' mtu " << link.mtu << (link.up ? " up" : " down")
        << " queues " << link.rx_queues << "/" << link.tx_queues << " peer " << number(link.peer) << " master "
        << number(link.master) << " xdp " << std::to_underlying(link.xdp_mode) << "/" << link.xdp_program_id << "\n";
    for (const auto& [name, state] : device.features) out << "    " << name << (state.active ? " on\n" : " off\n");
    for (const auto& address : device.addresses) out << "    address " << address.prefix.to_string() << "\n";
    for (const auto& [address, neighbour] : device.neighbours)
        out << "    neighbour " << address.to_string() << " " << neighbour.mac.to_string() << " state "
            << std::to_underlying(neighbour.state) << (neighbour.managed ? " managed\n" : "\n");
    if (link.bridge_port)
        out << "    bridge port" << (link.bridge_port->learning ? " learning" : "")
            << (link.bridge_port->isolated ? " isolated" : "") << "\n";
    for (const auto& vlan : device.vlans)
        out << "    vlan " << vlan.first << "-" << vlan.last << (vlan.own ? " own\n" : "\n");
    for (const auto& [key, port] : device.bridge_macs)
        out << "    mac " << key.first.to_string() << " vlan " << key.second << " at " << number(port) << "\n";
    for (const auto& kind : device.qdiscs) out << "    qdisc " << kind << "\n";
    for (const auto& filter : device.filters) out << "    filter " << filter.kind << "\n";
}

void print(std::ostream& out, const Route& route) {
    out << "  route " << route.destination.to_string() << " via " << (route.gateway ? route.gateway->to_string() : "-")
        << " dev " << number(route.device) << " mtu " << route.mtu << " metric " << route.priority << " table "
        << route.table << "\n";
}

}  // namespace

FakeDevice* FakeNamespace::find(IfIndex index) {
    const auto found = devices.find(index);
    return found == devices.end() ? nullptr : &found->second;
}

FakeDevice* FakeNamespace::find(const std::string& name) {
    for (auto& [index, device] : devices)
        if (device.link.name == name) return &device;
    return nullptr;
}

FakeNamespace& World::of(const Netns& ns) {
    const std::uint64_t cookie = ns.cookie().value();
    const bool is_new = !namespaces_.contains(cookie);
    if (is_new) {
        Link lo;
        lo.name = "lo";
        lo.mtu = 65536;
        lo.up = true;
        lo.loopback = true;
        place(cookie, std::move(lo)).qdiscs = {"noqueue"};
    }
    return namespaces_[cookie];
}

FakeDevice& World::add_nic(const Netns& ns, const std::string& name, const std::optional<IpAddress>& gateway) {
    FakeNamespace& space = of(ns);
    Link link;
    link.name = name;
    link.mac = *Mac::parse("02:00:00:00:00:01");
    link.mtu = 1500;
    link.max_mtu = 9000;
    link.up = true;
    link.rx_queues = link.tx_queues = 4;
    FakeDevice& nic = place(ns.cookie().value(), std::move(link));
    nic.features = {{"rx-gro", {.active = true, .changeable = true}},
                    {"rx-vlan-hw-parse", {.active = true, .changeable = true}}};
    nic.xdp_features = veth_base | xmit;
    nic.qdiscs = {"mq", "fq_codel"};
    if (gateway) {
        Route route;
        route.destination.address.family = gateway->family;
        route.gateway = gateway;
        route.device = nic.link.index;
        space.routes.push_back(std::move(route));
    }
    return nic;
}

void World::add_veth_pair(const Netns& host_ns, const std::string& host, const Netns& container_ns,
                          const std::string& container) {
    of(host_ns);
    of(container_ns);
    const VethSpec spec{
        .host = {.netns_fd = host_ns.fd(), .name = host, .mac = *Mac::parse("02:00:00:00:01:01")},
        .container = {.netns_fd = container_ns.fd(), .name = container, .mac = *Mac::parse("02:00:00:00:01:02")},
        .mtu = 1500,
        .queues = 1};
    if (!create_veth(spec)) return;
    device(host_ns, host).link.up = true;
    device(container_ns, container).link.up = true;
}

std::string World::snapshot() const {
    std::ostringstream out;
    for (const auto& [cookie, space] : namespaces_) {
        out << "namespace " << cookie << "\n";
        for (const auto& [index, device] : space.devices) print(out, device);
        for (const auto& route : space.routes) print(out, route);
    }
    for (const auto& [source, local] : masquerades)
        out << "masquerade " << source.to_string() << " but to " << local.to_string() << "\n";
    return out.str();
}

void World::set_program(std::uint64_t cookie, std::uint32_t ifindex, XdpMode mode, std::uint32_t program_id) {
    const auto space = namespaces_.find(cookie);
    if (space == namespaces_.end()) return;
    FakeDevice* device = space->second.find(IfIndex{ifindex});
    if (device == nullptr) return;
    device->link.xdp_mode = mode;
    device->link.xdp_program_id = program_id;
}

Result<void> World::step(std::string_view name) {
    if (auto counted = faults_.step(name); !counted) return std::move(counted.error()).with_code(code_kernel);
    return ok();
}

Result<std::uint64_t> World::cookie_of(int netns_fd) const {
    auto ns = Netns::from_fd(netns_fd);
    if (!ns) return std::move(ns.error());
    auto cookie = ns->cookie();
    if (cookie && !namespaces_.contains(*cookie))
        return errno_error(EINVAL, "a namespace that this world does not know");
    return cookie;
}

FakeDevice& World::place(std::uint64_t cookie, Link link) {
    FakeNamespace& space = namespaces_[cookie];
    link.index = IfIndex{space.next_index++};
    const IfIndex index = link.index;
    FakeDevice& device = space.devices[index];
    device.link = std::move(link);
    return device;
}

void World::join(std::uint64_t a, FakeDevice& first, std::uint64_t b, FakeDevice& second) {
    first.link.peer = second.link.index;
    second.link.peer = first.link.index;
    first.peer_namespace = b;
    second.peer_namespace = a;
    if (a == b) return;
    first.link.peer_netns_id = 0;
    second.link.peer_netns_id = 0;
}

Result<void> World::create_veth(const VethSpec& spec) {
    const std::string what = "create veth " + spec.host.name + "/" + spec.container.name;
    auto outer = cookie_of(spec.host.netns_fd);
    auto inner = cookie_of(spec.container.netns_fd);
    if (!outer || !inner) return std::move(outer ? inner.error() : outer.error()).in(what).with_code(code_kernel);
    if (at(*outer).find(spec.host.name) != nullptr || at(*inner).find(spec.container.name) != nullptr)
        return errno_error(EEXIST, what).with_code(code_kernel);
    const auto make = [&](std::uint64_t cookie, const VethEnd& end) -> FakeDevice& {
        Link link;
        link.name = end.name;
        link.kind = "veth";
        link.mac = end.mac;
        link.mtu = spec.mtu;
        link.max_mtu = 65535;
        link.rx_queues = link.tx_queues = spec.queues;
        FakeDevice& device = place(cookie, std::move(link));
        device.features = veth_features();
        device.qdiscs = {"noqueue"};
        return device;
    };
    FakeDevice& first = make(*outer, spec.host);
    FakeDevice& second = make(*inner, spec.container);
    join(*outer, first, *inner, second);
    return ok();
}

Result<void> World::create_bridge(std::uint64_t cookie, const BridgeSpec& spec) {
    const std::string what = "create bridge " + spec.name;
    if (at(cookie).find(spec.name) != nullptr) return errno_error(EEXIST, what).with_code(code_kernel);
    if (spec.filters_vlans && !has_vlan_filtering) return errno_error(EOPNOTSUPP, what).with_code(code_kernel);
    Link link;
    link.name = spec.name;
    link.kind = "bridge";
    link.mac = spec.mac;
    link.mtu = 1500;
    link.max_mtu = 65535;
    link.filters_vlans = spec.filters_vlans;
    place(cookie, std::move(link)).qdiscs = {"noqueue"};
    return ok();
}

void World::leave_bridge(std::uint64_t cookie, FakeDevice& port) {
    if (FakeDevice* bridge = at(cookie).find(port.link.master))
        std::erase_if(bridge->bridge_macs, [&](const auto& entry) { return entry.second == port.link.index; });
    port.link.master = IfIndex::none;
    port.link.bridge_port.reset();
    port.vlans.clear();
}

void World::remove_device(std::uint64_t cookie, IfIndex index) {
    FakeNamespace& space = at(cookie);
    FakeDevice* device = space.find(index);
    if (device == nullptr) return;
    leave_bridge(cookie, *device);
    for (auto& [other, port] : space.devices)
        if (port.link.master == index) leave_bridge(cookie, port);
    const IfIndex peer = device->link.peer;
    const std::uint64_t peer_namespace = device->peer_namespace;
    std::erase_if(space.routes, [&](const Route& route) { return route.device == index; });
    space.devices.erase(index);
    if (gone_) gone_(cookie, number(index));
    if (peer != IfIndex::none && peer_namespace != 0) remove_device(peer_namespace, peer);
}

Link World::seen(const FakeDevice& device) {
    Link link = device.link;
    const bool is_pair = link.kind == "veth";
    const FakeDevice* peer = is_pair ? at(device.peer_namespace).find(link.peer) : nullptr;
    link.running = link.up && (!is_pair || (peer != nullptr && peer->link.up));
    if (peer != nullptr && peer->link.xdp_mode == XdpMode::native) link.max_mtu = limit_beside_a_program;
    return link;
}

std::uint64_t World::xdp_features(const FakeDevice& device) {
    if (device.link.kind != "veth") return device.xdp_features;
    const FakeDevice* peer = at(device.peer_namespace).find(device.link.peer);
    if (peer == nullptr || peer->link.tx_queues > device.link.rx_queues) return 0;
    const bool receives = is_active(*peer, "rx-gro") || peer->link.xdp_mode == XdpMode::native;
    return veth_base | (receives ? xmit : 0);
}

}  // namespace xveth::netlink
