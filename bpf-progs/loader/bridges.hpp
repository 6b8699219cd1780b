// SPDX-License-Identifier: Apache-2.0
// Bridges of a node: their ports, VLANs and forwarding database (FDB), in maps beside those of `Objects`, and the program
// xv_bridge (Program::bridge), which Objects attaches to every bridge port. Loaded with the first bridge network.
//
// A port is born by Objects::allocate_port, becomes a bridge port by put_port, and ends by remove_port_if_present, then
// Objects::free_port. xv_port.flags that count here: FAST, TARGET, SPOOFCHECK, ISOLATED, NIC. A port with SPOOFCHECK may
// send from xv_port.mac alone; any other is one behind which MACs are learned.
//
// Whatever XDP does not do itself it passes to the kernel's bridge that has the same ports, so that one needs the same
// VLANs and isolation. What the fast path forwards is not seen there: its own learning would go stale, so it should be
// off, with flooding on and the static entries mirrored.
//
// Nothing here takes locks: the caller holds the node lock. Error codes as those of Objects.
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/address.hpp"
#include "base/result.hpp"
#include "bpf-progs/include/bridge_abi.h"
#include "bpf-progs/loader/objects.hpp"

namespace xveth::bpf {

enum class BridgeId : std::uint16_t { none = 0 };
using VlanSet = std::bitset<XV_MAX_VLANS>;

struct Bridge {
    std::string network;
    bool vlans = false;  // tags count; else frames pass whatever tag they carry, and every VLAN below is 0
    std::chrono::seconds ageing{300};
    bool operator==(const Bridge&) const = default;
};

struct BridgePort {
    BridgeId bridge = BridgeId::none;
    std::uint16_t vlan = 0;  // the port's own, untagged there (access VLAN, or a trunk's native one); 0 = none
    VlanSet tagged{};        // VLANs that pass with their tag; `vlan` need not be among them
    bool isolated = false;   // no frames to and from other isolated ports
    bool target = true;      // takes redirected frames: its device is up and the kernel reports NDO_XMIT
    bool operator==(const BridgePort&) const = default;
};

struct FdbEntry {
    Mac mac;
    std::uint16_t vlan = 0;
    PortId port = PortId::none;
    std::optional<std::chrono::seconds> age;  // since it was last seen, one second exact; nothing: static
    bool operator==(const FdbEntry&) const = default;
};

class Bridges {
public:
    virtual ~Bridges() = default;

    // Opens or loads what bridges need beside the node's objects, which must be loaded. Cheap when it is there.
    virtual Result<void> ensure_loaded() = 0;
    // False when this node has it not. Never loads.
    virtual Result<bool> open_if_loaded() = 0;

    // -- bridges. Known by the name of the network: the id is found again, or chosen here; the ageing is as given now. With
    // or without VLANs cannot change while there are ports (EBUSY).
    virtual Result<BridgeId> put_bridge(const Bridge& bridge) = 0;
    virtual Result<std::optional<BridgeId>> find_bridge(const std::string& network) = 0;
    virtual Result<std::vector<std::pair<BridgeId, Bridge>>> list_bridges() = 0;
    // Success when it is free; EBUSY while it has ports.
    virtual Result<void> free_bridge(BridgeId id) = 0;

    // -- ports. Makes the port what is said here: xv_port's bridge, vlan, ISOLATED and TARGET, its VLANs, its entry in
    // xv_ports (do not use Objects::put_target for it) and its place among those who get broadcasts. While one port of a
    // VLAN is no target, or not FAST, the VLAN's broadcasts go by the kernel's bridge. Call it again after
    // Objects::update_port: that writes all of xv_port.
    virtual Result<void> put_port(PortId id, const BridgePort& port) = 0;
    virtual Result<std::optional<BridgePort>> find_port(PortId id) = 0;  // nothing: no bridge port
    virtual Result<std::vector<PortId>> list_ports(BridgeId id) = 0;
    // With its FDB entries; success when it is no bridge port.
    virtual Result<void> remove_port_if_present(PortId id) = 0;

    // -- FDB. A static entry never moves: EEXIST when the MAC is at another live port of the bridge.
    virtual Result<void> put_static(PortId id, std::uint16_t vlan, const Mac& mac) = 0;
    virtual Result<void> remove_static_if_of(PortId id, std::uint16_t vlan, const Mac& mac) = 0;
    // Static entries and learned ones that have not aged, sorted by VLAN and MAC.
    virtual Result<std::vector<FdbEntry>> list_fdb(BridgeId id) = 0;
    // Forgets what was learned at a port.
    virtual Result<void> flush_learned(PortId id) = 0;
};

// The kernel's. `cookie`: the node's; `bpffs`: where it is mounted ("/sys/fs/bpf").
[[nodiscard]] std::unique_ptr<Bridges> open_pinned_bridges(std::uint64_t cookie, const std::string& bpffs);

}  // namespace xveth::bpf
