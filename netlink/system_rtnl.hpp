// SPDX-License-Identifier: Apache-2.0
// Rtnl by the kernel itself. One class, its functions in one file a family: links.cpp, addresses.cpp, routes.cpp,
// neighbours.cpp, bridge.cpp, ethtool.cpp, netdev.cpp, tc.cpp, policy.cpp. Private to this folder.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/netns.hpp"
#include "netlink/rtnl.hpp"
#include "netlink/socket.hpp"

namespace xveth::netlink {

class SystemRtnl final : public Rtnl {
public:
    [[nodiscard]] static Result<std::unique_ptr<Rtnl>> open(const Netns& ns);

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
    SystemRtnl(Netns ns, Socket route) : ns_(std::move(ns)), route_(std::move(route)) {}

    Result<void> finish_veth_end(const VethEnd& end);
    Result<void> remove_veth_end(const VethEnd& end);
    // Executes a request in the namespace of `end`.
    Result<void> execute_at(const VethEnd& end, Message& message, const std::string& what);
    // The generic netlink socket, opened at its first use, and the number of a family on it (errno ENOENT: none).
    Result<Socket*> generic();
    Result<std::uint16_t> generic_family(const std::string& name);

    Netns ns_;
    Socket route_;
    std::optional<Socket> generic_;
    std::map<std::string, std::uint16_t> generic_families_;
};

// "device 7": how messages name a device of which only the number is known.
[[nodiscard]] std::string device_text(IfIndex device);

// A removal that finds nothing has nothing to do.
[[nodiscard]] Result<void> absence_is_success(Result<void> removal);

}  // namespace xveth::netlink
