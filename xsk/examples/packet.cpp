// SPDX-License-Identifier: Apache-2.0
#include "xsk/examples/packet.hpp"

#include <ifaddrs.h>
#include <net/ethernet.h>
#include <netinet/icmp6.h>
#include <netinet/if_ether.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netpacket/packet.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>

namespace example {
namespace {

using xveth::xsk::Frame;

constexpr std::size_t ethernet = sizeof(ether_header);

// A copy of the header at `offset`, where the frame is long enough; headers do not lie on their types' boundaries.
template <class Header>
bool read(const Frame& frame, std::size_t offset, Header& header) {
    if (frame.size < offset + sizeof header) return false;
    std::memcpy(&header, &frame.room[offset], sizeof header);
    return true;
}
template <class Header>
void write(Frame& frame, std::size_t offset, const Header& header) {
    std::memcpy(&frame.room[offset], &header, sizeof header);
}

std::uint16_t type_of(const Frame& frame) {
    ether_header header{};
    return read(frame, 0, header) ? ntohs(header.ether_type) : std::uint16_t{0};
}

void reply_to_sender(const Identity& me, Frame& frame) {
    ether_header header{};
    read(frame, 0, header);
    std::ranges::copy(header.ether_shost, &header.ether_dhost[0]);
    std::memcpy(&header.ether_shost[0], me.mac.data(), me.mac.size());
    write(frame, 0, header);
}

template <class Address, class Field>
bool is_mine(const std::vector<Address>& mine, const Field& field) {
    return std::ranges::any_of(mine,
                               [&](const Address& one) { return std::memcmp(one.data(), &field, one.size()) == 0; });
}

// The internet checksum (RFC 1071), over `start` of something already summed up.
std::uint16_t checksum(std::span<const std::byte> bytes, std::uint32_t start = 0) {
    std::uint32_t sum = start;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8U : 0U);
    while (sum > 0xffff) sum = (sum & 0xffffU) + (sum >> 16U);
    return htons(static_cast<std::uint16_t>(~sum));
}

bool answer_arp(const Identity& me, Frame& frame) {
    ether_arp arp{};
    if (!read(frame, ethernet, arp) || ntohs(arp.ea_hdr.ar_op) != ARPOP_REQUEST || !is_mine(me.ipv4, arp.arp_tpa))
        return false;
    arp.ea_hdr.ar_op = htons(ARPOP_REPLY);
    std::ranges::copy(arp.arp_sha, &arp.arp_tha[0]);
    std::swap(arp.arp_spa, arp.arp_tpa);
    std::memcpy(&arp.arp_sha[0], me.mac.data(), me.mac.size());
    write(frame, ethernet, arp);
    reply_to_sender(me, frame);
    return true;
}

// The sum over an IPv6 packet's pseudo header and what follows its fixed header.
std::uint16_t icmp6_checksum(const Frame& frame, const ip6_hdr& ip) {
    std::uint32_t pseudo = ntohs(ip.ip6_plen) + IPPROTO_ICMPV6;
    for (const in6_addr* address : {&ip.ip6_src, &ip.ip6_dst})
        for (const std::uint16_t word : address->s6_addr16) pseudo += ntohs(word);
    return checksum(frame.room.subspan(ethernet + sizeof ip, ntohs(ip.ip6_plen)), pseudo);
}

// ICMPv6 right behind a fixed header, whole and in one piece.
bool read_icmp6(const Frame& frame, ip6_hdr& ip) {
    return type_of(frame) == ETHERTYPE_IPV6 && read(frame, ethernet, ip) && ip.ip6_nxt == IPPROTO_ICMPV6 &&
           ethernet + sizeof ip + ntohs(ip.ip6_plen) <= frame.size && ntohs(ip.ip6_plen) >= sizeof(icmp6_hdr);
}

struct Advertisement {
    nd_neighbor_advert head;
    nd_opt_hdr option;
    std::array<std::byte, 6> mac;
};

bool answer_solicitation(const Identity& me, Frame& frame) {
    ip6_hdr ip{};
    nd_neighbor_solicit asked{};
    constexpr std::size_t at = ethernet + sizeof ip;
    if (!read_icmp6(frame, ip) || !read(frame, at, asked) || asked.nd_ns_type != ND_NEIGHBOR_SOLICIT ||
        ip.ip6_hlim != 255)
        return false;
    // Who asks for duplicates has no address to be answered at.
    if (!is_mine(me.ipv6, asked.nd_ns_target) || IN6_IS_ADDR_UNSPECIFIED(&ip.ip6_src) ||
        frame.room.size() < at + sizeof(Advertisement))
        return false;
    Advertisement answer{};
    answer.head.nd_na_type = ND_NEIGHBOR_ADVERT;
    answer.head.nd_na_flags_reserved = ND_NA_FLAG_SOLICITED | ND_NA_FLAG_OVERRIDE;
    answer.head.nd_na_target = asked.nd_ns_target;
    answer.option = {.nd_opt_type = ND_OPT_TARGET_LINKADDR, .nd_opt_len = 1};
    answer.mac = me.mac;
    ip.ip6_dst = ip.ip6_src;
    ip.ip6_src = asked.nd_ns_target;
    ip.ip6_plen = htons(sizeof answer);
    frame.size = at + sizeof answer;
    write(frame, ethernet, ip);
    write(frame, at, answer);
    answer.head.nd_na_cksum = icmp6_checksum(frame, ip);
    write(frame, at, answer);
    reply_to_sender(me, frame);
    return true;
}

bool read_ipv4(const Frame& frame, iphdr& ip, std::size_t& payload) {
    if (type_of(frame) != ETHERTYPE_IP || !read(frame, ethernet, ip)) return false;
    payload = ethernet + std::size_t{ip.ihl} * 4;
    return ip.ihl >= 5 && ntohs(ip.tot_len) >= ip.ihl * 4U && ethernet + ntohs(ip.tot_len) <= frame.size;
}

bool is_fragment(const iphdr& ip) { return (ntohs(ip.frag_off) & (IP_MF | IP_OFFMASK)) != 0; }

bool answer_echo4(const Identity& me, Frame& frame) {
    iphdr ip{};
    icmphdr icmp{};
    std::size_t at = 0;
    if (!read_ipv4(frame, ip, at) || ip.protocol != IPPROTO_ICMP || is_fragment(ip) || !read(frame, at, icmp))
        return false;
    if (icmp.type != ICMP_ECHO || ethernet + ntohs(ip.tot_len) < at + sizeof icmp || !is_mine(me.ipv4, ip.daddr))
        return false;
    std::swap(ip.saddr, ip.daddr);
    ip.ttl = IPDEFTTL;
    ip.check = 0;
    write(frame, ethernet, ip);
    ip.check = checksum(frame.room.subspan(ethernet, at - ethernet));
    write(frame, ethernet, ip);
    icmp.type = ICMP_ECHOREPLY;
    icmp.checksum = 0;
    write(frame, at, icmp);
    icmp.checksum = checksum(frame.room.subspan(at, ethernet + ntohs(ip.tot_len) - at));
    write(frame, at, icmp);
    reply_to_sender(me, frame);
    return true;
}

bool answer_echo6(const Identity& me, Frame& frame) {
    ip6_hdr ip{};
    icmp6_hdr icmp{};
    constexpr std::size_t at = ethernet + sizeof ip;
    if (!read_icmp6(frame, ip) || !read(frame, at, icmp) || icmp.icmp6_type != ICMP6_ECHO_REQUEST ||
        !is_mine(me.ipv6, ip.ip6_dst))
        return false;
    std::swap(ip.ip6_src, ip.ip6_dst);
    ip.ip6_hlim = IPDEFTTL;
    write(frame, ethernet, ip);
    icmp.icmp6_type = ICMP6_ECHO_REPLY;
    icmp.icmp6_cksum = 0;
    write(frame, at, icmp);
    icmp.icmp6_cksum = icmp6_checksum(frame, ip);
    write(frame, at, icmp);
    reply_to_sender(me, frame);
    return true;
}

void swap_ports(Frame& frame, std::size_t at, std::uint8_t protocol) {
    std::array<std::uint16_t, 2> ports{};
    if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || !read(frame, at, ports)) return;
    std::swap(ports[0], ports[1]);
    write(frame, at, ports);
}

