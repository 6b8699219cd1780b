// SPDX-License-Identifier: Apache-2.0
#include "base/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace xveth {
namespace {

constexpr std::array<std::uint8_t, 12> v4_mapped_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

int address_family(Family family) { return family == Family::ipv4 ? AF_INET : AF_INET6; }

}  // namespace

std::optional<Mac> Mac::parse(std::string_view text) {
    if (text.size() != 17) return std::nullopt;
    Mac mac;
    for (std::size_t i = 0; i < 6; ++i) {
        const char* at = text.data() + i * 3;
        const auto [end, error] = std::from_chars(at, at + 2, mac.bytes.at(i), 16);
        if (error != std::errc{} || end != at + 2 || (i < 5 && *end != ':')) return std::nullopt;
    }
    return mac;
}

std::string Mac::to_string() const {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : bytes) {
        if (!text.empty()) text += ':';
        text += digits[byte >> 4U];
        text += digits[byte & 0xfU];
    }
    return text;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
    const std::string zero_ended(text);
    IpAddress address;
    address.family = text.find(':') == std::string_view::npos ? Family::ipv4 : Family::ipv6;
    if (::inet_pton(address_family(address.family), zero_ended.c_str(), address.bytes.data()) != 1) return std::nullopt;
    return address;
}

std::string IpAddress::to_string() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(address_family(family), bytes.data(), text.data(), text.size());
    return text.data();
}

bool IpAddress::is_link_local() const {
    if (family == Family::ipv4) return bytes[0] == 169 && bytes[1] == 254;
    return bytes[0] == 0xfe && (bytes[1] & 0xc0U) == 0x80;
}

bool IpAddress::is_multicast() const { return family == Family::ipv4 ? (bytes[0] & 0xf0U) == 0xe0 : bytes[0] == 0xff; }

std::array<std::uint8_t, 16> IpAddress::mapped() const {
    if (family == Family::ipv6) return bytes;
    std::array<std::uint8_t, 16> out{};
    std::ranges::copy(v4_mapped_prefix, out.begin());
    std::copy_n(bytes.begin(), 4, out.begin() + 12);
    return out;
}

IpAddress IpAddress::from_mapped(const std::array<std::uint8_t, 16>& mapped) {
    IpAddress address;
    if (std::equal(v4_mapped_prefix.begin(), v4_mapped_prefix.end(), mapped.begin())) {
        std::copy_n(mapped.begin() + 12, 4, address.bytes.begin());
        return address;
    }
    address.family = Family::ipv6;
    address.bytes = mapped;
    return address;
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view cidr) {
    const auto slash = cidr.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const auto address = IpAddress::parse(cidr.substr(0, slash));
    const std::string_view digits = cidr.substr(slash + 1);
    unsigned length = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
    if (!address || digits.empty() || error != std::errc{} || end != digits.data() + digits.size() ||
        length > address->bits())
        return std::nullopt;
    return IpPrefix{.address = *address, .length = static_cast<std::uint8_t>(length)};
}

IpPrefix IpPrefix::host(const IpAddress& address) {
    return {.address = address, .length = static_cast<std::uint8_t>(address.bits())};
}

std::string IpPrefix::to_string() const { return address.to_string() + "/" + std::to_string(length); }

IpPrefix IpPrefix::network() const {
    IpPrefix out = *this;
    for (unsigned bit = length; bit < address.bits(); ++bit)
        out.address.bytes.at(bit / 8) &= static_cast<std::uint8_t>(~(0x80U >> (bit % 8)));
    return out;
}

bool IpPrefix::contains(const IpAddress& other) const {
    if (other.family != address.family) return false;
    return IpPrefix{.address = other, .length = length}.network().address == network().address;
}

}  // namespace xveth
