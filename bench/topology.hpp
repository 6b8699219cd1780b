// SPDX-License-Identifier: Apache-2.0
// The lab, one a plugin:
//
//     client namespace              node namespace                      container namespaces
//     wire0 10.90.0.2 ═══ veth ═══ nic0 10.90.0.1 ─ plugin ─ host end ═══ eth0 10.91.x.y
//
// Both ends of the wire have GRO and no tx checksum offload: a veth takes frames by ndo_xdp_xmit only if its peer has
// NAPI, and XDP can only forward frames whose checksum is finished, as frames from a real NIC's wire are.
//
// Nothing of this is seen outside: the namespaces, their devices, the bpffs with the pins, the plugins' state and
// addresses hang on xvbench's private mount namespace, so the kernel removes them all when its last process ends,
// however it ends.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/address.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"
#include "bench/cni.hpp"
#include "bench/settings.hpp"

namespace xveth::bench {

inline constexpr auto wire_device = "wire0";
inline constexpr auto nic_device = "nic0";
inline constexpr auto container_device = "eth0";
inline constexpr auto client_address = "10.90.0.2";
inline constexpr auto client_mac = "02:00:5e:00:00:02";
inline constexpr auto nic_mac = "02:00:5e:00:00:01";

// Private mounts over everything that the plugins write to. Once, before the first lab and the first thread.
[[nodiscard]] Result<void> enter_sandbox();

struct Container {
    std::string id;
    std::string netns_path;
    Netns ns;
    std::string address;
    std::string host_end;
    Mac mac;
};

struct LabOptions {
    NetworkChoice network = {};
    bool conntrack = false;  // the node has a rule that needs conntrack, as every Kubernetes node does
};

class Lab {
public:
    // `name` is unique in this process.
    [[nodiscard]] static Result<std::unique_ptr<Lab>> create(const Settings& settings, const std::string& name,
                                                             LabOptions options);

    // A new container, connected by the plugin, whose network configuration has `keys` too. It stays in the lab; the
    // reference is good for as long.
    [[nodiscard]] Result<Container*> add_container(const nlohmann::json& keys = nlohmann::json::object());
    // Adds `count` containers that are only there.
    [[nodiscard]] Result<void> crowd(unsigned count);

    struct Cycle {
        CniNetwork::Outcome add;
        CniNetwork::Outcome del;
    };
    // ADD and DEL of one more container; its namespace is made before and removed after.
    [[nodiscard]] Result<Cycle> cycle_container();

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] Peer peer() const { return choice_.peer; }
    [[nodiscard]] const Netns& node() const { return node_; }
    [[nodiscard]] const Netns& client() const { return client_; }
    [[nodiscard]] Container& container(std::size_t index) { return containers_.at(index); }

private:
    Lab(const Settings& settings, std::string name, NetworkChoice choice, Netns node, Netns client);
    [[nodiscard]] CniNetwork network(Addresses addresses, const nlohmann::json& keys) const;
    [[nodiscard]] Result<Container*> add_to(const CniNetwork& network);
    [[nodiscard]] Result<void> lay_wire();

    std::string name_;
    Settings settings_;
    NetworkChoice choice_;
    Netns node_;
    Netns client_;
    unsigned next_id_ = 0;
    std::deque<Container> containers_;
};

// Makes a device take frames by ndo_xdp_xmit from its other end, and send frames whose checksum is finished.
[[nodiscard]] Result<void> arm(const Netns& ns, const std::string& device);

// ifindex of a device in a namespace.
[[nodiscard]] Result<unsigned> ifindex_of(const Netns& ns, const std::string& device);

}  // namespace xveth::bench
