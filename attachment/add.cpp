// SPDX-License-Identifier: Apache-2.0
// ADD: one attachment, all of it or nothing.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <future>

#include "attachment/add_chained.hpp"
#include "attachment/bridged.hpp"
#include "attachment/chains.hpp"
#include "attachment/container_program.hpp"
#include "attachment/lifecycle.hpp"
#include "attachment/verbs.hpp"
#include "base/scope_exit.hpp"
#include "datapath/addressing.hpp"
#include "datapath/arming.hpp"
#include "datapath/policy.hpp"
#include "datapath/port.hpp"
#include "datapath/veth_pair.hpp"

namespace xveth::attachment {
namespace {

using datapath::AddressPlan;
using datapath::VethPair;

constexpr std::uint32_t ipv6_min_mtu = 1280;

// The interface must not exist. What an ADD that was killed left of this attachment is taken down first.
Result<void> ensure_absent(Node& node, const AttachmentKey& key, Container& container) {
    auto record = node.store.find(key);
    if (!record) return std::move(record.error());
    if (*record && !(*record)->complete) {
        if (auto down = take_down(node, **record); !down)
            return std::move(down.error()).in("take down what an interrupted ADD left");
    }
    auto link = container.rtnl->find_link(key.ifname);
    if (!link) return std::move(link.error());
    if (!*link && !(*record && (*record)->complete)) return ok();
    return Error{
        .code = 4,
        .errno_value = EEXIST,
        .text = "CNI_IFNAME " + key.ifname + ": " +
                (*link ? "the container has an interface of this name"
                       : "container " + key.container_id + " is attached to network " + key.network + " already"),
        .hint = "send DEL first, or use another CNI_IFNAME"};
}

}  // namespace

Result<CniResult> ask_ipam(Node& node, const NetConf& conf, const Request& request) {
    if (conf.ipam_type.empty()) return CniResult{};
    auto answer = node.ipam.add(conf, request);
    if (answer && answer->ips.empty())
        return Error{.code = 103,
                     .errno_value = 0,
                     .text = "IPAM plugin " + conf.ipam_type + " gave no address",
                     .hint = "give it a range, or leave \"ipam\" out for an interface without addresses"};
    return answer;
}

Result<VethPair> create_pair(Node& node, const NetConf& conf, const AttachmentRecord& record, Container& container,
                             std::uint32_t mtu) {
    const datapath::VethPairSpec spec{.host_name = record.host_end,
                                      .alias = record.key.alias(),
                                      .container_name = record.key.ifname,
                                      .container_mac = conf.mac,
                                      .mtu = mtu,
                                      .queues = datapath::queues_for(conf.queues)};
    return datapath::create_veth_pair(node.path, container.ns, *container.rtnl, spec);
}

// Offloads before the links are up: a frame that leaves with an unfinished checksum would arrive redirected with it.
Result<void> set_up_links(Node& node, const NetConf& conf, Container& container, const VethPair& pair) {
    // What the stack sends a protected container is redirected to a function.
    const bool container_redirects = conf.container_xdp != ContainerXdp::managed || conf.protected_by;
    auto& inner = *container.rtnl;
    if (auto set = inner.set_features(pair.container.index, datapath::container_end_features()); !set) return set;
    if (auto set = node.path.rtnl.set_features(pair.host.index, datapath::host_end_features(container_redirects)); !set)
        return set;
    if (auto up = inner.set_up(pair.container.index, true); !up) return up;
    return node.path.rtnl.set_up(pair.host.index, true);
}

namespace {

bool uses(const AddressPlan& plan, Family family) {
    return std::ranges::any_of(plan.addresses, [&](const auto& a) { return a.prefix.address.family == family; });
}

Result<void> set_up_addresses(Node& node, Container& container, const VethPair& pair, const AddressPlan& plan) {
    const bool ipv4 = uses(plan, Family::ipv4);
    const bool ipv6 = uses(plan, Family::ipv6);
    if (ipv6) {
        if (auto fits = refuse_mtu_below_ipv6(pair.container); !fits) return fits;
        if (auto on = datapath::ensure_ipv6(node.path, container.ns, pair.container.name); !on) return on;
        if (auto on = datapath::ensure_ipv6(node.path, node.path.ns, pair.host.name); !on) return on;
    }
    if (auto forwarding = datapath::ensure_forwarding(node.path, ipv4, ipv6); !forwarding) return forwarding;
    if (auto inner = datapath::configure_container(*container.rtnl, pair, plan); !inner) return inner;
    auto announced = datapath::announce_mac_changes(node.path, container.ns, pair.container.name, ipv4, ipv6);
    if (!announced) return announced;
    return datapath::configure_host(node.path, pair, plan);
}

}  // namespace

// ipMasq: what leaves for anywhere but the containers' own range is masqueraded by the stack. On record before it is
// done, and only once the addresses are known to be ours: what is on record is taken down with the attachment.
Result<void> set_up_masquerade(Node& node, const NetConf& conf, const std::vector<IpPrefix>& addresses,
                               AttachmentRecord& record) {
    if (!conf.ip_masq) return ok();
    record.masqueraded = true;
    if (auto put = node.store.put(record); !put) return put;
    for (const auto& prefix : addresses)
        if (auto put = node.path.nft.ensure_masquerade(prefix.address, prefix.network()); !put) return put;
    return ok();
}

namespace {

std::vector<IpPrefix> prefixes_of(const AddressPlan& plan) {
    std::vector<IpPrefix> prefixes;
    for (const auto& address : plan.addresses) prefixes.push_back(address.prefix);
    return prefixes;
}

// Another attachment than `key` that has `address` on record.
std::string holder_of(Node& node, const IpAddress& address, const AttachmentKey& key) {
    auto records = node.store.list_all();
    if (!records) return {};
    for (const auto& record : *records)
        if (record.key != key && std::ranges::find(record.addresses, address) != record.addresses.end())
            return record.key.network + "/" + record.key.container_id + "/" + record.key.ifname;
    return {};
}

datapath::AddressHolder other_holders(Node& node, const AttachmentKey& key) {
    return [&](const IpAddress& address) { return holder_of(node, address, key); };
}

// Of two ADDs at once with one address, the kernel refuses the second one's route before either is published.
Error name_holder(Node& node, Error error, const AttachmentRecord& record) {
    if (error.errno_value != EEXIST) return error;
    for (const auto& address : record.addresses)
        if (const auto name = holder_of(node, address, record.key); !name.empty())
            return datapath::address_is_held(address, name);
    return error;
}

CniResult describe(const NetConf& conf, const Request& request, const VethPair& pair, const CniResult& ipam,
                   const AddressPlan& plan, std::uint32_t path_mtu) {
    CniResult result = ipam;
    result.interfaces = {{.name = pair.host.name,
                          .mac = pair.host.mac.to_string(),
                          .sandbox = {},
                          .mtu = path_mtu,
                          .socket_path = {},
                          .pci_id = {}},
                         {.name = request.ifname,
                          .mac = pair.container.mac.to_string(),
                          .sandbox = request.netns_path,
                          .mtu = path_mtu,
                          .socket_path = {},
                          .pci_id = {}}};
    for (std::size_t i = 0; i < result.ips.size(); ++i) {
        result.ips[i].interface = 1;
        result.ips[i].gateway = plan.addresses[i].gateway;
    }
    if (result.dns.empty()) result.dns = conf.dns;
    return result;
}

const char* name_of(ContainerXdp owner) {
    switch (owner) {
        case ContainerXdp::managed:
            return "managed";
        case ContainerXdp::free:
            return "free";
        case ContainerXdp::program:
            break;
    }
    return "program";
}

Result<AttachmentRecord> new_record(const NetConf& conf, const Request& request) {
    auto program = wanted_program(conf, request);
    if (!program) return std::move(program.error());
    AttachmentRecord record;
    record.program = std::move(*program);
    record.key = key_of(conf, request);
    record.netns_path = request.netns_path;
    record.container_xdp = name_of(conf.container_xdp);
    record.host_end = host_end_name(record.key);
    record.bridged = conf.mode == Mode::bridge;
    record.ipam_type = conf.ipam_type;
    record.chain = chain_record(conf);
    record.conf = conf.raw;
    record.args = request.args;
    return record;
}

// The steps in their order; `record` grows with them, so that take_down() finds what each has made.
Result<CniResult> attach_container(Node& node, const NetConf& conf, const Request& request, Container& container,
                                   AttachmentRecord& record, Notes& notes) {
    if (auto ready = datapath::ensure_objects(node.path, notes); !ready) return std::move(ready.error());
    auto program = load_program(node, record);
    if (!program) return std::move(program.error());
    auto nics = ensure_network_nics(node, conf, notes);
    if (!nics) return std::move(nics.error());
    auto limited = mtu_in_chain(node, conf, conf.mtu != 0 ? conf.mtu : nics->mtu != 0 ? nics->mtu : mtu_without_nic);
    if (!limited) return std::move(limited.error());
    const std::uint32_t path_mtu = *limited;
    const std::uint32_t mtu = link_mtu(conf, path_mtu, *program && (*program)->traits.frags);

    // Attaching waits for the kernel twice; the IPAM plugin works meanwhile.
    auto asked = std::async(std::launch::async, [&] { return ask_ipam(node, conf, request); });
    auto pair = create_pair(node, conf, record, container, mtu);
    if (!pair) return std::move(pair.error());
    record.host_ifindex = static_cast<std::uint32_t>(pair->host.index);
    record.container_ifindex = static_cast<std::uint32_t>(pair->container.index);
    if (auto links = set_up_links(node, conf, container, *pair); !links) return std::move(links.error());
    auto armed = datapath::arm(node.path, container.ns, *pair, arm_spec(conf, record, *program));
    if (!armed) return std::move(armed.error());

    auto ipam = asked.get();
    if (!ipam) return std::move(ipam.error());
    const AddressPlan plan = plan_addresses(conf, *ipam, mtu == path_mtu ? 0 : path_mtu);
    std::vector<IpAddress> addresses;
    for (const auto& address : plan.addresses) addresses.push_back(address.prefix.address);
    auto unheld = datapath::refuse_held_addresses(node.path, addresses, other_holders(node, record.key));
    if (!unheld) return std::move(unheld.error());
    record.addresses = std::move(addresses);
    if (auto put = node.store.put(record); !put) return std::move(put.error());
    if (auto set = set_up_addresses(node, container, *pair, plan); !set)
        return name_holder(node, std::move(set.error()), record);
    if (auto set = set_up_masquerade(node, conf, prefixes_of(plan), record); !set) return std::move(set.error());
    if (auto carrier = datapath::await_carrier(node.path, *container.rtnl, *pair); !carrier)
        return std::move(carrier.error());
    if (auto local = datapath::await_local_routes(node.path, *container.rtnl, plan); !local)
        return std::move(local.error());
    if (auto published = publish(node, conf, *nics, *pair, record, notes); !published)
        return std::move(published.error());
    return describe(conf, request, *pair, *ipam, plan, path_mtu);
}

}  // namespace

Result<void> refuse_mtu_below_ipv6(const netlink::Link& device) {
    if (device.mtu >= ipv6_min_mtu) return ok();
    return Error{.code = 7,
                 .errno_value = EINVAL,
                 .text = "an IPv6 address for " + device.name + ", whose MTU is " + std::to_string(device.mtu) +
                         ": IPv6 needs " + std::to_string(ipv6_min_mtu),
                 .hint = R"(raise "mtu" or the NIC's MTU, or take the IPv6 range out of the IPAM configuration)"};
}

Result<datapath::NicSet> ensure_network_nics(Node& node, const NetConf& conf, Notes& notes) {
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    return datapath::ensure_nics(node.path, *lock, nic_request(conf), notes);
}

Result<void> publish(Node& node, const NetConf& conf, const datapath::NicSet& nics, const VethPair& pair,
                     AttachmentRecord& record, Notes& notes) {
    const bool fast = may_bypass_stack(node, conf, nics, pair, notes);
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    auto place = prepare_place(node, *lock, conf, pair, record);
    if (!place) return std::move(place.error());
    const datapath::PortSpec spec{.addresses = record.addresses,
                                  .fast_to = conf.fast_path_to,
                                  .sources = conf.allowed_sources,
                                  .spoof_check = conf.spoof_check,
                                  .fast = fast,
                                  .place = *place};
    auto id = datapath::publish_port(node.path, *lock, pair, spec, other_holders(node, record.key));
    if (!id) return std::move(id.error());
    record.port = static_cast<std::uint32_t>(*id);
    return ok();
}

bool may_bypass_stack(Node& node, const NetConf& conf, const datapath::NicSet& nics, const VethPair& pair,
                      Notes& notes) {
    if (conf.policy != Policy::automatic) return conf.policy == Policy::fast;
    datapath::PolicyObjection objection;
    if (conf.bandwidth_asked) {
        objection = "a bandwidth limit is asked for";
    } else {
        std::vector<netlink::IfIndex> devices{pair.host.index};
        for (const auto& nic : nics.links) devices.push_back(nic.index);
        objection = datapath::find_objection(node.path, devices);
    }
    if (objection) notes.push_back("policy auto: " + pair.host.name + " stays on the stack: " + *objection);
    return !objection;
}

Result<CniResult> add(Node& node, const NetConf& conf, const Request& request, Notes& notes) {
    auto container = open_container(node, request);
    if (!container) return std::move(container.error());
    auto intent = new_record(conf, request);
    if (!intent) return std::move(intent.error());
    AttachmentRecord& record = *intent;
    auto lock = lock_attachment(node, record.key);
    if (!lock) return std::move(lock.error());
    if (conf.prev_result && record.bridged)
        return Error{
            .code = 7,
            .errno_value = EINVAL,
            .text = R"(key "mode": "bridge" behind another plugin (prevResult): the interface is that plugin's)",
            .hint = R"(place xveth first in the list, or leave "mode" out)"};
    if (conf.prev_result) return add_chained(node, conf, request, *container, std::move(record), notes);
    if (auto absent = ensure_absent(node, record.key, *container); !absent) return std::move(absent.error());

    // The intent is on record before anything is made, so that a DEL finds what a killed ADD left.
    if (auto put = node.store.put(record); !put) return std::move(put.error());
    Transaction tx;
    tx.on_failure([&] {
        (void)take_down(node, record);
        if (!conf.ipam_type.empty()) (void)node.ipam.del(conf, request);
        (void)node.store.remove_if_present(record.key);
        if (record.bridged) (void)remove_unused_bridge(node, record.key.network);
    });
    auto result = record.bridged ? attach_bridged(node, conf, request, *container, record, notes)
                                 : attach_container(node, conf, request, *container, record, notes);
    if (!result) return result;
    record.complete = true;
    if (auto put = node.store.put(record); !put) return std::move(put.error());
    if (auto entered = enter_chain(node, record, notes); !entered) return std::move(entered.error());
    tx.commit();
    return result;
}

}  // namespace xveth::attachment
