// SPDX-License-Identifier: Apache-2.0
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>

#include <array>
#include <cerrno>

#include "netlink/ip_attributes.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

Message neighbour_message(int type, int flags, IfIndex device, const IpAddress& address, std::uint16_t state) {
    ndmsg header{};
    header.ndm_family = kernel_family(address.family);
    header.ndm_ifindex = static_cast<int>(device);
    header.ndm_state = state;
    Message message = make_message(type, flags, header);
    put_address(message.get(), NDA_DST, address);
    return message;
}

Neighbour decode_neighbour(nlmsghdr* header) {
    const auto* info = static_cast<ndmsg*>(nlmsg_data(header));
    std::array<nlattr*, NDA_MAX + 1> a{};
    nlmsg_parse(header, sizeof *info, a.data(), NDA_MAX, nullptr);
    Neighbour neighbour;
    neighbour.device = IfIndex{static_cast<std::uint32_t>(info->ndm_ifindex)};
    neighbour.state = NeighbourState{info->ndm_state};
    if (a[NDA_DST] != nullptr) neighbour.address = read_address(a[NDA_DST]);
    if (a[NDA_LLADDR] != nullptr && nla_len(a[NDA_LLADDR]) == 6) nla_memcpy(neighbour.mac.bytes.data(), a[NDA_LLADDR], 6);
    neighbour.managed = a[NDA_FLAGS_EXT] != nullptr && (nla_get_u32(a[NDA_FLAGS_EXT]) & NTF_EXT_MANAGED) != 0;
    return neighbour;
}

}  // namespace

Result<void> SystemRtnl::replace_neighbour(const Neighbour& neighbour) {
    Message message = neighbour_message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, neighbour.device, neighbour.address,
                                        static_cast<std::uint16_t>(neighbour.state));
    if (!neighbour.mac.is_zero()) nla_put(message.get(), NDA_LLADDR, 6, neighbour.mac.bytes.data());
    if (neighbour.managed) nla_put_u32(message.get(), NDA_FLAGS_EXT, NTF_EXT_MANAGED);
    return route_.request(std::move(message), "set neighbour " + neighbour.address.to_string());
}

Result<std::optional<Neighbour>> SystemRtnl::find_neighbour(IfIndex device, const IpAddress& address) {
    std::optional<Neighbour> neighbour;
    auto done = route_.request(neighbour_message(RTM_GETNEIGH, 0, device, address, 0),
                               "read neighbour " + address.to_string(),
                               [&](nlmsghdr* header) { neighbour = decode_neighbour(header); });
    if (done) return neighbour;
    if (done.error().errno_value == ENOENT || done.error().errno_value == ENODEV) return std::optional<Neighbour>{};
    return std::move(done.error());
}

Result<void> SystemRtnl::remove_neighbour_if_present(IfIndex device, const IpAddress& address) {
    auto done = route_.request(neighbour_message(RTM_DELNEIGH, 0, device, address, 0),
                               "remove neighbour " + address.to_string());
    if (!done && (done.error().errno_value == ENOENT || done.error().errno_value == ENODEV)) return ok();
    return done;
}

}  // namespace xveth::netlink
