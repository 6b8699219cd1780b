// SPDX-License-Identifier: Apache-2.0
// Attachments of networks in bridge mode, beside those of routed ones.
#pragma once

#include <cstdint>
#include <vector>

#include "attachment/lifecycle.hpp"
#include "attachment/verbs.hpp"
#include "datapath/addressing.hpp"
#include "datapath/bridge.hpp"
#include "datapath/veth_pair.hpp"

namespace xveth::attachment {

// What the configuration says of the container's port. Error 7: more VLANs than a port takes.
[[nodiscard]] Result<datapath::BridgeAccess> bridge_access(const NetConf& conf);
// Whether the host has the gateways' addresses: unless a NIC is named, behind which they are then.
[[nodiscard]] bool host_is_gateway(const NetConf& conf);

// Layer 3 of an attachment, from what IPAM answered (ADD) or from what ADD answered (CHECK).
struct BridgedPlan {
    datapath::BridgedLayer3 container;
    std::vector<IpPrefix> gateways;  // with the prefix of their network; each once
};
[[nodiscard]] BridgedPlan plan_bridged(const NetConf& conf, const CniResult& result, std::uint32_t route_mtu);
// IPAM's answer with the gateways that it left to us.
[[nodiscard]] CniResult with_gateways(const NetConf& conf, CniResult result);

// ADD's steps in their order; `record` grows with them.
[[nodiscard]] Result<CniResult> attach_bridged(Node& node, const NetConf& conf, const Request& request,
                                               Container& container, AttachmentRecord& record, Notes& notes);
// After the record is gone: the network's bridge goes with its last attachment.
[[nodiscard]] Result<void> remove_unused_bridge(Node& node, const std::string& network);
// CHECK: the bridge, the port in it, the gateways. A MAC that another plugin gave the container since takes the place of
// the first one.
[[nodiscard]] Result<void> check_bridged(Node& node, const NetConf& conf, const AttachmentRecord& record,
                                         const datapath::VethPair& pair, const CniResult& result);

// add.cpp: what both modes share.
inline constexpr std::uint32_t mtu_without_nic = 1500;
// The kernel takes IPv6 off a device of so small an MTU: error 7.
[[nodiscard]] Result<void> refuse_mtu_below_ipv6(const netlink::Link& device);
[[nodiscard]] Result<CniResult> ask_ipam(Node& node, const NetConf& conf, const Request& request);
[[nodiscard]] Result<datapath::VethPair> create_pair(Node& node, const NetConf& conf, const AttachmentRecord& record,
                                                     Container& container, std::uint32_t mtu);
[[nodiscard]] Result<void> set_up_links(Node& node, const NetConf& conf, Container& container,
                                        const datapath::VethPair& pair);
[[nodiscard]] Result<void> set_up_masquerade(Node& node, const NetConf& conf, const std::vector<IpPrefix>& addresses,
                                             AttachmentRecord& record);

}  // namespace xveth::attachment
