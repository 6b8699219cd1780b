// SPDX-License-Identifier: Apache-2.0
// Link-layer and IP addresses as values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xveth {

struct Mac {
    std::array<std::uint8_t, 6> bytes{};

    // "02:fc:00:00:00:01", either case; nothing else.
    [[nodiscard]] static std::optional<Mac> parse(std::string_view text);
    [[nodiscard]] std::string to_string() const;
    [[nodiscard]] bool is_zero() const { return bytes == std::array<std::uint8_t, 6>{}; }
    [[nodiscard]] bool is_multicast() const { return (bytes[0] & 1U) != 0; }
    auto operator<=>(const Mac&) const = default;
};

enum class Family : std::uint8_t { ipv4, ipv6 };

struct IpAddress {
    Family family = Family::ipv4;
    std::array<std::uint8_t, 16> bytes{};  // network order; an IPv4 address uses the first four

    [[nodiscard]] static std::optional<IpAddress> parse(std::string_view text);
    [[nodiscard]] std::string to_string() const;
    [[nodiscard]] std::size_t size() const { return family == Family::ipv4 ? 4 : 16; }
    [[nodiscard]] unsigned bits() const { return family == Family::ipv4 ? 32 : 128; }
    [[nodiscard]] bool is_link_local() const;  // 169.254.0.0/16, fe80::/10
    [[nodiscard]] bool is_multicast() const;
    // The 16-byte form that the maps use: IPv4 as ::ffff:a.b.c.d.
    [[nodiscard]] std::array<std::uint8_t, 16> mapped() const;
    [[nodiscard]] static IpAddress from_mapped(const std::array<std::uint8_t, 16>& mapped);
    auto operator<=>(const IpAddress&) const = default;
};

// An address with a prefix length; the host bits stay as given ("10.1.0.5/16").
struct IpPrefix {
    IpAddress address;
    std::uint8_t length = 0;

    [[nodiscard]] static std::optional<IpPrefix> parse(std::string_view cidr);  // needs "/length"
    [[nodiscard]] static IpPrefix host(const IpAddress& address);               // /32 or /128
    [[nodiscard]] std::string to_string() const;
    [[nodiscard]] IpPrefix network() const;  // host bits cleared
    [[nodiscard]] bool contains(const IpAddress& other) const;
    [[nodiscard]] bool is_default() const { return length == 0; }
    auto operator<=>(const IpPrefix&) const = default;
};

}  // namespace xveth
