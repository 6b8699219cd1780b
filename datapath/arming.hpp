// SPDX-License-Identifier: Apache-2.0
// What makes a veth pair take and send redirected frames natively at both ends.
#pragma once

#include <string>
#include <vector>

#include "base/netns.hpp"
#include "base/result.hpp"
#include "datapath/node.hpp"
#include "datapath/veth_pair.hpp"
#include "netlink/rtnl.hpp"

namespace xveth::datapath {

// Offloads of the container's end: GRO on (NAPI, so that frames redirected to its peer arrive even when the container
// has no program), and off whatever leaves work to be done after a frame has become an xdp_frame, which carries neither
// checksum state nor a VLAN tag.
[[nodiscard]] const std::vector<netlink::Feature>& container_end_features();
// The host end's: GRO on; `container_redirects` (its own program may XDP_TX or redirect what the host sent): the same
// offloads off.
[[nodiscard]] std::vector<netlink::Feature> host_end_features(bool container_redirects);

struct ArmSpec {
    std::string pin;      // attachment's hash: pins "<hash>h" and "<hash>c"
    bool managed = true;  // our program on the container's end too; false: the hook is the container's
    bpf::Program host_program = bpf::Program::host;  // or a function's, or a bridge port's
    const bpf::ProgramInstance* program = nullptr;   // the operator's there instead
    std::string maps;                                // the directory that its maps are pinned in
    bool guarded = false;  // protected: what the stack sends by the host end goes through a chain, if anywhere
};

// Attaches xv_host at the host end, and at the container's xv_pod or the operator's program; both up, offloads set before.
// Fails (code 101) unless the kernel then reports that the pair takes redirected frames. From then on a guarded container
// gets from the stack what passes its chain, and nothing before its port is published.
[[nodiscard]] Result<void> arm(Node& node, const Netns& container_ns, const VethPair& pair, const ArmSpec& spec);

// Removes both pins, which detaches; success when there are none.
[[nodiscard]] Result<void> disarm(Node& node, const std::string& pin);
// Ends the guard; success when there is none. Last, where the pair goes: nothing reaches the container before that.
[[nodiscard]] Result<void> remove_guard(Node& node, const std::string& pin);

[[nodiscard]] std::string host_pin(const std::string& hash);
[[nodiscard]] std::string container_pin(const std::string& hash);
[[nodiscard]] std::string egress_pin(const std::string& hash);

// What is wrong with the guard; empty while it is in force.
[[nodiscard]] Result<std::string> find_egress_fault(Node& node, const std::string& hash, const netlink::Link& host_end);

// Removes the pins of the maps of an operator's program; success when there are none. `directory`: as on record, for when
// the pins' own note is lost; else empty.
[[nodiscard]] Result<void> remove_program_maps(Node& node, const std::string& hash, const std::string& directory);

// What is wrong with our program on a device; empty while the pinned link `pin` holds it there natively. Says what was done
// to the link and who is on the device instead. `ns`: the device's namespace.
[[nodiscard]] Result<std::string> find_link_fault(Node& node, const Netns& ns, const std::string& pin,
                                                  const netlink::Link& device, bpf::Program program);
// The same for the operator's program, by its id. `next_id`: a replacement's that was not heard of again, or 0.
[[nodiscard]] Result<std::string> find_link_fault(Node& node, const Netns& ns, const std::string& pin,
                                                  const netlink::Link& device, std::uint32_t id, std::uint32_t next_id);

// NDO_XMIT of xdp-features. A kernel without them (before 6.3) is taken at its word that the program is attached: true.
[[nodiscard]] Result<bool> takes_redirected_frames(netlink::Rtnl& rtnl, netlink::IfIndex device);

}  // namespace xveth::datapath
