// SPDX-License-Identifier: Apache-2.0
// What the parts of a bridge have in common. Private to bridge*.cpp.
#pragma once

#include "datapath/bridge.hpp"

namespace xveth::datapath {

// Pin of the program at the bridge's end of the host's own port: "<hex>b".
[[nodiscard]] std::string bridge_pin(const std::string& port_name);

// Makes an armed device a port in the tables, at both bridges: what `access` says, `mac` behind it. `flags`: XV_PORT_FAST,
// NIC, SPOOFCHECK.
[[nodiscard]] Result<bpf::PortId> enter_bridge_port(Node& node, const NetworkBridge& bridge,
                                                    const netlink::Link& device, const Mac& mac,
                                                    const BridgeAccess& access, std::uint32_t flags);

// VLANs of a device that is a port of the kernel's bridge already.
[[nodiscard]] Result<void> enslave_vlans(Node& node, netlink::IfIndex device, const BridgeAccess& access);

// NICs as ports: they take and send every VLAN of the bridge with its tag.
[[nodiscard]] Result<void> ensure_bridge_nics(Node& node, const NodeLock& lock, const NetworkBridge& bridge,
                                              const BridgeSpec& spec, std::vector<std::string>& notes);
[[nodiscard]] Result<void> release_bridge_nic(Node& node, const netlink::Link& nic);

}  // namespace xveth::datapath
