// SPDX-License-Identifier: Apache-2.0
// Values to messages and back, apart from any socket. Private to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/message.hpp"
#include "netlink/types.hpp"

namespace xveth::netlink {

// links.cpp
[[nodiscard]] Message encode_create_veth(const VethSpec& spec);
[[nodiscard]] Link parse_link(const Received& message);

// addresses.cpp
[[nodiscard]] Message encode_address(IfIndex device, const Address& address);
[[nodiscard]] std::optional<Address> parse_address(const Received& message);

// routes.cpp
[[nodiscard]] Message encode_add_route(const Route& route);
[[nodiscard]] Message encode_remove_route(const Route& route);
// One route a next hop; nothing for a family that is neither IPv4 nor IPv6.
[[nodiscard]] std::vector<Route> parse_routes(const Received& message);

// neighbours.cpp
[[nodiscard]] Message encode_neighbour(const Neighbour& neighbour);
[[nodiscard]] std::optional<Neighbour> parse_neighbour(const Received& message);

// bridge.cpp
[[nodiscard]] Message encode_create_bridge(const BridgeSpec& spec);

// ethtool.cpp
[[nodiscard]] Message encode_set_features(std::uint16_t family, IfIndex device, const std::vector<Feature>& features);

// The Family of an AF_*; nothing for others.
[[nodiscard]] std::optional<Family> family_of(int address_family);

}  // namespace xveth::netlink
