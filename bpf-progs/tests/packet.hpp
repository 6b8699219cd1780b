// SPDX-License-Identifier: Apache-2.0
// Builds the frames of the tests byte by byte, and says what a forwarded one must look like.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.hpp"

namespace xveth::bpf::testing {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::uint8_t tcp_fin = 0x01;
inline constexpr std::uint8_t tcp_syn = 0x02;
inline constexpr std::uint8_t tcp_rst = 0x04;
inline constexpr std::uint8_t tcp_ack = 0x10;
inline constexpr std::uint8_t proto_icmp = 1;
inline constexpr std::uint8_t proto_tcp = 6;
inline constexpr std::uint8_t proto_udp = 17;
inline constexpr std::uint8_t proto_icmp6 = 58;

// One packet in plain words; build() makes the frame. Family follows the addresses.
struct Packet {
    Mac dst_mac;
    Mac src_mac;
    IpAddress src;
    IpAddress dst;
    std::uint8_t proto = proto_udp;
    std::uint16_t sport = 1000;
    std::uint16_t dport = 2000;
    std::uint8_t tcp_flags = tcp_ack;
    std::uint8_t ttl = 64;
    std::size_t payload = 32;
    bool more_fragments = false;
    std::uint16_t fragment_offset = 0;  // in bytes; with more_fragments: IPv6 gets a fragment header
    bool options = false;               // IPv4: a router alert; IPv6: a hop-by-hop header
    bool short_l4 = false;              // ports and four more bytes, then the packet ends
    bool bad_checksum = false;          // of the IPv4 header
    std::uint16_t vlan = 0;
    std::uint8_t icmp_type = 8;
    std::optional<Bytes> icmp_quote;  // from the IP header on, in place of the payload

    [[nodiscard]] Bytes build() const;
    [[nodiscard]] Bytes l3() const;      // without the Ethernet header
    [[nodiscard]] Packet reply() const;  // the other direction of the flow, MACs left alone
};

// The same frame after one hop of routing: MACs replaced, TTL one less, checksum right.
[[nodiscard]] Bytes forwarded(Bytes frame, const Mac& dst, const Mac& src);
// Whether an IPv4 frame's header checksum is right.
[[nodiscard]] bool ipv4_checksum_ok(const Bytes& frame);
[[nodiscard]] std::string hex(const Bytes& bytes);

}  // namespace xveth::bpf::testing
