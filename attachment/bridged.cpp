// SPDX-License-Identifier: Apache-2.0
#include "attachment/bridged.hpp"

#include <algorithm>
#include <cerrno>
#include <future>

#include "attachment/container_program.hpp"
#include "datapath/arming.hpp"
#include "datapath/nic.hpp"
#include "datapath/policy.hpp"

namespace xveth::attachment {
namespace {

using datapath::NetworkBridge;
using datapath::VethPair;

constexpr std::uint32_t largest_mtu = 65535;
constexpr std::size_t most_vlans = 128;  // of a port: each has a group of its own to be flooded to

bool uses(const std::vector<IpPrefix>& addresses, Family family) {
    return std::ranges::any_of(addresses, [&](const IpPrefix& prefix) { return prefix.address.family == family; });
}

// MTU of what leaves the network: the configuration's, else the NIC's.
Result<std::uint32_t> path_mtu_of(Node& node, const NetConf& conf, Notes& notes) {
    if (conf.mtu != 0) return conf.mtu;
    auto nics = datapath::choose_nics(node.path.rtnl, nic_request(conf), notes);
    if (!nics) return std::move(nics.error());
    std::uint32_t mtu = 0;
    for (const auto& nic : *nics) mtu = mtu == 0 ? nic.mtu : std::min(mtu, nic.mtu);
    return mtu != 0 ? mtu : mtu_without_nic;
}

datapath::BridgeSpec bridge_spec(const NetConf& conf, const datapath::BridgeAccess& access, std::uint32_t path_mtu) {
    datapath::BridgeSpec spec{.network = conf.name,
                              .mtu = conf.mtu,
                              .default_mtu = path_mtu,
                              .queues = datapath::queues_for(conf.queues),
                              .nics = conf.nic.names,
                              .nics_required = conf.nic_required,
                              .access = access};
    // Behind a NIC there are others, with the NIC's MTU.
    if (conf.local_mtu.value_or(0) > path_mtu && conf.nic.names.empty())
        spec.mtu = std::min(*conf.local_mtu, largest_mtu);
    return spec;
}

Result<NetworkBridge> ensure_network_bridge(Node& node, const datapath::BridgeSpec& spec, Notes& notes) {
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    return datapath::ensure_bridge(node.path, *lock, spec, notes);
}

Result<void> set_up_gateways(Node& node, const NetworkBridge& bridge, const BridgedPlan& plan) {
    if (plan.gateways.empty() || !bridge.host) return ok();
    auto forwarding =
        datapath::ensure_forwarding(node.path, uses(plan.gateways, Family::ipv4), uses(plan.gateways, Family::ipv6));
    if (!forwarding) return forwarding;
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    for (const auto& gateway : plan.gateways)
        if (auto set = datapath::ensure_gateway(node.path, *lock, *bridge.host, gateway); !set) return set;
    return ok();
}

Result<void> set_up_addresses(Node& node, Container& container, const VethPair& pair, const BridgedPlan& plan) {
    const auto& addresses = plan.container.addresses;
    const bool ipv6 = uses(addresses, Family::ipv6);
    if (ipv6) {
        if (auto fits = refuse_mtu_below_ipv6(pair.container); !fits) return fits;
        if (auto on = datapath::ensure_ipv6(node.path, container.ns, pair.container.name); !on) return on;
    }
    auto announced = datapath::announce_mac_changes(node.path, container.ns, pair.container.name,
                                                    uses(addresses, Family::ipv4), ipv6);
    if (!announced) return announced;
    return datapath::configure_bridged_container(*container.rtnl, pair, plan.container);
}

Result<void> await_local_routes(Node& node, Container& container, const BridgedPlan& plan, bool has_gateway) {
    for (const auto& prefix : plan.container.addresses)
        if (auto local = datapath::await_local_route(*container.rtnl, prefix.address); !local) return local;
    if (!has_gateway) return ok();
    for (const auto& gateway : plan.gateways)
        if (auto local = datapath::await_local_route(node.path.rtnl, gateway.address); !local) return local;
    return ok();
}

// Whether the port's frames may bypass the kernel's bridge.
Result<bool> may_bypass(Node& node, const NetConf& conf, const NetworkBridge& bridge, const VethPair& pair,
                        Notes& notes) {
    datapath::PolicyObjection objection;
    if (conf.policy == Policy::stack) objection = R"("policy" is "stack")";
    if (conf.policy == Policy::automatic)
        objection = conf.bandwidth_asked ? "a bandwidth limit is asked for"
                                         : datapath::find_bridge_objection(node.path, {pair.host.index});
    if (!objection) return true;
    if (bridge.separates_vlans) {
        notes.push_back("policy: " + pair.host.name + " stays with the kernel's bridge: " + *objection);
        return false;
    }
    return Error{.code = 106,
                 .errno_value = EOPNOTSUPP,
                 .text = "frames of " + pair.container.name + " must take the kernel's bridge (" + *objection +
                         "), and this kernel's knows no VLANs",
                 .hint = R"(use a kernel with CONFIG_BRIDGE_VLAN_FILTERING, or set "policy": "fast")"};
}

Result<void> publish(Node& node, const NetConf& conf, const NetworkBridge& bridge, const datapath::BridgeAccess& access,
                     const VethPair& pair, AttachmentRecord& record, Notes& notes) {
    auto fast = may_bypass(node, conf, bridge, pair, notes);
    if (!fast) return std::move(fast.error());
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    const datapath::BridgedPortSpec spec{.access = access, .spoof_check = conf.spoof_check, .fast = *fast};
    auto id = datapath::publish_bridged_port(node.path, *lock, bridge, pair, spec);
    if (!id) return std::move(id.error());
    record.port = static_cast<std::uint32_t>(*id);
    return ok();
}

CniInterface host_interface(const netlink::Link& link, std::uint32_t mtu) {
    return {.name = link.name, .mac = link.mac.to_string(), .sandbox = {}, .mtu = mtu, .socket_path = {}, .pci_id = {}};
}

CniResult describe(const NetConf& conf, const Request& request, const NetworkBridge& bridge, const VethPair& pair,
                   CniResult result, std::uint32_t path_mtu) {
    CniInterface inner = host_interface(pair.container, path_mtu);
    inner.sandbox = request.netns_path;
    result.interfaces = {host_interface(bridge.kernel, path_mtu), host_interface(pair.host, path_mtu), inner};
    for (auto& ip : result.ips) ip.interface = 2;
    if (result.dns.empty()) result.dns = conf.dns;
    return result;
}

std::optional<IpAddress> gateway_of(const CniResult& result, Family family) {
    for (const auto& ip : result.ips)
        if (ip.address.address.family == family && ip.gateway) return ip.gateway;
    return std::nullopt;
}

// Another attachment of the network, whatever its state.
Result<bool> has_attachments(Node& node, const std::string& network) {
    auto records = node.store.list(network);
    if (!records) return std::move(records.error());
    return std::ranges::any_of(*records, [](const AttachmentRecord& record) { return record.bridged; });
}

Result<void> as_fault(Result<std::string> found) {
    if (!found) return std::move(found.error());
    if (found->empty()) return ok();
    return Error{.code = 102, .errno_value = 0, .text = *found, .hint = "delete and re-create the container"};
}

// The container's MAC as the runtime was told last.
std::optional<Mac> promised_mac(const AttachmentRecord& record, const CniResult& result) {
    const auto ours = std::ranges::find_if(result.interfaces, [&](const CniInterface& interface) {
        return interface.name == record.key.ifname && interface.sandbox == record.netns_path;
    });
    return ours == result.interfaces.end() ? std::nullopt : Mac::parse(ours->mac);
}

Result<Mac> follow_mac(Node& node, const AttachmentRecord& record, const VethPair& pair, const CniResult& result) {
    const bpf::PortId id{record.port};
    auto port = node.path.bpf.get_port(id);
    if (!port) return std::move(port.error());
    Mac known;
    std::ranges::copy(port->mac, known.bytes.begin());
    const auto promised = promised_mac(record, result);
    if (!promised || *promised == known || *promised != pair.container.mac) return known;
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    if (auto changed = datapath::change_bridged_mac(node.path, *lock, id, *promised); !changed)
        return std::move(changed.error());
    return *promised;
}

Result<void> check_gateways(Node& node, const NetConf& conf, const BridgedPlan& plan) {
    if (plan.gateways.empty()) return ok();
    const std::string name = datapath::host_port_name(conf.name, conf.vlan);
    auto host = node.path.rtnl.find_link(name);
    if (!host) return std::move(host.error());
    if (!*host) return ok();  // told already
    auto present = node.path.rtnl.list_addresses((*host)->index);
    if (!present) return std::move(present.error());
    for (const auto& gateway : plan.gateways)
        if (std::ranges::none_of(*present, [&](const auto& known) { return known.prefix == gateway; }))
            return as_fault("gateway " + gateway.to_string() + " is missing on " + name);
    return ok();
}

}  // namespace

Result<datapath::BridgeAccess> bridge_access(const NetConf& conf) {
    datapath::BridgeAccess access{.vlan = conf.vlan, .tagged = {}, .isolated = conf.port_isolation};
    for (const auto& range : conf.vlan_trunk)
        for (unsigned vlan = range.first; vlan <= range.last; ++vlan) access.tagged.set(vlan);
    access.tagged.reset(conf.vlan);
    if (access.tagged.count() <= most_vlans) return access;
    return Error{.code = 7,
                 .errno_value = E2BIG,
                 .text = "key \"vlanTrunk\": " + std::to_string(access.tagged.count()) + " VLANs; a port takes up to " +
                         std::to_string(most_vlans),
                 .hint = "name those that the container uses"};
}

bool host_is_gateway(const NetConf& conf) { return conf.is_gateway.value_or(conf.nic.names.empty()); }

CniResult with_gateways(const NetConf& conf, CniResult result) {
    if (!host_is_gateway(conf)) return result;
    for (auto& ip : result.ips)
        if (!ip.gateway) ip.gateway = datapath::default_gateway_of(ip.address);
    return result;
}

BridgedPlan plan_bridged(const NetConf& conf, const CniResult& result, std::uint32_t route_mtu) {
    BridgedPlan plan;
    for (const auto& ip : result.ips) {
        plan.container.addresses.push_back(ip.address);
        if (!ip.gateway || !host_is_gateway(conf)) continue;
        const IpPrefix gateway{.address = *ip.gateway, .length = ip.address.length};
        if (std::ranges::find(plan.gateways, gateway) == plan.gateways.end()) plan.gateways.push_back(gateway);
    }
    for (const auto& wanted : result.routes) {
        netlink::Route route;
        route.destination = wanted.destination.network();
        route.gateway = wanted.gateway ? wanted.gateway : gateway_of(result, route.destination.address.family);
        route.onlink = route.gateway.has_value();
        route.scope = route.gateway ? netlink::scope_universe : netlink::scope_link;
        route.mtu = wanted.mtu.value_or(route_mtu);
        if (route_mtu != 0) route.mtu = std::min(route.mtu, route_mtu);
        route.advmss = wanted.advmss.value_or(0);
        route.priority = wanted.priority.value_or(0);
        route.table = wanted.table.value_or(0);
        plan.container.routes.push_back(std::move(route));
    }
    return plan;
}

Result<CniResult> attach_bridged(Node& node, const NetConf& conf, const Request& request, Container& container,
                                 AttachmentRecord& record, Notes& notes) {
    auto access = bridge_access(conf);
    if (!access) return std::move(access.error());
    if (auto ready = datapath::ensure_objects(node.path, notes); !ready) return std::move(ready.error());
    auto program = load_program(node, record);
    if (!program) return std::move(program.error());
    auto path_mtu = path_mtu_of(node, conf, notes);
    if (!path_mtu) return std::move(path_mtu.error());
    auto bridge = ensure_network_bridge(node, bridge_spec(conf, *access, *path_mtu), notes);
    if (!bridge) return std::move(bridge.error());

    auto asked = std::async(std::launch::async, [&] { return ask_ipam(node, conf, request); });
    auto pair = create_pair(node, conf, record, container, bridge->mtu);
    if (!pair) return std::move(pair.error());
    record.host_ifindex = static_cast<std::uint32_t>(pair->host.index);
    record.container_ifindex = static_cast<std::uint32_t>(pair->container.index);
    auto joined = datapath::enslave(node.path, *bridge, pair->host.index, *access);
    if (!joined) return std::move(joined.error());
    if (auto links = set_up_links(node, conf, container, *pair); !links) return std::move(links.error());
    auto arming = arm_spec(conf, record, *program);
    arming.host_program = bpf::Program::bridge;
    if (auto armed = datapath::arm(node.path, container.ns, *pair, arming); !armed) return std::move(armed.error());

    auto ipam = asked.get();
    if (!ipam) return std::move(ipam.error());
    const CniResult leased = with_gateways(conf, std::move(*ipam));
    const BridgedPlan plan = plan_bridged(conf, leased, *path_mtu < bridge->mtu ? *path_mtu : 0);
    for (const auto& prefix : plan.container.addresses) record.addresses.push_back(prefix.address);
    if (auto put = node.store.put(record); !put) return std::move(put.error());
    if (auto set = set_up_gateways(node, *bridge, plan); !set) return std::move(set.error());
    if (auto set = set_up_addresses(node, container, *pair, plan); !set) return std::move(set.error());
    if (auto set = set_up_masquerade(node, conf, plan.container.addresses, record); !set) return std::move(set.error());
    if (auto carrier = datapath::await_carrier(node.path, *container.rtnl, *pair); !carrier)
        return std::move(carrier.error());
    if (auto local = await_local_routes(node, container, plan, bridge->host.has_value()); !local)
        return std::move(local.error());
    if (auto published = publish(node, conf, *bridge, *access, *pair, record, notes); !published)
        return std::move(published.error());
    if (auto announced = datapath::announce_addresses(*container.rtnl, *pair); !announced)
        return std::move(announced.error());
    return describe(conf, request, *bridge, *pair, leased, std::min(*path_mtu, bridge->mtu));
}

Result<void> remove_unused_bridge(Node& node, const std::string& network) {
    auto present = node.path.rtnl.find_link(datapath::bridge_name(network));
    if (!present) return std::move(present.error());
    if (!*present) return ok();
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    auto used = has_attachments(node, network);
    if (!used) return std::move(used.error());
    return *used ? ok() : datapath::remove_bridge_if_unused(node.path, *lock, network);
}

Result<void> check_bridged(Node& node, const NetConf& conf, const AttachmentRecord& record, const VethPair& pair,
                           const CniResult& result) {
    auto access = bridge_access(conf);
    if (!access) return std::move(access.error());
    if (conf.vlan != 0 || !access->uses_vlans()) {
        if (auto well = as_fault(datapath::find_bridge_fault(node.path, conf.name, conf.vlan)); !well) return well;
    }
    auto mac = follow_mac(node, record, pair, result);
    if (!mac) return std::move(mac.error());
    auto port =
        datapath::find_bridged_port_fault(node.path, conf.name, bpf::PortId{record.port}, pair.host, *access, *mac);
    if (auto well = as_fault(std::move(port)); !well) return well;
    const auto plan = plan_bridged(conf, result, 0);
    if (auto well = check_gateways(node, conf, plan); !well) return well;
    return ok();
}

}  // namespace xveth::attachment
