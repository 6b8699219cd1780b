// SPDX-License-Identifier: Apache-2.0
// A kernel that remembers: the state of several network namespaces, behind FakeKernel, FakeRtnl and FakeNftables.
//
// What it proves: which devices, addresses, routes, neighbours, offloads and masquerades exist after a sequence of calls,
// and that a sequence that failed leaves those of before. What it cannot prove: that the kernel takes a message, what its
// answers look like, or what happens to frames; the tests beside the real classes do that on the kernel.
//
// It knows these facts of the kernel: ifindexes are those of a namespace; a veth's end takes its peer, routes, addresses
// and neighbours with it; a route needs a device that is up, and is there once (EEXIST); a device that goes down loses its
// routes; a fixed feature stays; a veth reports NDO_XMIT while its *peer* has GRO or a native program, whether or not that
// one is up, and no XDP at all while the peer has more tx queues than it has rx queues; a bridge takes no second master's
// port, forgets a port's MACs with it, and lets its ports go when it goes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"
#include "netlink/nftables.hpp"
#include "netlink/types.hpp"

namespace xveth::netlink {

// One device with all that hangs on it.
struct FakeDevice {
    Link link;
    std::uint64_t peer_namespace = 0;  // cookie; of a veth
    std::map<std::string, FeatureState> features;
    std::uint64_t xdp_features = 0;  // of a device that is no veth
    std::vector<Address> addresses;
    std::map<IpAddress, Neighbour> neighbours;
    std::vector<BridgeVlan> vlans;                                 // of a bridge's port
    std::map<std::pair<Mac, std::uint16_t>, IfIndex> bridge_macs;  // of a bridge: MAC and VLAN to port
    std::vector<std::string> qdiscs;
    std::vector<TcFilter> filters;
    std::map<std::string, std::uint64_t> statistics;
};

struct FakeNamespace {
    std::map<IfIndex, FakeDevice> devices;
    std::vector<Route> routes;
    std::uint32_t next_index = 1;

    [[nodiscard]] FakeDevice* find(IfIndex index);
    [[nodiscard]] FakeDevice* find(const std::string& name);
};

class World {
public:
    // Counts the calls of all its fakes on `faults`.
    explicit World(FaultInjector& faults) : faults_(faults) {}
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    // -- the test's side
    [[nodiscard]] FaultInjector& faults() { return faults_; }
    // The namespace, with `lo` in it; made at the first mention. Namespaces go by their cookie.
    FakeNamespace& of(const Netns& ns);
    FakeDevice& device(const Netns& ns, const std::string& name) { return *of(ns).find(name); }
    // A NIC with a native driver, up, 1500 bytes, with an IPv4 default route through `gateway` where one is given.
    FakeDevice& add_nic(const Netns& ns, const std::string& name, const std::optional<IpAddress>& gateway);
    // A veth pair as another plugin makes it: kernel's default features, both ends up.
    void add_veth_pair(const Netns& host_ns, const std::string& host, const Netns& container_ns,
                       const std::string& container);
    // Everything that is there, in a fixed order. Numbers that only grow (the next ifindex) are left out.
    [[nodiscard]] std::string snapshot() const;
    // An XDP program came or went: what the BPF side's fake tells.
    void set_program(std::uint64_t cookie, std::uint32_t ifindex, XdpMode mode, std::uint32_t program_id);
    // Called for each device that ends, with its namespace's cookie: what the BPF side's fake wants to know.
    void on_device_gone(std::function<void(std::uint64_t, std::uint32_t)> hook) { gone_ = std::move(hook); }

    std::vector<NftChain> ruleset;  // other people's, in the node's namespace
    std::map<IpAddress, IpPrefix> masquerades;
    bool has_nf_tables = true;
    bool has_vlan_filtering = true;  // of bridges
    bool conntrack_loaded = false;
    bool has_xfrm_policies = false;
    bool has_fwmark_rules = false;

    // -- the fakes' side
    [[nodiscard]] Result<void> step(std::string_view name);
    FakeNamespace& at(std::uint64_t cookie) { return namespaces_.at(cookie); }
    Result<void> create_veth(const VethSpec& spec);
    Result<void> create_bridge(std::uint64_t cookie, const BridgeSpec& spec);
    void leave_bridge(std::uint64_t cookie, FakeDevice& port);
    void remove_device(std::uint64_t cookie, IfIndex index);
    // The link as the kernel tells it: running where its other end is up as well.
    [[nodiscard]] Link seen(const FakeDevice& device);
    [[nodiscard]] std::uint64_t xdp_features(const FakeDevice& device);

private:
    Result<std::uint64_t> cookie_of(int netns_fd) const;
    FakeDevice& place(std::uint64_t cookie, Link link);
    void join(std::uint64_t a, FakeDevice& first, std::uint64_t b, FakeDevice& second);

    FaultInjector& faults_;
    std::map<std::uint64_t, FakeNamespace> namespaces_;
    std::function<void(std::uint64_t, std::uint32_t)> gone_;
};

}  // namespace xveth::netlink
