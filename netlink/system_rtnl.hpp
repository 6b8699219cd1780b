// SPDX-License-Identifier: Apache-2.0
// Rtnl over the kernel's sockets. Its functions are in one file per kind of object: links.cpp, addresses.cpp, routes.cpp,
// neighbours.cpp, ethtool.cpp, netdev.cpp, tc.cpp, policies.cpp.
#pragma once

#include <memory>
#include <optional>

#include "base/unique_fd.hpp"
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
    Result<std::optional<Link>> get_link(Message message, const std::string& phrase);
    Result<void> change_link(IfIndex device, unsigned flags, unsigned mask, const std::string& phrase,
                             const std::function<void(nl_msg*)>& attributes);
    // The generic netlink socket and family ids are looked up at their first use.
    Result<Socket*> generic();
    Result<std::uint16_t> genl_family(const std::string& name);

    Netns ns_;
    Socket route_;
    std::optional<Socket> generic_;
    std::map<std::string, std::uint16_t> families_;
};

}  // namespace xveth::netlink
