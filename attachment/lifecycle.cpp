// SPDX-License-Identifier: Apache-2.0
#include "attachment/lifecycle.hpp"

#include <algorithm>
#include <cerrno>

#include "datapath/arming.hpp"
#include "datapath/chain.hpp"
#include "datapath/port.hpp"
#include "datapath/veth_pair.hpp"

namespace xveth::attachment {
namespace {

constexpr std::uint32_t default_local_mtu = 65000;
constexpr std::uint32_t largest_mtu = 65535;

// Keeps the first error of several steps that are all tried.
class FirstError {
public:
    void keep(Result<void> step) {
        if (first_ && !step) first_ = std::move(step);
    }
    Result<void> take() { return std::move(first_); }

private:
    Result<void> first_;
};

// The port's id: from the record, or from the host end's ifindex. Where the pins went and the record stayed, the ids
// began anew: the one on record is not ours with another device. Without one, a DEL that failed half-way has freed it.
Result<bpf::PortId> port_of(Node& node, const AttachmentRecord& record) {
    if (record.port != 0) {
        auto port = node.path.bpf.get_port(bpf::PortId{record.port});
        if (!port) return std::move(port.error());
        const bool ours = port->ifindex == 0 || port->ifindex == record.host_ifindex;
        return ours ? bpf::PortId{record.port} : bpf::PortId::none;
    }
    std::uint32_t ifindex = record.host_ifindex;
    if (ifindex == 0) {
        auto link = datapath::find_host_end(node.path, record.host_end, record.key.alias());
        if (!link) return std::move(link.error());
        if (*link) ifindex = static_cast<std::uint32_t>((*link)->index);
    }
    if (ifindex == 0) return bpf::PortId::none;
    auto port = node.path.bpf.find_port(ifindex);
    if (!port) return std::move(port.error());
    return port->value_or(bpf::PortId::none);
}

Result<void> take_down_port(Node& node, const AttachmentRecord& record) {
    auto id = port_of(node, record);
    if (!id) return std::move(id.error());
    if (*id == bpf::PortId::none) return ok();
    auto addresses = record.addresses;
    if (addresses.empty()) {
        auto found = datapath::addresses_of(node.path, *id);
        if (!found) return std::move(found.error());
        addresses = std::move(*found);
    }
    auto port = node.path.bpf.get_port(*id);
    if (!port) return std::move(port.error());
    if (port->bridge != 0) {  // a bridge's ports are in common tables
        auto lock = datapath::NodeLock::acquire(node.path);
        if (!lock) return std::move(lock.error());
        return datapath::withdraw_port(node.path, *id, addresses);
    }
    return port->chain == 0 ? datapath::withdraw_port(node.path, *id, addresses)
                            : datapath::retire_port(node.path, *id, addresses);
}

// What an ADD that failed before its port was published made of its chain.
Result<void> take_down_chain(Node& node, const AttachmentRecord& record) {
    if (!record.chain) return ok();
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    return datapath::free_chains_without_members(node.path, *lock);
}

std::vector<netlink::Feature> as_features(const std::vector<std::pair<std::string, bool>>& recorded) {
    std::vector<netlink::Feature> features;
    for (const auto& [name, on] : recorded) features.push_back({.name = name, .on = on});
    return features;
}

// A device that is gone, or that another one has followed under its index, has nothing to get back.
Result<void> restore_features(netlink::Rtnl& rtnl, std::uint32_t ifindex, std::uint32_t peer,
                              const std::vector<std::pair<std::string, bool>>& recorded) {
    if (recorded.empty()) return ok();
    auto link = rtnl.find_link(netlink::IfIndex{ifindex});
    if (!link) return std::move(link.error());
    if (!*link || (*link)->kind != "veth" || (*link)->peer != netlink::IfIndex{peer}) return ok();
    return rtnl.set_features((*link)->index, as_features(recorded));
}

// A device that another plugin made goes on living: it gets back the offloads that it had.
Result<void> restore_chained(Node& node, const AttachmentRecord& record) {
    FirstError errors;
    errors.keep(restore_features(node.path.rtnl, record.host_ifindex, record.container_ifindex, record.host_features));
    auto ns = Netns::open(record.netns_path);
    if (!ns || record.container_features.empty()) return errors.take();
    auto rtnl = node.path.kernel.open_rtnl(*ns);
    if (!rtnl) return std::move(rtnl.error());
    errors.keep(restore_features(**rtnl, record.container_ifindex, record.host_ifindex, record.container_features));
    return errors.take();
}

}  // namespace

AttachmentKey key_of(const NetConf& conf, const Request& request) {
    return {.network = conf.name, .container_id = request.container_id, .ifname = request.ifname};
}

std::string host_end_name(const AttachmentKey& key) { return "xv" + key.hash(); }

Result<AttachmentLock> lock_attachment(const Node& node, const AttachmentKey& key) {
    auto lock = FileLock::acquire(node.store.lock_path(key), node.lock_patience);
    if (lock) return AttachmentLock{std::move(*lock)};
    if (lock.error().errno_value != EWOULDBLOCK) return std::move(lock.error()).with_code(104);
    return std::move(lock.error())
        .in("another operation on container " + key.container_id + " is still running")
        .with_code(11);
}

Result<Container> open_container(Node& node, const Request& request) {
    auto ns = Netns::open(request.netns_path);
    if (!ns) return std::move(ns.error()).in("CNI_NETNS").with_code(4);
    if (ns->same_as(node.path.ns))
        return Error{.code = 8,
                     .errno_value = EINVAL,
                     .text = "CNI_NETNS " + request.netns_path + " is the node's own network namespace",
                     .hint = "a container that shares the host's network needs no CNI plugin"};
    auto rtnl = node.path.kernel.open_rtnl(*ns);
    if (!rtnl) return std::move(rtnl.error());
    return Container{.ns = std::move(*ns), .rtnl = std::move(*rtnl)};
}

Result<void> take_down(Node& node, const AttachmentRecord& record) {
    FirstError errors;
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded) errors.keep(std::move(loaded.error()));
    if (loaded && *loaded) {
        errors.keep(take_down_port(node, record));
        errors.keep(take_down_chain(node, record));
        errors.keep(datapath::disarm(node.path, record.key.hash()));
    }
    errors.keep(
        datapath::remove_program_maps(node.path, record.key.hash(), record.program ? record.program->maps : ""));
    if (record.masqueraded)
        for (const auto& address : record.addresses) errors.keep(node.path.nft.remove_masquerade_if_present(address));
    if (record.chained) {
        errors.keep(restore_chained(node, record));
    } else {
        errors.keep(datapath::remove_veth_pair_if_present(node.path, record.host_end, record.key.alias()));
    }
    if (loaded && *loaded) errors.keep(datapath::remove_guard(node.path, record.key.hash()));
    return errors.take();
}

