// SPDX-License-Identifier: Apache-2.0
// The bridge of a network (docs/design/0016): a bridge of the kernel's that carries what XDP passes, the host's own port in
// it, and NICs. Made by the first ADD of the network, gone with its last attachment.
//
//    xvbr-<hash> ═ xvbp-<hash> ─┐        ┌─ host end ═ eth0 (container)
//      (host: gateway)          ├─ xvb-… ┤
//                        NIC ───┘        └─ host end ═ eth0 (container)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/result.hpp"
#include "bpf-progs/loader/bridges.hpp"
#include "datapath/node.hpp"
#include "datapath/veth_pair.hpp"
#include "netlink/types.hpp"

namespace xveth::datapath {

// What a container's or a NIC's port is in its bridge.
struct BridgeAccess {
    std::uint16_t vlan = 0;  // the port's own; 0 = none
    bpf::VlanSet tagged{};   // those that pass with their tag
    bool isolated = false;
    [[nodiscard]] bool uses_vlans() const { return vlan != 0 || tagged.any(); }
};

struct BridgeSpec {
    std::string network;
    std::uint32_t mtu = 0;  // of every port; 0 = what the bridge has, else `default_mtu`
    std::uint32_t default_mtu = 1500;
    std::uint32_t queues = 1;
    std::vector<std::string> nics;
    bool nics_required = true;
    BridgeAccess access;  // of the container that is to come
};

struct NetworkBridge {
    netlink::Link kernel;  // the kernel's bridge
    bpf::BridgeId id = bpf::BridgeId::none;
    std::optional<netlink::Link> host;  // the host's own port, of the container's VLAN; none without a VLAN
    std::uint32_t mtu = 0;
    bool separates_vlans = true;  // false: the kernel cannot, so its bridge carries nothing (see docs/design/0016)
};

[[nodiscard]] std::string bridge_name(const std::string& network);
[[nodiscard]] std::string bridge_alias(const std::string& network);
// The host's end of the host's own port.
[[nodiscard]] std::string host_port_name(const std::string& network, std::uint16_t vlan);

// Makes what is missing. Code 7 where the network has another MTU, or other use of VLANs, than its first container.
[[nodiscard]] Result<NetworkBridge> ensure_bridge(Node& node, const NodeLock& lock, const BridgeSpec& spec,
                                                  std::vector<std::string>& notes);

// The host's own port gets a gateway's address, with the prefix of its network.
[[nodiscard]] Result<void> ensure_gateway(Node& node, const NodeLock& lock, const netlink::Link& host,
                                          const IpPrefix& gateway);

// Makes a host end a port of the kernel's bridge: before it is up, so that no frame of it meets the node's own stack.
[[nodiscard]] Result<void> enslave(Node& node, const NetworkBridge& bridge, netlink::IfIndex device,
                                   const BridgeAccess& access);

struct BridgedPortSpec {
    BridgeAccess access;
    bool spoof_check = true;
    bool fast = true;
};
// The armed host end as a port of the bridge, the container's MAC in the tables.
[[nodiscard]] Result<bpf::PortId> publish_bridged_port(Node& node, const NodeLock& lock, const NetworkBridge& bridge,
                                                       const VethPair& pair, const BridgedPortSpec& spec);

// The container has another MAC now. Its old one is forgotten.
[[nodiscard]] Result<void> change_bridged_mac(Node& node, const NodeLock& lock, bpf::PortId id, const Mac& mac);

// Takes the network's bridge down unless containers are attached to it. NICs stay armed: their rings are not reset.
[[nodiscard]] Result<void> remove_bridge_if_unused(Node& node, const NodeLock& lock, const std::string& network);

// What is wrong with the bridge and its host's own port; empty: nothing.
[[nodiscard]] Result<std::string> find_bridge_fault(Node& node, const std::string& network, std::uint16_t vlan);
// What is wrong with a container's port in it.
[[nodiscard]] Result<std::string> find_bridged_port_fault(Node& node, const std::string& network, bpf::PortId id,
                                                          const netlink::Link& host_end, const BridgeAccess& access,
                                                          const Mac& mac);

}  // namespace xveth::datapath