bool swap_ipv4(Frame& frame) {
    iphdr ip{};
    std::size_t at = 0;
    if (!read_ipv4(frame, ip, at)) return false;
    std::swap(ip.saddr, ip.daddr);
    write(frame, ethernet, ip);
    if (!is_fragment(ip)) swap_ports(frame, at, ip.protocol);
    return true;
}

bool swap_ipv6(Frame& frame) {
    ip6_hdr ip{};
    if (type_of(frame) != ETHERTYPE_IPV6 || !read(frame, ethernet, ip)) return false;
    std::swap(ip.ip6_src, ip.ip6_dst);
    write(frame, ethernet, ip);
    swap_ports(frame, ethernet + sizeof ip, ip.ip6_nxt);
    return true;
}

template <class Address>
Address bytes_of(const void* from) {
    Address address{};
    std::memcpy(address.data(), from, address.size());
    return address;
}

void add_address(Identity& me, const sockaddr* address) {
    if (address->sa_family == AF_PACKET)
        me.mac = bytes_of<std::array<std::byte, 6>>(&reinterpret_cast<const sockaddr_ll*>(address)->sll_addr);
    if (address->sa_family == AF_INET)
        me.ipv4.push_back(bytes_of<std::array<std::byte, 4>>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr));
    if (address->sa_family == AF_INET6)
        me.ipv6.push_back(
            bytes_of<std::array<std::byte, 16>>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr));
}

}  // namespace

xveth::xsk::Result<Identity> Identity::of(const std::string& device) {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0)
        return std::unexpected(xveth::xsk::Error{
            .errno_value = errno, .text = "addresses of " + device + ": " + std::generic_category().message(errno)});
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
    Identity me;
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
        if (entry->ifa_addr != nullptr && device == entry->ifa_name) add_address(me, entry->ifa_addr);
    return me;
}

bool answer_neighbours(const Identity& me, Frame& frame) {
    return type_of(frame) == ETHERTYPE_ARP ? answer_arp(me, frame) : answer_solicitation(me, frame);
}

bool answer_echo(const Identity& me, Frame& frame) { return answer_echo4(me, frame) || answer_echo6(me, frame); }

bool swap_macs(Frame& frame) {
    ether_header header{};
    if (!read(frame, 0, header)) return false;
    std::swap(header.ether_shost, header.ether_dhost);
    write(frame, 0, header);
    return true;
}

bool swap_ip(Frame& frame) { return swap_ipv4(frame) || swap_ipv6(frame); }

}  // namespace example
