// SPDX-License-Identifier: Apache-2.0
// The node's NICs: which ones, and what makes each an XDP port.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bpf-progs/loader/objects.hpp"
#include "datapath/node.hpp"
#include "netlink/types.hpp"

namespace xveth::datapath {

struct NicRequest {
    bool automatic = false;          // the devices of the default routes
    std::vector<std::string> names;  // otherwise these; empty = no NIC
    bool required = false;           // a NIC that cannot serve is an error, else it is skipped and noted
};

struct NicSet {
    std::vector<netlink::Link> links;  // those that run xv_nic
    std::uint32_t mtu = 0;             // the smallest of the chosen devices, also of skipped ones; 0 without any
};

// The devices that `request` means. A named one that does not exist is an error (code 7) if required, else noted.
[[nodiscard]] Result<std::vector<netlink::Link>> choose_nics(netlink::Rtnl& rtnl, const NicRequest& request,
                                                             std::vector<std::string>& notes);

// Makes each chosen device an XDP port: VLAN tags into the frame, xv_nic attached and pinned, port allocated, in the
// redirect map where the kernel reports NDO_XMIT, and its gateways' neighbours kept resolved. What is already so stays
// untouched: attaching resets the rings of real drivers.
[[nodiscard]] Result<NicSet> ensure_nics(Node& node, const NodeLock& lock, const NicRequest& request,
                                         std::vector<std::string>& notes);

// Takes the program off one NIC and frees its port; success when it was none of ours.
[[nodiscard]] Result<void> detach_nic(Node& node, const NodeLock& lock, const netlink::Link& nic);

// A tag that the device keeps in metadata is invisible to XDP, and a redirected frame would lose it: the frame of a VLAN
// would reach a container untagged. What it was is remembered for detach_nic().
[[nodiscard]] Result<void> keep_vlan_tags_in_frames(Node& node, const netlink::Link& nic);

[[nodiscard]] std::string nic_pin(std::uint32_t ifindex);

}  // namespace xveth::datapath
