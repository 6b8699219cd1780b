// SPDX-License-Identifier: Apache-2.0
// Rtnl and Kernel over a World; each call counts on the world's fault injector.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "netlink/fake/world.hpp"
#include "netlink/rtnl.hpp"

namespace xveth::netlink {

class FakeRtnl final : public Rtnl {
public:
    FakeRtnl(World& world, const Netns& ns) : world_(world), cookie_(ns.cookie().value()) { world.of(ns); }

    Result<std::optional<Link>> find_link(const std::string& name) override;
    Result<std::optional<Link>> find_link(IfIndex index) override;
    Result<std::vector<Link>> list_links() override;
    Result<void> create_veth(const VethSpec& spec) override;
    Result<void> set_alias(IfIndex device, const std::string& alias) override;
    Result<void> set_mac(IfIndex device, const Mac& mac) override;
    Result<void> set_mtu(IfIndex device, std::uint32_t mtu) override;
    Result<void> set_up(IfIndex device, bool up) override;
    Result<void> set_no_ipv6_autoconf(IfIndex device) override;
    Result<void> remove_link_if_present(IfIndex device) override;

    Result<void> add_address(IfIndex device, const Address& address) override;
    Result<std::vector<Address>> list_addresses(IfIndex device) override;
    Result<void> add_route(const Route& route) override;
    Result<void> remove_route_if_present(const Route& route) override;
    Result<std::optional<Route>> route_to(const IpAddress& destination) override;
    Result<std::vector<Route>> list_routes(Family family, IfIndex device) override;
    Result<void> replace_neighbour(const Neighbour& neighbour) override;
    Result<std::optional<Neighbour>> find_neighbour(IfIndex device, const IpAddress& address) override;
    Result<void> remove_neighbour_if_present(IfIndex device, const IpAddress& address) override;

    Result<void> create_bridge(const BridgeSpec& spec) override;
    Result<void> set_master(IfIndex device, IfIndex bridge) override;
    Result<void> set_bridge_port(IfIndex device, const BridgePort& port) override;
    Result<void> add_bridge_vlan(IfIndex port, const BridgeVlan& vlan) override;
    Result<void> put_bridge_mac(const BridgeMac& entry) override;
    Result<std::optional<IfIndex>> find_bridge_mac(IfIndex bridge, std::uint16_t vlan, const Mac& mac) override;
    Result<void> remove_bridge_mac_if_present(const BridgeMac& entry) override;

    Result<void> set_features(IfIndex device, const std::vector<Feature>& features) override;
    Result<std::map<std::string, FeatureState>> features(IfIndex device) override;
    Result<Channels> channels(IfIndex device) override;
    Result<std::uint64_t> xdp_features(IfIndex device) override;
    Result<std::map<std::string, std::uint64_t>> driver_statistics(IfIndex device) override;

    Result<std::vector<Qdisc>> list_qdiscs(IfIndex device) override;
    Result<std::vector<TcFilter>> list_tc_filters(IfIndex device) override;
    Result<bool> has_xfrm_policies() override;
    Result<bool> has_fwmark_rules() override;

private:
    FakeNamespace& space() { return world_.at(cookie_); }
    // Counts the call and finds its device; ENODEV without one.
    Result<FakeDevice*> step_at(const char* name, IfIndex device);
    // The same for a bridge's port; EINVAL for any other device.
    Result<FakeDevice*> step_at_port(const char* name, IfIndex device);

    World& world_;
    std::uint64_t cookie_;
};

class FakeKernel final : public Kernel {
public:
    explicit FakeKernel(World& world) : world_(world) {}
    Result<std::unique_ptr<Rtnl>> open_rtnl(const Netns& ns) override;

private:
    World& world_;
};

}  // namespace xveth::netlink
