// SPDX-License-Identifier: Apache-2.0
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include "netlink/messages.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {

std::optional<Family> family_of(int address_family) {
    if (address_family == AF_INET) return Family::ipv4;
    if (address_family == AF_INET6) return Family::ipv6;
    return std::nullopt;
}

Message encode_address(IfIndex device, const Address& address) {
    const IpAddress& own = address.prefix.address;
    ifaddrmsg header{};
    header.ifa_family = static_cast<std::uint8_t>(address_family(own.family));
    header.ifa_prefixlen = address.prefix.length;
    header.ifa_scope = address.scope;
    header.ifa_index = static_cast<std::uint32_t>(device);
    std::uint32_t flags = 0;
    if (address.no_dad) flags |= IFA_F_NODAD;
    if (address.no_prefix_route) flags |= IFA_F_NOPREFIXROUTE;

    Message message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
    message.header(header)
        .put_address(IFA_LOCAL, own)
        .put_address(IFA_ADDRESS, address.peer.value_or(own))
        .put_u32(IFA_FLAGS, flags);
    return message;
}

std::optional<Address> parse_address(const Received& message) {
    const auto header = message.header<ifaddrmsg>();
    const auto attributes = message.attributes<ifaddrmsg>();
    const auto family = family_of(header.ifa_family);
    if (!family) return std::nullopt;
    // IPv6 gives IFA_LOCAL only where there is a peer, which is then IFA_ADDRESS.
    const auto local = attributes.address(IFA_LOCAL, *family);
    const auto other = attributes.address(IFA_ADDRESS, *family);
    if (!local && !other) return std::nullopt;
    const std::uint32_t flags = attributes.find_value<std::uint32_t>(IFA_FLAGS).value_or(header.ifa_flags);
    return Address{.prefix = {.address = local ? *local : *other, .length = header.ifa_prefixlen},
                   .peer = local && other && *local != *other ? other : std::nullopt,
                   .scope = header.ifa_scope,
                   .no_dad = (flags & IFA_F_NODAD) != 0,
                   .no_prefix_route = (flags & IFA_F_NOPREFIXROUTE) != 0,
                   .tentative = (flags & IFA_F_TENTATIVE) != 0};
}

Result<void> SystemRtnl::add_address(IfIndex device, const Address& address) {
    auto message = encode_address(device, address);
    return route_.execute(message, "add address " + address.prefix.to_string() + " to " + device_text(device));
}

Result<std::vector<Address>> SystemRtnl::list_addresses(IfIndex device) {
    ifaddrmsg header{};
    header.ifa_index = static_cast<std::uint32_t>(device);
    Message message(RTM_GETADDR, 0);
    message.header(header);
    auto answers = route_.dump(message, "list addresses of " + device_text(device));
    if (!answers) return std::move(answers.error());
    std::vector<Address> addresses;
    for (const auto& answer : *answers) {
        auto address = parse_address(answer);
        if (address && answer.header<ifaddrmsg>().ifa_index == header.ifa_index) addresses.push_back(*address);
    }
    return addresses;
}

}  // namespace xveth::netlink
