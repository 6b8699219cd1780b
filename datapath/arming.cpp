// SPDX-License-Identifier: Apache-2.0
#include "datapath/arming.hpp"

#include <cerrno>
#include <optional>

namespace xveth::datapath {

const std::vector<netlink::Feature>& container_end_features() {
    static const std::vector<netlink::Feature> features{
        {.name = "rx-gro", .on = true},
        {.name = "tx-checksum-ip-generic", .on = false},
        {.name = "tx-checksum-sctp", .on = false},
        {.name = "tx-vlan-hw-insert", .on = false},
        {.name = "tx-vlan-stag-hw-insert", .on = false},
    };
    return features;
}

std::vector<netlink::Feature> host_end_features(bool container_redirects) {
    if (container_redirects) return container_end_features();
    return {{.name = "rx-gro", .on = true}};
}

namespace {

std::string who_is_there(const std::optional<bpf::AttachedProgram>& program) {
    if (!program) return "no program is attached";
    return "XDP program " + std::to_string(program->id) + " \"" + program->name + "\" (" + program->mode +
           ") is attached instead";
}

// What happened to the link; empty when it holds `wanted` at `device`.
std::string describe_fault(const std::optional<bpf::LinkInfo>& link, const std::string& pin,
                           const netlink::Link& device, std::uint32_t wanted, std::uint32_t also) {
    if (!link) return "our XDP link is gone: somebody removed its pin links/" + pin;
    // A link forgets its device when it is detached, and when the device goes: the device is there.
    if (link->ifindex == 0) return "our XDP link (pin links/" + pin + ") was detached by somebody (BPF_LINK_DETACH)";
    if (link->ifindex != static_cast<std::uint32_t>(device.index))
        return "our XDP link (pin links/" + pin + ") is at ifindex " + std::to_string(link->ifindex);
    if (link->program_id != wanted && link->program_id != also)
        return "somebody updated our XDP link: it runs program " + std::to_string(link->program_id) + ", ours is " +
               std::to_string(wanted);
    return device.xdp_mode == netlink::XdpMode::native ? "" : "XDP does not run natively";
}

}  // namespace

Result<std::string> find_link_fault(Node& node, const Netns& ns, const std::string& pin, const netlink::Link& device,
                                    bpf::Program program) {
    auto wanted = node.bpf.program_id(program);
    if (!wanted) return std::move(wanted.error());
    return find_link_fault(node, ns, pin, device, *wanted, *wanted);
}

Result<std::string> find_link_fault(Node& node, const Netns& ns, const std::string& pin, const netlink::Link& device,
                                    std::uint32_t id, std::uint32_t next_id) {
    auto link = node.bpf.find_link(pin);
    if (!link) return std::move(link.error());
    const std::string fault = describe_fault(*link, pin, device, id, next_id);
    if (fault.empty()) return fault;
    auto present = node.bpf.attached_program(ns, static_cast<std::uint32_t>(device.index));
    if (!present) return std::move(present.error());
    return device.name + ": " + fault + "; " + who_is_there(*present);
}

std::string host_pin(const std::string& hash) { return hash + "h"; }
std::string container_pin(const std::string& hash) { return hash + "c"; }
std::string egress_pin(const std::string& hash) { return hash + "e"; }

Result<std::string> find_egress_fault(Node& node, const std::string& hash, const netlink::Link& host_end) {
    auto link = node.bpf.find_link(egress_pin(hash));
    if (!link) return std::move(link.error());
    if (*link && (*link)->ifindex == static_cast<std::uint32_t>(host_end.index)) return std::string{};
    return host_end.name + ": our egress program is gone: somebody removed its link, pin links/" + egress_pin(hash);
}

Result<bool> takes_redirected_frames(netlink::Rtnl& rtnl, netlink::IfIndex device) {
    auto features = rtnl.xdp_features(device);
    if (features) return (*features & netlink::xdp_act_ndo_xmit) != 0;
    if (features.error().errno_value == ENOENT) return true;
    return std::move(features.error());
}

namespace {

// The maps first: what is attached can be read from its first frame on.
Result<void> attach_operators_program(Node& node, const Netns& ns, std::uint32_t ifindex, const ArmSpec& spec) {
    {
        auto lock = NodeLock::acquire(node);
        if (!lock) return std::move(lock.error());
        auto published = node.programs.publish_maps(*spec.program, {.attachment = spec.pin, .directory = spec.maps});
        if (!published) return published;
    }
    return node.programs.attach(*spec.program, ns, ifindex, container_pin(spec.pin));
}

Result<void> arm_container_end(Node& node, const Netns& ns, const VethPair& pair, const ArmSpec& spec) {
    const auto ifindex = static_cast<std::uint32_t>(pair.container.index);
    if (spec.program != nullptr) return attach_operators_program(node, ns, ifindex, spec);
    return spec.managed ? node.bpf.attach(ns, ifindex, bpf::Program::pod, container_pin(spec.pin)) : ok();
}

Result<void> guard_egress(Node& node, const std::string& hash, const netlink::Link& host_end) {
    auto attached = node.bpf.attach_egress(node.ns, static_cast<std::uint32_t>(host_end.index), egress_pin(hash));
    if (!attached) return std::move(attached.error()).in("egress of host end " + host_end.name).or_code(101);
    return ok();
}

}  // namespace

Result<void> arm(Node& node, const Netns& container_ns, const VethPair& pair, const ArmSpec& spec) {
    if (auto inner = arm_container_end(node, container_ns, pair, spec); !inner)
        return std::move(inner.error()).in("container end " + pair.container.name).or_code(101);
    auto outer =
        node.bpf.attach(node.ns, static_cast<std::uint32_t>(pair.host.index), spec.host_program, host_pin(spec.pin));
    if (!outer) return std::move(outer.error()).in("host end " + pair.host.name).or_code(101);
    if (spec.guarded)
        if (auto guarded = guard_egress(node, spec.pin, pair.host); !guarded) return guarded;

    auto takes = takes_redirected_frames(node.rtnl, pair.host.index);
    if (!takes) return std::move(takes.error());
    if (!*takes)
        return Error{.code = 101,
                     .errno_value = EOPNOTSUPP,
                     .text = "host end " + pair.host.name + " does not take redirected frames (no NDO_XMIT)",
                     .hint = "the container's end needs GRO or a native XDP program, and as many rx as tx queues"};
    return ok();
}

Result<void> disarm(Node& node, const std::string& pin) {
    auto outer = node.bpf.remove_link_if_present(host_pin(pin));
    auto inner = node.bpf.remove_link_if_present(container_pin(pin));
    return outer ? inner : outer;
}

Result<void> remove_guard(Node& node, const std::string& pin) {
    return node.bpf.remove_link_if_present(egress_pin(pin));
}

Result<void> remove_program_maps(Node& node, const std::string& hash, const std::string& directory) {
    auto noted = node.programs.find_place(hash);
    if (!noted) return std::move(noted.error());
    const std::string place = noted->value_or(directory);
    if (place.empty()) return ok();
    auto lock = NodeLock::acquire(node);
    if (!lock) return std::move(lock.error());
    return node.programs.remove_maps_if_present({.attachment = hash, .directory = place});
}

}  // namespace xveth::datapath
