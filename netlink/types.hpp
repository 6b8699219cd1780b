// SPDX-License-Identifier: Apache-2.0
// What the kernel tells and takes over netlink, as plain values. No libnl type leaves this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.hpp"

namespace xveth::netlink {

enum class IfIndex : std::uint32_t { none = 0 };

// How an XDP program sits on a device (IFLA_XDP_ATTACHED).
enum class XdpMode : std::uint8_t { none, native, generic, offloaded, multiple };

// A port of a kernel bridge.
struct BridgePort {
    bool learning = true;   // remembers the sources of the frames that come in
    bool isolated = false;  // exchanges no frames with other isolated ports
    bool operator==(const BridgePort&) const = default;
};

struct Link {
    IfIndex index = IfIndex::none;
    std::string name;
    std::string kind;  // "veth", "bridge", …; empty for a physical device
    Mac mac;
    std::string alias;  // IFALIAS
    std::string qdisc;  // kind of its root qdisc; "noop" while it is down
    std::uint32_t mtu = 0;
    std::uint32_t max_mtu = 0;
    bool up = false;       // IFF_UP
    bool running = false;  // operational state UP: there is a carrier, and the kernel no longer drops what is sent
    bool loopback = false;
    std::uint32_t rx_queues = 0;  // allocated: IFLA_NUM_RX_QUEUES
    std::uint32_t tx_queues = 0;
    IfIndex peer = IfIndex::none;               // IFLA_LINK: a veth's other end, by its ifindex in its own namespace
    std::optional<std::int32_t> peer_netns_id;  // IFLA_LINK_NETNSID; absent: the peer is in the same namespace
    IfIndex master = IfIndex::none;
    bool filters_vlans = false;             // of a bridge
    std::optional<BridgePort> bridge_port;  // of a port of one
    XdpMode xdp_mode = XdpMode::none;
    std::uint32_t xdp_program_id = 0;  // of the native program, else of the one that is there
};

struct VethEnd {
    int netns_fd = -1;  // where this end is created
    std::string name;
    Mac mac;
    bool no_ipv6_autoconf =
        false;  // addr_gen_mode none: no link-local address by itself, hence no duplicate address detection
};

// Both ends placed, named, sized, queued and given their MACs by one RTM_NEWLINK, both down.
struct VethSpec {
    VethEnd host;
    VethEnd container;
    std::uint32_t mtu = 1500;
    std::uint32_t queues =
        1;  // rx = tx, both ends (kernel: numbers must be given on both, else the peer gets all CPUs)
};

// A bridge without spanning tree, multicast snooping and VLANs of its own, which speaks no ARP; down.
struct BridgeSpec {
    std::string name;
    Mac mac;
    bool filters_vlans = false;  // errno EOPNOTSUPP where the kernel was built without that
};

// A VLAN that a bridge's port is in; `own`: its frames are untagged there, and untagged frames are of it.
struct BridgeVlan {
    std::uint16_t first = 0;
    std::uint16_t last = 0;
    bool own = false;  // of a single VLAN
};

// Where a bridge finds a MAC. Added as NTF_EXT_LEARNED: it does not age, and is told from what an operator enters.
struct BridgeMac {
    Mac mac;
    std::uint16_t vlan = 0;  // 0 where the bridge does not filter VLANs
    IfIndex port = IfIndex::none;
};

// Scopes of addresses and routes: RT_SCOPE_UNIVERSE and RT_SCOPE_LINK.
inline constexpr std::uint8_t scope_universe = 0;
inline constexpr std::uint8_t scope_link = 253;

struct Address {
    IpPrefix prefix;
    std::optional<IpAddress> peer;  // point-to-point remote
    std::uint8_t scope = 0;         // RT_SCOPE_*
    bool no_dad = false;            // IFA_F_NODAD: usable at once
    bool no_prefix_route = false;   // IFA_F_NOPREFIXROUTE: the kernel adds no route to the prefix
    bool tentative = false;         // read only
};

struct Route {
    IpPrefix destination;
    std::optional<IpAddress> gateway;
    IfIndex device = IfIndex::none;
    std::optional<IpAddress> preferred_source;
    std::uint32_t mtu = 0;  // RTAX_MTU; 0 = the device's
    std::uint32_t advmss = 0;
    std::uint32_t priority = 0;
    std::uint32_t table = 0;  // 0 = main
    std::uint8_t scope = 0;   // RT_SCOPE_*
    bool onlink = false;
    bool local = false;  // when asked for: it ends here, at an address of this namespace
};

enum class NeighbourState : std::uint16_t { permanent = 0x80, stale = 0x04, reachable = 0x02, none = 0x00 };

struct Neighbour {
    IfIndex device = IfIndex::none;
    IpAddress address;
    Mac mac;
    NeighbourState state = NeighbourState::permanent;  // when read: the NUD_* value
    bool managed = false;  // NTF_EXT_MANAGED: the kernel resolves it and keeps it resolved (no mac needed)
};

// `off`/`on` of named ethtool features ("rx-gro", "tx-checksum-ip-generic", "tx-vlan-hw-insert").
struct Feature {
    std::string name;
    bool on = false;
};

struct FeatureState {
    bool active = false;
    bool changeable = false;  // in hw (can be changed) and not fixed (NEVER_CHANGE)
};

// Real (not allocated) queue numbers by ethtool.
struct Channels {
    std::uint32_t rx = 0;
    std::uint32_t tx = 0;
};

// xdp-features of genl family "netdev" (Linux 6.3): NETDEV_XDP_ACT_* bits.
inline constexpr std::uint64_t xdp_act_basic = 1U << 0U;
inline constexpr std::uint64_t xdp_act_redirect = 1U << 1U;
inline constexpr std::uint64_t xdp_act_ndo_xmit = 1U << 2U;
inline constexpr std::uint64_t xdp_act_xsk_zerocopy = 1U << 3U;
inline constexpr std::uint64_t xdp_act_hw_offload = 1U << 4U;
inline constexpr std::uint64_t xdp_act_rx_sg = 1U << 5U;
inline constexpr std::uint64_t xdp_act_ndo_xmit_sg = 1U << 6U;

struct Qdisc {
    IfIndex device = IfIndex::none;
    std::string kind;  // "noqueue", "tbf", "clsact", …
};

// A tc filter or a tcx/clsact program on a device, enough to tell whether anything there could see or stop a frame.
struct TcFilter {
    std::string kind;  // "bpf", "matchall", "u32", "flower", …
    bool ingress = false;
};

}  // namespace xveth::netlink
