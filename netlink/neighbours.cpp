// SPDX-License-Identifier: Apache-2.0
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>

#include "netlink/messages.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

ndmsg header_for(IfIndex device, const IpAddress& address) {
    ndmsg header{};
    header.ndm_family = static_cast<std::uint8_t>(address_family(address.family));
    header.ndm_ifindex = number(device);
    return header;
}

std::string text_of(IfIndex device, const IpAddress& address) {
    return "neighbour " + address.to_string() + " of " + device_text(device);
}

}  // namespace

Message encode_neighbour(const Neighbour& neighbour) {
    auto header = header_for(neighbour.device, neighbour.address);
    header.ndm_state = static_cast<std::uint16_t>(neighbour.state);
    Message message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE);
    message.header(header).put_address(NDA_DST, neighbour.address);
    if (!neighbour.mac.is_zero()) message.put_bytes(NDA_LLADDR, neighbour.mac.bytes);
    if (neighbour.managed) message.put_u32(NDA_FLAGS_EXT, NTF_EXT_MANAGED);
    return message;
}

std::optional<Neighbour> parse_neighbour(const Received& message) {
    const auto header = message.header<ndmsg>();
    const auto attributes = message.attributes<ndmsg>();
    const auto family = family_of(header.ndm_family);
    const auto address = family ? attributes.address(NDA_DST, *family) : std::nullopt;
    if (!address) return std::nullopt;
    Neighbour neighbour{.device = IfIndex{static_cast<std::uint32_t>(header.ndm_ifindex)},
                        .address = *address,
                        .mac = {},
                        .state = NeighbourState{header.ndm_state},
                        .managed = (attributes.u32(NDA_FLAGS_EXT) & NTF_EXT_MANAGED) != 0};
    if (const auto mac = attributes.bytes(NDA_LLADDR); mac.size() == neighbour.mac.bytes.size())
        std::ranges::copy(mac, neighbour.mac.bytes.begin());
    return neighbour;
}

Result<void> SystemRtnl::replace_neighbour(const Neighbour& neighbour) {
    auto message = encode_neighbour(neighbour);
    return route_.execute(message, "set " + text_of(neighbour.device, neighbour.address));
}

Result<std::optional<Neighbour>> SystemRtnl::find_neighbour(IfIndex device, const IpAddress& address) {
    Message message(RTM_GETNEIGH, 0);
    message.header(header_for(device, address)).put_address(NDA_DST, address);
    auto answer = route_.get(message, "look for " + text_of(device, address));
    if (answer) return parse_neighbour(*answer);
    if (answer.error().errno_value == ENOENT) return std::optional<Neighbour>{};
    return std::move(answer.error());
}

Result<void> SystemRtnl::remove_neighbour_if_present(IfIndex device, const IpAddress& address) {
    Message message(RTM_DELNEIGH, 0);
    message.header(header_for(device, address)).put_address(NDA_DST, address);
    return absence_is_success(route_.execute(message, "remove " + text_of(device, address)));
}

}  // namespace xveth::netlink
