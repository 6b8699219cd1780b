// SPDX-License-Identifier: Apache-2.0
// What a program needs that takes all frames of an interface: to answer for its addresses as the stack would have done.
#pragma once

#include <array>
#include <cstddef>
#include <expected>
#include <string>
#include <vector>

#include "xsk/xveth_xsk.hpp"

namespace example {

struct Identity {
    std::array<std::byte, 6> mac{};
    std::vector<std::array<std::byte, 4>> ipv4;
    std::vector<std::array<std::byte, 16>> ipv6;

    // Those of an interface now.
    static xveth::xsk::Result<Identity> of(const std::string& device);
};

// Each returns false for a frame that it is not about, which stays as it was.
bool answer_neighbours(const Identity& me, xveth::xsk::Frame& frame);  // ARP and IPv6 neighbour discovery
bool answer_echo(const Identity& me, xveth::xsk::Frame& frame);        // ICMP and ICMPv6
bool swap_macs(xveth::xsk::Frame& frame);
// Addresses, and ports of TCP and UDP. Checksums stay right: the sum of the same words in another order.
bool swap_ip(xveth::xsk::Frame& frame);

}  // namespace example
