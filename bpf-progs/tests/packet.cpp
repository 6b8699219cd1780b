// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/tests/packet.hpp"

#include <cstdio>

namespace xveth::bpf::testing {
namespace {

void put16(Bytes& out, std::size_t value) {
    out.push_back(static_cast<std::uint8_t>(value >> 8U));
    out.push_back(static_cast<std::uint8_t>(value));
}

void append(Bytes& out, const auto& bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

void append_address(Bytes& out, const IpAddress& address) {
    out.insert(out.end(), address.bytes.begin(), address.bytes.begin() + static_cast<std::ptrdiff_t>(address.size()));
}

std::uint16_t checksum(const Bytes& bytes, std::size_t begin, std::size_t size) {
    std::uint32_t sum = 0;
    for (std::size_t i = begin; i + 1 < begin + size; i += 2)
        sum += static_cast<std::uint32_t>(bytes[i] << 8U) | bytes[i + 1];
    while (sum > 0xffff) sum = (sum & 0xffffU) + (sum >> 16U);
    return static_cast<std::uint16_t>(~sum);
}

void store16(Bytes& bytes, std::size_t at, std::uint16_t value) {
    bytes[at] = static_cast<std::uint8_t>(value >> 8U);
    bytes[at + 1] = static_cast<std::uint8_t>(value);
}

Bytes l4(const Packet& p) {
    Bytes out;
    if (p.proto == proto_tcp) {
        put16(out, p.sport);
        put16(out, p.dport);
        append(out, Bytes{0, 0, 0, 1, 0, 0, 0, 2, 0x50, p.tcp_flags, 0xff, 0xff, 0, 0, 0, 0});
    } else if (p.proto == proto_udp) {
        put16(out, p.sport);
        put16(out, p.dport);
        put16(out, 8 + p.payload);
        put16(out, 0);
    } else if (p.proto == proto_icmp || p.proto == proto_icmp6) {
        append(out, Bytes{p.icmp_type, 0, 0, 0, 0, 0, 0, 0});
        if (p.icmp_quote) append(out, *p.icmp_quote);
        if (p.icmp_quote) return out;
    }
    for (std::size_t i = 0; i < p.payload; ++i) out.push_back(static_cast<std::uint8_t>(i));
    return out;
}

// The ports are in the first fragment only; a later one is payload from its first byte on.
Bytes transport(const Packet& p) {
    if (p.fragment_offset != 0) return Bytes(p.payload, 0x55);
    Bytes out = l4(p);
    if (p.short_l4) out.resize(8);
    return out;
}

Bytes ipv4(const Packet& p) {
    const Bytes inner = transport(p);
    const std::size_t header = p.options ? 24 : 20;
    Bytes out{static_cast<std::uint8_t>(0x40U | header / 4), 0};
    put16(out, header + inner.size());
    put16(out, 0x1234);
    put16(out, (p.more_fragments ? 0x2000U : 0U) | p.fragment_offset / 8U);
    append(out, Bytes{p.ttl, p.proto, 0, 0});
    append_address(out, p.src);
    append_address(out, p.dst);
    if (p.options) append(out, Bytes{0x94, 4, 0, 0});
    const auto sum = checksum(out, 0, header);
    store16(out, 10, p.bad_checksum ? static_cast<std::uint16_t>(sum + 1) : sum);
    append(out, inner);
    return out;
}

Bytes ipv6(const Packet& p) {
    const bool fragment = p.more_fragments || p.fragment_offset != 0;
    Bytes inner;
    if (p.options) append(inner, Bytes{fragment ? std::uint8_t{44} : p.proto, 0, 5, 2, 0, 0, 1, 0});
    if (fragment) {
        append(inner, Bytes{p.proto, 0});
        put16(inner, p.fragment_offset | (p.more_fragments ? 1U : 0U));
        append(inner, Bytes{0, 0, 0, 1});
    }
    append(inner, transport(p));
    Bytes out{0x60, 0, 0, 0};
    put16(out, inner.size());
    out.push_back(p.options ? std::uint8_t{0} : fragment ? std::uint8_t{44} : p.proto);
    out.push_back(p.ttl);
    append_address(out, p.src);
    append_address(out, p.dst);
    append(out, inner);
    return out;
}

}  // namespace

Bytes Packet::l3() const { return src.family == Family::ipv4 ? ipv4(*this) : ipv6(*this); }

Bytes Packet::build() const {
    Bytes out;
    append(out, dst_mac.bytes);
    append(out, src_mac.bytes);
    if (vlan != 0) {
        put16(out, 0x8100);
        put16(out, vlan);
    }
    put16(out, src.family == Family::ipv4 ? 0x0800 : 0x86dd);
    append(out, l3());
    return out;
}

Packet Packet::reply() const {
    Packet other = *this;
    std::swap(other.src, other.dst);
    std::swap(other.sport, other.dport);
    if (proto == proto_tcp && tcp_flags == tcp_syn) other.tcp_flags = tcp_syn | tcp_ack;
    return other;
}

Bytes forwarded(Bytes frame, const Mac& dst, const Mac& src) {
    std::copy(dst.bytes.begin(), dst.bytes.end(), frame.begin());
    std::copy(src.bytes.begin(), src.bytes.end(), frame.begin() + 6);
    if (frame[12] == 0x08) {
        --frame[22];
        store16(frame, 24, 0);
        store16(frame, 24, checksum(frame, 14, 20));
    } else {
        --frame[21];
    }
    return frame;
}

bool ipv4_checksum_ok(const Bytes& frame) {
    return frame.size() >= 34 && frame[12] == 0x08 && frame[14] == 0x45 && checksum(frame, 14, 20) == 0;
}

std::string hex(const Bytes& bytes) {
    std::string out;
    for (const auto byte : bytes) {
        std::array<char, 4> text{};
        std::snprintf(text.data(), text.size(), "%02x ", byte);
        out += text.data();
    }
    return out;
}

}  // namespace xveth::bpf::testing
