// SPDX-License-Identifier: Apache-2.0
// One network namespace's configuration, spoken to over netlink. `Rtnl` is an interface so that the callers can be
// tested against a fake that remembers (netlink/fake/); `Kernel` opens one for a namespace.
//
// Every error carries errno_value, the kernel's own sentence (extack) in the text where it gave one, and code 100.
// A socket stays in the namespace it was opened in: nothing here switches namespaces after open_rtnl().
// Dumps that the kernel marks as interrupted are repeated inside (a few times, with a pause), never reported as "absent".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/netns.hpp"
#include "base/result.hpp"
#include "netlink/types.hpp"

namespace xveth::netlink {

class Rtnl {
public:
    virtual ~Rtnl() = default;

    // -- links. find_*: nothing when there is no such device; get_*: that is an error (ENODEV).
    virtual Result<std::optional<Link>> find_link(const std::string& name) = 0;
    virtual Result<std::optional<Link>> find_link(IfIndex index) = 0;
    virtual Result<std::vector<Link>> list_links() = 0;  // a dump: only where no name or index is known
    virtual Result<void> create_veth(const VethSpec& spec) = 0;
    virtual Result<void> set_alias(IfIndex device, const std::string& alias) = 0;  // at most 255 bytes
    virtual Result<void> set_mac(IfIndex device,
                                 const Mac& mac) = 0;  // announced where arp_notify, ndisc_notify are on
    virtual Result<void> set_mtu(IfIndex device, std::uint32_t mtu) = 0;
    virtual Result<void> set_up(IfIndex device, bool up) = 0;
    virtual Result<void> set_no_ipv6_autoconf(IfIndex device) = 0;  // IFLA_INET6_ADDR_GEN_MODE none
    virtual Result<void> remove_link_if_present(IfIndex device) = 0;

    // -- addresses, routes, neighbours
    virtual Result<void> add_address(IfIndex device, const Address& address) = 0;
    virtual Result<std::vector<Address>> list_addresses(IfIndex device) = 0;
    virtual Result<void> add_route(const Route& route) = 0;  // NLM_F_CREATE|EXCL
    virtual Result<void> remove_route_if_present(const Route& route) = 0;
    // The route that the kernel would take to `destination` (RTM_GETROUTE, one object); nothing when unreachable.
    virtual Result<std::optional<Route>> route_to(const IpAddress& destination) = 0;
    virtual Result<std::vector<Route>> list_routes(Family family,
                                                   IfIndex device) = 0;  // table main, of one device (none = all)
    virtual Result<void> replace_neighbour(const Neighbour& neighbour) = 0;
    virtual Result<std::optional<Neighbour>> find_neighbour(IfIndex device, const IpAddress& address) = 0;
    virtual Result<void> remove_neighbour_if_present(IfIndex device, const IpAddress& address) = 0;

    // -- bridges of the kernel's
    virtual Result<void> create_bridge(const BridgeSpec& spec) = 0;
    virtual Result<void> set_master(IfIndex device, IfIndex bridge) = 0;  // none = it leaves its bridge
    virtual Result<void> set_bridge_port(IfIndex device, const BridgePort& port) = 0;
    virtual Result<void> add_bridge_vlan(IfIndex port, const BridgeVlan& vlan) = 0;
    virtual Result<void> put_bridge_mac(const BridgeMac& entry) = 0;
    // The port that `bridge` sends frames for a MAC to, if it knows one.
    virtual Result<std::optional<IfIndex>> find_bridge_mac(IfIndex bridge, std::uint16_t vlan, const Mac& mac) = 0;
    virtual Result<void> remove_bridge_mac_if_present(const BridgeMac& entry) = 0;

    // -- ethtool (genl) and netdev (genl)
    // Sets features by name; a name that the kernel or the device does not know, or that is fixed, is an error unless
    // it already has the wanted value.
    virtual Result<void> set_features(IfIndex device, const std::vector<Feature>& features) = 0;
    virtual Result<std::map<std::string, FeatureState>> features(IfIndex device) = 0;
    virtual Result<Channels> channels(IfIndex device) = 0;
    // NETDEV_XDP_ACT_* bits; errno ENOENT where the kernel (< 6.3) has no such family.
    virtual Result<std::uint64_t> xdp_features(IfIndex device) = 0;
    // `ethtool -S`: driver statistics by name ("tx_queue_0_xdp_xmit_errors"); empty where the driver has none.
    virtual Result<std::map<std::string, std::uint64_t>> driver_statistics(IfIndex device) = 0;

    // -- what else could touch a frame (policy "auto")
    virtual Result<std::vector<Qdisc>> list_qdiscs(IfIndex device) = 0;
    virtual Result<std::vector<TcFilter>> list_tc_filters(
        IfIndex device) = 0;  // clsact/ingress filters and tcx programs
    virtual Result<bool> has_xfrm_policies() = 0;
    virtual Result<bool> has_fwmark_rules() = 0;  // any ip rule (both families) that looks at a mark
};

// Opens namespaces. The only implementation that is not a test's is `system_kernel()`.
class Kernel {
public:
    virtual ~Kernel() = default;
    virtual Result<std::unique_ptr<Rtnl>> open_rtnl(const Netns& ns) = 0;
};

[[nodiscard]] Kernel& system_kernel();

}  // namespace xveth::netlink