datapath::NicRequest nic_request(const NetConf& conf) {
    return {.automatic = conf.nic.kind == NicChoice::Kind::automatic,
            .names = conf.nic.names,
            .required = conf.nic_required};
}

datapath::AddressPlan plan_addresses(const NetConf& conf, const CniResult& result, std::uint32_t path_mtu) {
    datapath::AddressPlan plan;
    for (const auto& ip : result.ips)
        plan.addresses.push_back(
            {.prefix = ip.address, .gateway = ip.gateway.value_or(datapath::default_gateway_of(ip.address))});
    for (const auto& route : result.routes) {
        // The host end is the only neighbour that a routed container has, whatever gateway a route names.
        plan.routes.push_back({.destination = route.destination,
                               .gateway = {},
                               .mtu = route.mtu.value_or(0),
                               .advmss = route.advmss.value_or(0),
                               .priority = route.priority.value_or(0),
                               .table = route.table.value_or(0),
                               .scope = 0});
    }
    plan.path_mtu = path_mtu;
    if (path_mtu != 0) plan.local_subnets = conf.local_subnets;
    return plan;
}

std::uint32_t link_mtu(const NetConf& conf, std::uint32_t path_mtu, bool frags) {
    if (conf.function_of || conf.protected_by) return path_mtu;  // each hop of a chain has to take every frame
    const bool ipv4_only = std::ranges::all_of(
        conf.local_subnets, [](const IpPrefix& subnet) { return subnet.address.family == Family::ipv4; });
    const bool by_default = (conf.container_xdp == ContainerXdp::managed || frags) && ipv4_only;
    const std::uint32_t local = conf.local_mtu.value_or(by_default ? default_local_mtu : 0);
    if (local == 0 || conf.local_subnets.empty()) return path_mtu;
    return std::clamp(local, path_mtu, largest_mtu);
}

}  // namespace xveth::attachment
