// SPDX-License-Identifier: Apache-2.0
#include "datapath/arming.hpp"

#include <cerrno>

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

std::string host_pin(const std::string& hash) { return hash + "h"; }
std::string container_pin(const std::string& hash) { return hash + "c"; }

Result<bool> takes_redirected_frames(netlink::Rtnl& rtnl, netlink::IfIndex device) {
    auto features = rtnl.xdp_features(device);
    if (features) return (*features & netlink::xdp_act_ndo_xmit) != 0;
    if (features.error().errno_value == ENOENT) return true;
    return std::move(features.error());
}

Result<void> arm(Node& node, const Netns& container_ns, const VethPair& pair, const ArmSpec& spec) {
    if (spec.managed) {
        auto inner = node.bpf.attach(container_ns, static_cast<std::uint32_t>(pair.container.index), bpf::Program::pod,
                                     container_pin(spec.pin));
        if (!inner) return std::move(inner.error()).in("container end " + pair.container.name).or_code(101);
    }
    auto outer =
        node.bpf.attach(node.ns, static_cast<std::uint32_t>(pair.host.index), bpf::Program::host, host_pin(spec.pin));
    if (!outer) return std::move(outer.error()).in("host end " + pair.host.name).or_code(101);

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

}  // namespace xveth::datapath
