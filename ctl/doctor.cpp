// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "attachment/bridged.hpp"
#include "attachment/chains.hpp"
#include "attachment/json.hpp"
#include "attachment/lifecycle.hpp"
#include "ctl/commands.hpp"
#include "ctl/ports.hpp"
#include "datapath/arming.hpp"
#include "datapath/bridge.hpp"
#include "datapath/nic.hpp"
#include "datapath/node.hpp"
#include "datapath/policy.hpp"

namespace xveth::ctl {
namespace {

using attachment::AttachmentRecord;
using attachment::NetConf;
using attachment::Node;
using netlink::IfIndex;

struct Finding {
    std::string what;  // "port 3 xv12ab: program"
    std::string why;   // empty: it is well
    std::string cure;
};
using Findings = std::vector<Finding>;

constexpr const char* recreate = "recreate the container";

// Something that could not be read is a finding too.
template <class T>
std::string fault_of(const Result<T>& result) {
    return result ? std::string{} : result.error().text;
}

// ---- one port

// Our program, attached natively by the pinned link.
Finding examine_program(Node& node, const Port& port) {
    Finding finding{.what = "program",
                    .why = {},
                    .cure = port.is_nic() ? "xvethctl nic detach, then recreate a container" : recreate};
    const auto index = static_cast<std::uint32_t>(port.link->index);
    if (!port.is_nic() && !port.record) return finding;  // whose link it was is on the lost record
    const auto fault = datapath::find_link_fault(
        node.path, node.path.ns, port.is_nic() ? datapath::nic_pin(index) : datapath::host_pin(port.record->key.hash()),
        *port.link,
        !port.is_nic()           ? attachment::host_program(*port.record)
        : port.entry.bridge != 0 ? bpf::Program::bridge
                                 : bpf::Program::nic);
    finding.why = fault ? *fault : fault.error().text;
    return finding;
}

Finding examine_target(Node& node, const Port& port) {
    Finding finding{.what = "redirect target", .why = {}, .cure = recreate};
    const auto target = node.path.bpf.find_target(port.id);
    const bool wanted = (port.entry.flags & bpf::XV_PORT_TARGET) != 0;
    if (!target)
        finding.why = fault_of(target);
    else if (!wanted)
        finding = {
            .what = finding.what,
            .why = "the kernel reports no NDO_XMIT: what is sent there takes the stack",
            .cure = "a veth: GRO or a native XDP program at its other end; hardware: a driver with ndo_xdp_xmit"};
    else if (*target != port.entry.ifindex)
        finding.why = "the redirect map does not lead to this device";
    return finding;
}

Finding examine_receiver(Node& node, const Port& port) {
    Finding finding{.what = "takes redirected frames", .why = {}, .cure = "ethtool -K eth0 gro on, in the container"};
    const auto takes = datapath::takes_redirected_frames(node.path.rtnl, port.link->index);
    if (!takes)
        finding.why = fault_of(takes);
    else if (!*takes)
        finding.why = "the kernel reports no NDO_XMIT: the other end has neither an XDP program nor GRO";
    return finding;
}

Finding examine_addresses(Node& node, const Port& port) {
    Finding finding{.what = "addresses", .why = {}, .cure = recreate};
    for (const IpAddress& address : port.record->addresses) {
        const auto endpoint = node.path.bpf.find_endpoint(address);
        const auto route = node.path.rtnl.route_to(address);
        if (!endpoint || *endpoint != port.id)
            finding.why = address.to_string() + " does not lead to this port";
        else if (!route || !*route || (*route)->device != port.link->index)
            finding.why = address.to_string() + " is not routed to this device";
    }
    return finding;
}

std::optional<NetConf> conf_of(const AttachmentRecord& record) {
    auto conf = attachment::parse_net_conf(record.conf, record.args, record.key.ifname, attachment::Purpose::remove);
    if (!conf) return std::nullopt;
    return std::move(*conf);
}

// Its place in the kernel's bridge and in the tables, and the host's own port there.
Finding examine_bridge(Node& node, const Port& port) {
    Finding finding{.what = "bridge", .why = {}, .cure = recreate};
    const auto conf = conf_of(*port.record);
    if (!conf) return finding;
    const auto access = attachment::bridge_access(*conf);
    if (!access) return finding;
    if (conf->vlan != 0 || !access->uses_vlans()) {
        const auto fault = datapath::find_bridge_fault(node.path, conf->name, conf->vlan);
        finding.why = fault ? *fault : fault.error().text;
    }
    if (!finding.why.empty()) return finding;
    Mac mac;
    std::ranges::copy(port.entry.mac, mac.bytes.begin());
    const auto fault = datapath::find_bridged_port_fault(node.path, conf->name, port.id, *port.link, *access, mac);
    finding.why = fault ? *fault : fault.error().text;
    return finding;
}

// The container's end, seen from inside its namespace. Nothing when the namespace cannot be opened from here.
std::optional<Finding> examine_container_end(Node& node, const AttachmentRecord& record) {
    auto ns = Netns::open(record.netns_path);
    if (!ns) return std::nullopt;
    auto rtnl = node.path.kernel.open_rtnl(*ns);
    if (!rtnl) return std::nullopt;
    Finding finding{.what = "offloads of " + record.key.ifname, .why = {}, .cure = "ethtool -K " + record.key.ifname};
    const auto features = (*rtnl)->features(IfIndex{record.container_ifindex});
    if (!features) return Finding{.what = finding.what, .why = fault_of(features), .cure = recreate};
    for (const auto& wanted : datapath::container_end_features()) {
        const auto state = features->find(wanted.name);
        if (state == features->end() || state->second.active == wanted.on) continue;
        finding.why += (finding.why.empty() ? "" : ", ") + wanted.name + " is " + (wanted.on ? "off" : "on");
        finding.cure += " " + wanted.name + (wanted.on ? " on" : " off");
    }
    finding.cure += ", in the container";
    return finding;
}

// Our program at the container's end, where there is one.
std::optional<Finding> examine_container_program(Node& node, const AttachmentRecord& record) {
    if (record.container_xdp == "free") return std::nullopt;
    auto ns = Netns::open(record.netns_path);
    if (!ns) return std::nullopt;
    auto rtnl = node.path.kernel.open_rtnl(*ns);
    if (!rtnl) return std::nullopt;
    Finding finding{.what = "program of " + record.key.ifname, .why = {}, .cure = recreate};
    const auto link = (*rtnl)->find_link(IfIndex{record.container_ifindex});
    if (!link || !*link) return std::nullopt;  // the offloads' check says so
    const auto pin = datapath::container_pin(record.key.hash());
    const auto fault = record.program ? datapath::find_link_fault(node.path, *ns, pin, **link, record.program->id,
                                                                  record.program->next_id)
                                      : datapath::find_link_fault(node.path, *ns, pin, **link, bpf::Program::pod);
    finding.why = fault ? *fault : fault.error().text;
    return finding;
}

// Policy "auto" looks once, at ADD: what was added since is said here.
std::optional<Finding> examine_policy(Node& node, const Port& port, const std::vector<IfIndex>& nics) {
    const auto conf = conf_of(*port.record);
    if (!conf || conf->policy != attachment::Policy::automatic) return std::nullopt;
    const bool fast = (port.entry.flags & bpf::XV_PORT_FAST) != 0;
    Finding finding{.what = "policy auto", .why = {}, .cure = {}};
    if (conf->bandwidth_asked) {
        finding.why = fast ? "" : "all frames take the stack: a bandwidth limit is asked for";
        finding.cure = R"(remove the bandwidth annotation, or set "policy": "fast")";
        return finding;
    }
    std::vector<IfIndex> devices = nics;
    devices.push_back(port.link->index);
    const auto objection = port.record->bridged ? datapath::find_bridge_objection(node.path, {port.link->index})
                                                : datapath::find_objection(node.path, devices);
    if (objection && fast) {
        finding.why = "frames bypass what was added after ADD: " + *objection;
        finding.cure = R"(recreate the container, or set "policy": "stack")";
    } else if (!fast) {
        finding.why =
            "all frames take the stack: " + objection.value_or("something at the time of ADD that is gone by now");
        finding.cure = objection ? R"(remove it, or set "policy": "fast"; then recreate the container)" : recreate;
    }
    return finding;
}

// A member of a chain is where its ADD put it.
std::optional<Finding> examine_place(Node& node, const Port& port) {
    if (!port.record->chain) return std::nullopt;
    const auto& chain = *port.record->chain;
    Finding finding{
        .what = chain.position != 0 ? "function of chain " + chain.name : "protected by chain " + chain.name,
        .why = {},
        .cure = recreate};
    const auto checked = attachment::check_chain(node, *port.record, *port.link);
    if (!checked) finding.why = checked.error().text;
    return finding;
}

Findings examine_port(Node& node, const Port& port, const std::vector<IfIndex>& nics) {
    if (!port.link)
        return {
            {.what = "device", .why = "it is gone", .cure = "the runtime's DEL or GC of its network removes the rest"}};
    Findings findings{
        {.what = "device", .why = port.link->up ? "" : "it is down", .cure = "ip link set " + port.link->name + " up"},
        examine_program(node, port),
        examine_target(node, port)};
    if (port.is_nic()) return findings;
    findings.push_back(examine_receiver(node, port));
    if (!port.record && port.entry.bridge != 0 && port.link->name.starts_with("xvbp-"))
        return findings;  // the host's own
    if (!port.record) {
        findings.push_back(
            {.what = "record", .why = "the attachment's record is lost", .cure = "delete the container"});
        return findings;
    }
    if (port.record->bridged)
        findings.push_back(examine_bridge(node, port));
    else if (!port.record->chained)
        findings.push_back(examine_addresses(node, port));
    if (auto inner = examine_container_end(node, *port.record)) findings.push_back(std::move(*inner));
    if (auto inner = examine_container_program(node, *port.record)) findings.push_back(std::move(*inner));
    if (auto place = examine_place(node, port)) findings.push_back(std::move(*place));
    if (auto policy = examine_policy(node, port, nics)) findings.push_back(std::move(*policy));
    return findings;
}

// ---- the node

// Why a NIC that a network means is no port.
std::string why_no_port(Node& node, const netlink::Link& nic) {
    const auto attached = node.path.bpf.attached_program(node.path.ns, static_cast<std::uint32_t>(nic.index));
    if (attached && *attached)
        return "it carries XDP program " + std::to_string((*attached)->id) + " \"" + (*attached)->name + "\" (" +
               (*attached)->mode + ")";
    return "its driver has no native XDP, or xveth was detached from it, or it came after the last ADD; the log says "
           "which";
}

// Each NIC that the networks of the attachments mean, once.
Findings examine_nics(Node& node, const std::vector<AttachmentRecord>& records) {
    Findings findings;
    std::set<IfIndex> seen;
    for (const AttachmentRecord& record : records) {
        const auto conf = conf_of(record);
        if (!conf || record.chained || record.bridged) continue;
        attachment::Notes notes;
        const auto nics = datapath::choose_nics(node.path.rtnl, attachment::nic_request(*conf), notes);
        if (!nics) continue;
        for (const auto& nic : *nics) {
            if (!seen.insert(nic.index).second) continue;
            const auto port = node.path.bpf.find_port(static_cast<std::uint32_t>(nic.index));
            if (port && *port) continue;
            findings.push_back(
                {.what = "NIC " + nic.name,
                 .why = "frames from and to the wire take the stack: " + why_no_port(node, nic),
                 .cure = "free its XDP hook and recreate a container, or name another device in \"nic\""});
        }
    }
    return findings;
}

Finding examine_conntrack(Node& node) {
    if (!node.path.bpf.has_conntrack())
        return {
            .what = "conntrack",
            .why = "nf_conntrack was not there when the programs were loaded: only flows between containers are fast",
            .cure = "modprobe nf_conntrack before the node's first container"};
    const auto liberal = node.path.sysctls.read(node.path.ns, datapath::conntrack_liberal);
    if (liberal && *liberal == "0")
        return {.what = "conntrack",
                .why = "a TCP connection that leaves the fast path may be taken for invalid, and be dropped by rules",
                .cure = "sysctl -w net.netfilter.nf_conntrack_tcp_be_liberal=1"};
    return {.what = "conntrack", .why = {}, .cure = {}};
}

std::string what_becomes_of_frames(const datapath::FunctionSlot& slot) {
    return slot.bypass_on_failure ? "frames pass it by" : "frames of the chain are dropped";
}

Finding examine_function(const datapath::ChainView& chain, const datapath::FunctionSlot& slot) {
    const std::string position = std::to_string(slot.position);
    Finding finding{.what = "chain " + chain.name + ": function " + position, .why = {}, .cure = {}};
    if (slot.state == datapath::FunctionState::gone) {
        finding.why = "it is gone: " + what_becomes_of_frames(slot);
        finding.cure = "start it again, or xvethctl chain forget " + chain.name + " " + position;
    } else if (slot.state == datapath::FunctionState::disarmed) {
        finding.why = "it runs no XDP program: " + what_becomes_of_frames(slot);
        finding.cure = "load its program, in its container";
    }
    return finding;
}

Findings examine_chains(Node& node) {
    const auto chains = datapath::list_chains(node.path);
    if (!chains) return {{.what = "chains", .why = fault_of(chains), .cure = recreate}};
    if (chains->empty()) return {};
    const auto runs = attachment::agent_runs(node);
    Findings findings{{.what = "xvethd",
                       .why = !runs   ? fault_of(runs)
                              : *runs ? ""
                                      : "it does not run: a function that runs no XDP program is not noticed",
                       .cure = "start xvethd in the node's network namespace"}};
    for (const auto& chain : *chains) {
        if (chain.functions.empty())
            findings.push_back({.what = "chain " + chain.name,
                                .why = "it has no function: what it protects gets no frame",
                                .cure = R"(start a container with "chain": {"name": ")" + chain.name + R"(", …})"});
        for (const auto& slot : chain.functions) findings.push_back(examine_function(chain, slot));
    }
    return findings;
}

Findings examine_node(Node& node, const std::vector<AttachmentRecord>& records) {
    Findings findings{examine_conntrack(node)};
    for (const AttachmentRecord& record : records)
        if (!record.complete)
            findings.push_back({.what = "attachment " + attachment_name(record.key),
                                .why = "its ADD did not end",
                                .cure = "the runtime's DEL removes it"});
    std::ranges::move(examine_nics(node, records), std::back_inserter(findings));
    std::ranges::move(examine_chains(node), std::back_inserter(findings));
    return findings;
}

Result<Findings> collect(Node& node) {
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (!*loaded) return Findings{{.what = "programs (none loaded: no container yet)", .why = {}, .cure = {}}};
    auto records = node.store.list_all();
    if (!records) return std::move(records.error());
    auto ports = list_ports(node);
    if (!ports) return std::move(ports.error());

    Findings findings = examine_node(node, *records);
    std::vector<IfIndex> nics;
    for (const Port& port : *ports)
        if (port.is_nic() && port.link) nics.push_back(port.link->index);
    for (const Port& port : *ports)
        for (Finding& finding : examine_port(node, port, nics)) {
            finding.what = "port " + port.number() + " " + port.name() + ": " + finding.what;
            findings.push_back(std::move(finding));
        }
    return findings;
}

std::string format_json(const Findings& findings) {
    attachment::OrderedJson out;
    out["checks"] = attachment::OrderedJson::array();
    for (const Finding& finding : findings) {
        attachment::OrderedJson check;
        check["name"] = finding.what;
        check["ok"] = finding.why.empty();
        if (!finding.why.empty()) {
            check["why"] = finding.why;
            check["cure"] = finding.cure;
        }
        out["checks"].push_back(std::move(check));
    }
    return attachment::dump_json(out) + "\n";
}

std::string format_people(const Findings& findings) {
    std::string text;
    for (const Finding& finding : findings) {
        text += (finding.why.empty() ? "ok       " : "PROBLEM  ") + finding.what;
        if (!finding.why.empty()) text += ": " + finding.why + "; cure: " + finding.cure;
        text += "\n";
    }
    return text;
}

}  // namespace

Result<Output> examine(Node& node, Form form) {
    auto findings = collect(node);
    if (!findings) return std::move(findings.error());
    const bool problems = std::ranges::any_of(*findings, [](const Finding& finding) { return !finding.why.empty(); });
    return Output{.text = form == Form::json ? format_json(*findings) : format_people(*findings),
                  .found_problems = problems};
}

}  // namespace xveth::ctl
