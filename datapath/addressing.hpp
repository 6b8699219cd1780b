// SPDX-License-Identifier: Apache-2.0
// Layer 3 of a routed container: its addresses and routes, the host's routes to it, and neighbours on both sides that are
// right from the first packet.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.hpp"
#include "base/result.hpp"
#include "datapath/node.hpp"
#include "datapath/veth_pair.hpp"
#include "netlink/types.hpp"

namespace xveth::datapath {

struct ContainerAddress {
    IpPrefix prefix;    // as IPAM gave it
    IpAddress gateway;  // the host end answers to it
};

struct ContainerRoute {
    IpPrefix destination;
    std::optional<IpAddress> gateway;  // absent = the family's gateway
    std::uint32_t mtu = 0, advmss = 0, priority = 0, table = 0;
    std::uint8_t scope = 0;
};

struct AddressPlan {
    std::vector<ContainerAddress> addresses;
    std::vector<ContainerRoute> routes;
    std::vector<IpPrefix> local_subnets;  // destinations that may use the link's MTU
    std::uint32_t path_mtu = 0;           // MTU of every other destination; 0 = the link's
};

// The gateway for an address that IPAM gave without one: the first address of its network, or a link-local one where
// that is the container's own or the network has no other.
[[nodiscard]] IpAddress default_gateway_of(const IpPrefix& address);

// Addresses and routes in the container, through `container` (the Rtnl of its namespace). Its link must be up.
[[nodiscard]] Result<void> configure_container(netlink::Rtnl& container, const VethPair& pair, const AddressPlan& plan);
// Gateway addresses, routes and neighbours on the host. The link must be up.
[[nodiscard]] Result<void> configure_host(Node& node, const VethPair& pair, const AddressPlan& plan);
// Waits until the namespace takes packets for an IPv6 address of its own (2 s, then error 100). The kernel enters the local
// route in the background and under the RTNL lock (addrconf_dad_work), also where it need not look for duplicates; until
// then, long on a node where namespaces come and go, it drops what arrives (Ip6InAddrErrors).
[[nodiscard]] Result<void> await_local_route(netlink::Rtnl& rtnl, const IpAddress& address);
// The same for all addresses of a plan, on both sides.
[[nodiscard]] Result<void> await_local_routes(Node& node, netlink::Rtnl& container, const AddressPlan& plan);
// The routes that configure_container() makes: what CHECK looks for.
[[nodiscard]] std::vector<netlink::Route> container_routes(const AddressPlan& plan, netlink::IfIndex device);

// Layer 3 of a container on a bridge: its network is on the link, routes name their gateways.
struct BridgedLayer3 {
    std::vector<IpPrefix> addresses;
    std::vector<netlink::Route> routes;  // less the device
};
[[nodiscard]] Result<void> configure_bridged_container(netlink::Rtnl& container, const VethPair& pair,
                                                       const BridgedLayer3& layer3);
// Tells the link where the addresses are: a neighbour may know one at another MAC. The kernel does it for an interface whose
// MAC "changes", to the same one too, but leaves out addresses that it has not finished to take in.
[[nodiscard]] Result<void> announce_addresses(netlink::Rtnl& container, const VethPair& pair);
// The link-local IPv6 address that follows from a MAC, usable at once.
[[nodiscard]] Result<void> ensure_link_local(netlink::Rtnl& rtnl, netlink::IfIndex device, const Mac& mac);

// Forwarding for the families in use, as the reference plugins switch it on. Interfaces that live by IPv6 router
// advertisements get accept_ra=2 first: with 1 the kernel stops listening when forwarding starts, and their default
// route goes.
[[nodiscard]] Result<void> ensure_forwarding(Node& node, bool ipv4, bool ipv6);
// The kernel announces another MAC of the container's interface (the CNI plugin "tuning" gives one) at once, by gratuitous
// ARP and unsolicited neighbour advertisement: the host end's program and the node's neighbour entry follow before anybody
// sends to the old one.
[[nodiscard]] Result<void> announce_mac_changes(Node& node, const Netns& ns, const std::string& device, bool ipv4,
                                                bool ipv6);
// Undoes a disable_ipv6 that a runtime or the node's defaults left; an error that says so where the kernel has no IPv6.
[[nodiscard]] Result<void> ensure_ipv6(Node& node, const Netns& ns, const std::string& device);

}  // namespace xveth::datapath
