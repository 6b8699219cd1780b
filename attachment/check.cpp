// SPDX-License-Identifier: Apache-2.0
// CHECK: is the attachment as ADD left it? Changes that later plugins of a chain may make (MAC, MTU, further addresses and
// routes) are no fault; neither is a container that replaced its own XDP program.
#include <algorithm>
#include <cerrno>
#include <optional>

#include "attachment/bridged.hpp"
#include "attachment/chains.hpp"
#include "attachment/lifecycle.hpp"
#include "attachment/verbs.hpp"
#include "datapath/arming.hpp"
#include "datapath/port.hpp"

namespace xveth::attachment {
namespace {

using datapath::VethPair;

Error fault(int code, std::string text, std::string hint = {}) {
    return Error{.code = code, .errno_value = 0, .text = std::move(text), .hint = std::move(hint)};
}

const char* const recreate = "delete and re-create the container";

Result<AttachmentRecord> get_record(Node& node, const AttachmentKey& key) {
    auto record = node.store.find(key);
    if (!record) return std::move(record.error());
    if (!*record || !(*record)->complete)
        return fault(
            3,
            "container " + key.container_id + ", interface " + key.ifname + ": no attachment to network " + key.network,
            recreate);
    return std::move(**record);
}

// prevResult must name our interface; what it says of addresses and routes is what was promised to the runtime.
Result<CniResult> promised(const NetConf& conf, const Request& request) {
    if (!conf.prev_result) return fault(7, "CHECK needs prevResult, the result of ADD", "fix the runtime's request");
    const auto& result = *conf.prev_result;
    const auto ours = std::ranges::find_if(result.interfaces, [&](const CniInterface& interface) {
        return interface.name == request.ifname && interface.sandbox == request.netns_path;
    });
    if (ours == result.interfaces.end())
        return fault(7, "prevResult names no interface " + request.ifname + " in " + request.netns_path);
    const auto index = static_cast<std::uint32_t>(ours - result.interfaces.begin());
    CniResult mine = result;
    std::erase_if(mine.ips, [&](const CniIp& ip) { return ip.interface.value_or(index) != index; });
    return mine;
}

Result<VethPair> check_pair(Node& node, const AttachmentRecord& record, Container& container) {
    auto inner = container.rtnl->find_link(record.key.ifname);
    if (!inner) return std::move(inner.error());
    if (!*inner) return fault(100, "the container has no interface " + record.key.ifname, recreate);
    auto host = node.path.rtnl.find_link(netlink::IfIndex{record.host_ifindex});
    if (!host) return std::move(host.error());
    if (!*host) return fault(100, "host end " + record.host_end + " is gone", recreate);
    if ((*inner)->peer != (*host)->index || (*host)->peer != (*inner)->index)
        return fault(100, record.key.ifname + " and " + record.host_end + " are no longer two ends of one pair",
                     recreate);
    if (!(*host)->up)
        return fault(100, "host end " + record.host_end + " is down", "ip link set " + record.host_end + " up");
    if (!(*inner)->up)
        return fault(100, record.key.ifname + " is down", "in the container: ip link set " + record.key.ifname + " up");
    if ((*host)->rx_queues < (*inner)->tx_queues)
        return fault(
            101, "host end " + record.host_end + " has fewer rx queues than " + record.key.ifname + " has tx queues");
    return VethPair{.host = std::move(**host), .container = std::move(**inner)};
}

Result<void> check_addresses(const AttachmentRecord& record, Container& container, const VethPair& pair,
                             const CniResult& result) {
    auto present = container.rtnl->list_addresses(pair.container.index);
    if (!present) return std::move(present.error());
    for (const auto& ip : result.ips) {
        const bool there = std::ranges::any_of(
            *present, [&](const netlink::Address& address) { return address.prefix.address == ip.address.address; });
        if (!there)
            return fault(100, "address " + ip.address.to_string() + " is missing on " + record.key.ifname, recreate);
    }
    return ok();
}

Result<void> check_routes_in(netlink::Rtnl& rtnl, const std::string& where, netlink::IfIndex device,
                             const std::vector<netlink::Route>& wanted) {
    for (const Family family : {Family::ipv4, Family::ipv6}) {
        auto present = rtnl.list_routes(family, device);
        if (!present) return std::move(present.error());
        for (const auto& route : wanted) {
            if (route.destination.address.family != family || (route.table != 0 && route.table != 254)) continue;
            const bool there = std::ranges::any_of(*present, [&](const netlink::Route& other) {
                return other.destination.network() == route.destination.network() && other.gateway == route.gateway;
            });
            if (!there)
                return fault(100, "route to " + route.destination.to_string() + " is missing in " + where, recreate);
        }
    }
    return ok();
}

Result<void> check_routes(Node& node, const NetConf& conf, Container& container, const VethPair& pair,
                          const CniResult& result) {
    if (conf.mode == Mode::bridge)
        return check_routes_in(*container.rtnl, "the container", pair.container.index,
                               plan_bridged(conf, result, 0).container.routes);
    const auto plan = plan_addresses(conf, result, 0);
    auto inner = check_routes_in(*container.rtnl, "the container", pair.container.index,
                                 datapath::container_routes(plan, pair.container.index));
    if (!inner) return inner;
    std::vector<netlink::Route> host_routes;
    for (const auto& address : plan.addresses) {
        netlink::Route route;
        route.destination = IpPrefix::host(address.prefix.address);
        host_routes.push_back(route);
    }
    return check_routes_in(node.path.rtnl, "the node", pair.host.index, host_routes);
}

// The pinned link still holds our program on that very device, natively.
Result<void> check_link(Node& node, const Netns& ns, const std::string& pin, const netlink::Link& device,
                        bpf::Program program) {
    auto found = datapath::find_link_fault(node.path, ns, pin, device, program);
    if (!found) return std::move(found.error());
    return found->empty() ? ok() : fault(101, *found, recreate);
}

// The operator's program is the one on record, and its maps are where the container finds them.
Result<void> check_program(Node& node, const AttachmentRecord& record, const Netns& ns, const netlink::Link& device) {
    auto fault_there = datapath::find_link_fault(node.path, ns, datapath::container_pin(record.key.hash()), device,
                                                 record.program->id, record.program->next_id);
    if (!fault_there) return std::move(fault_there.error());
    const std::string file = record.program->object + ":" + record.program->program;
    if (!fault_there->empty()) return fault(101, "program " + file + ": " + *fault_there, recreate);
    auto place = node.path.programs.find_place(record.key.hash());
    if (!place) return std::move(place.error());
    if (*place == record.program->maps) return ok();
    return fault(102, "program " + file + ": its maps are no longer pinned below pods/" + record.program->maps,
                 recreate);
}

// Offloads that would leave redirected frames with unfinished checksums or without their VLAN tag.
Result<void> check_offloads(const AttachmentRecord& record, Container& container, const VethPair& pair) {
    auto features = container.rtnl->features(pair.container.index);
    if (!features) return std::move(features.error());
    for (const auto& wanted : datapath::container_end_features()) {
        const auto state = features->find(wanted.name);
        if (state == features->end() || state->second.active == wanted.on) continue;
        return fault(101, "feature " + wanted.name + " of " + record.key.ifname + " is " + (wanted.on ? "off" : "on"),
                     std::string("in the container: ethtool -K ") + record.key.ifname + " " + wanted.name +
                         (wanted.on ? " on" : " off"));
    }
    return ok();
}

Result<void> check_arming(Node& node, const AttachmentRecord& record, Container& container, const VethPair& pair) {
    const std::string hash = record.key.hash();
    if (auto host = check_link(node, node.path.ns, datapath::host_pin(hash), pair.host, host_program(record)); !host)
        return host;
    if (record.container_xdp == "managed") {
        auto inner = check_link(node, container.ns, datapath::container_pin(hash), pair.container, bpf::Program::pod);
        if (!inner) return inner;
    }
    if (record.program) {
        if (auto inner = check_program(node, record, container.ns, pair.container); !inner) return inner;
    }
    if (auto offloads = check_offloads(record, container, pair); !offloads) return offloads;
    auto takes = datapath::takes_redirected_frames(node.path.rtnl, pair.host.index);
    if (!takes) return std::move(takes.error());
    if (*takes) return ok();
    return fault(101,
                 "host end " + pair.host.name +
                     " does not take redirected frames: the container's end has neither "
                     "GRO nor a native XDP program, or too few queues",
                 "in the container: ethtool -K " + record.key.ifname + " gro on");
}

Result<void> check_maps(Node& node, const AttachmentRecord& record, const VethPair& pair) {
    const bpf::PortId id{record.port};
    auto port = node.path.bpf.get_port(id);
    if (!port) return std::move(port.error());
    const auto ifindex = static_cast<std::uint32_t>(pair.host.index);
    if (port->ifindex != ifindex)
        return fault(102, "port " + std::to_string(record.port) + " belongs to another device", recreate);
    auto target = node.path.bpf.find_target(id);
    if (!target) return std::move(target.error());
    if (!*target) return fault(102, "host end " + pair.host.name + " is missing in the redirect map", recreate);
    if (**target != ifindex)
        return fault(102,
                     "the redirect map's entry of " + pair.host.name + " leads to ifindex " + std::to_string(**target),
                     recreate);
    if (record.bridged) return ok();
    for (const auto& address : record.addresses) {
        auto owner = node.path.bpf.find_endpoint(address);
        if (!owner) return std::move(owner.error());
        if (!*owner || **owner != id)
            return fault(102, "address " + address.to_string() + " is missing in the endpoint map", recreate);
    }
    return ok();
}

Result<void> check_masquerade(Node& node, const AttachmentRecord& record) {
    if (!record.masqueraded) return ok();
    for (const auto& address : record.addresses) {
        auto there = node.path.nft.has_masquerade(address);
        if (!there) return std::move(there.error());
        if (!*there)
            return fault(100, "masquerading of " + address.to_string() + " is missing (table inet xveth)", recreate);
    }
    return ok();
}

}  // namespace

Result<void> check(Node& node, const NetConf& conf, const Request& request) {
    auto result = promised(conf, request);
    if (!result) return std::move(result.error());
    auto record = get_record(node, key_of(conf, request));
    if (!record) return std::move(record.error());
    auto container = open_container(node, request);
    if (!container) return std::move(container.error());
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (!*loaded) return fault(102, "the node's XDP programs and maps are gone", recreate);

    auto pair = check_pair(node, *record, *container);
    if (!pair) return std::move(pair.error());
    if (auto checked = check_addresses(*record, *container, *pair, *result); !checked) return checked;
    if (!record->chained) {
        if (auto checked = check_routes(node, conf, *container, *pair, *result); !checked) return checked;
    }
    if (auto checked = check_arming(node, *record, *container, *pair); !checked) return checked;
    if (auto checked = check_maps(node, *record, *pair); !checked) return checked;
    if (auto checked = check_chain(node, *record, pair->host); !checked) return checked;
    if (record->bridged) {
        if (auto checked = check_bridged(node, conf, *record, *pair, *result); !checked) return checked;
    }
    if (auto checked = check_masquerade(node, *record); !checked) return checked;
    if (conf.ipam_type.empty() || record->chained) return ok();
    return node.ipam.check(conf, request);
}

}  // namespace xveth::attachment
