// SPDX-License-Identifier: Apache-2.0
#include "attachment/add_chained.hpp"

#include <cerrno>

#include "attachment/chains.hpp"
#include "attachment/container_program.hpp"
#include "base/scope_exit.hpp"
#include "datapath/arming.hpp"

namespace xveth::attachment {
namespace {

using datapath::VethPair;

Error not_usable(const std::string& why) {
    return Error{.code = 7,
                 .errno_value = EINVAL,
                 .text = "prevResult: " + why,
                 .hint =
                     "behind another plugin xveth arms the veth pair that this one made (ptp, bridge); place it "
                     "right after it, or first in the list"};
}

// The addresses that the chain gave to our interface.
std::vector<IpAddress> addresses_of_interface(const CniResult& result, const Request& request) {
    std::vector<IpAddress> addresses;
    for (const auto& ip : result.ips) {
        if (ip.interface && *ip.interface < result.interfaces.size()) {
            const auto& interface = result.interfaces[*ip.interface];
            if (interface.name != request.ifname || interface.sandbox != request.netns_path) continue;
        }
        addresses.push_back(ip.address.address);
    }
    return addresses;
}

// The pair: the container's interface by name, the host end as its peer.
Result<VethPair> find_pair(Node& node, const Request& request, Container& container) {
    auto inner = container.rtnl->find_link(request.ifname);
    if (!inner) return std::move(inner.error());
    if (!*inner) return not_usable("the container has no interface " + request.ifname);
    if ((*inner)->kind != "veth") return not_usable("interface " + request.ifname + " is no veth device");
    auto host = node.path.rtnl.find_link((*inner)->peer);
    if (!host) return std::move(host.error());
    if (!*host || (*host)->kind != "veth" || (*host)->peer != (*inner)->index)
        return not_usable("the other end of " + request.ifname + " is not in this node's namespace");
    return VethPair{.host = std::move(**host), .container = std::move(**inner)};
}

// Sets the features and remembers those that this changes.
Result<void> set_features(netlink::Rtnl& rtnl, netlink::IfIndex device, const std::vector<netlink::Feature>& wanted,
                          std::vector<std::pair<std::string, bool>>& changed) {
    auto now = rtnl.features(device);
    if (!now) return std::move(now.error());
    for (const auto& feature : wanted) {
        const auto state = now->find(feature.name);
        if (state != now->end() && state->second.active != feature.on) changed.emplace_back(feature.name, !feature.on);
    }
    return rtnl.set_features(device, wanted);
}

Result<void> arm_pair(Node& node, const NetConf& conf, Container& container, const VethPair& pair,
                      AttachmentRecord& record, Notes& notes) {
    if (auto ready = datapath::ensure_objects(node.path, notes); !ready) return ready;
    auto program = load_program(node, record);
    if (!program) return std::move(program.error());
    auto nics = ensure_network_nics(node, conf, notes);
    if (!nics) return std::move(nics.error());
    const bool managed = conf.container_xdp == ContainerXdp::managed;
    if (record.chain && pair.host.master != netlink::IfIndex::none)
        return not_usable("host end " + pair.host.name +
                          " is a port of a bridge, and chains are for routed containers");
    if (auto set = set_features(*container.rtnl, pair.container.index, datapath::container_end_features(),
                                record.container_features);
        !set)
        return set;
    if (auto set = set_features(node.path.rtnl, pair.host.index, datapath::host_end_features(!managed || record.chain),
                                record.host_features);
        !set)
        return set;
    if (auto put = node.store.put(record); !put) return put;
    auto armed = datapath::arm(node.path, container.ns, pair, arm_spec(conf, record, *program));
    if (!armed) return armed;
    NetConf bound = conf;
    if (pair.host.master != netlink::IfIndex::none) {
        bound.policy = Policy::stack;
        notes.push_back("host end " + pair.host.name + " is a port of a bridge: armed, its frames stay on the bridge");
    }
    return publish(node, bound, *nics, pair, record, notes);
}

}  // namespace

Result<CniResult> add_chained(Node& node, const NetConf& conf, const Request& request, Container& container,
                              AttachmentRecord record, Notes& notes) {
    auto known = node.store.find(record.key);
    if (!known) return std::move(known.error());
    if (*known && (*known)->complete)
        return not_usable("container " + record.key.container_id + " is attached to network " + record.key.network +
                          " already; two xveth plugins of one list cannot arm the same interface");
    if (*known) {
        if (auto down = take_down(node, **known); !down) return std::move(down.error());
    }
    auto pair = find_pair(node, request, container);
    if (!pair) return std::move(pair.error());
    record.chained = true;
    record.host_end = pair->host.name;
    record.host_ifindex = static_cast<std::uint32_t>(pair->host.index);
    record.container_ifindex = static_cast<std::uint32_t>(pair->container.index);
    record.addresses = addresses_of_interface(*conf.prev_result, request);
    if (auto put = node.store.put(record); !put) return std::move(put.error());
    Transaction tx;
    tx.on_failure([&] {
        (void)take_down(node, record);
        (void)node.store.remove_if_present(record.key);
    });
    if (auto armed = arm_pair(node, conf, container, *pair, record, notes); !armed) return std::move(armed.error());
    record.complete = true;
    if (auto put = node.store.put(record); !put) return std::move(put.error());
    if (auto entered = enter_chain(node, record, notes); !entered) return std::move(entered.error());
    tx.commit();
    return *conf.prev_result;
}

}  // namespace xveth::attachment
