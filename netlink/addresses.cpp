// SPDX-License-Identifier: Apache-2.0
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>

#include <algorithm>
#include <array>

#include "netlink/ip_attributes.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

Address decode_address(nlmsghdr* header) {
    const auto* info = static_cast<ifaddrmsg*>(nlmsg_data(header));
    std::array<nlattr*, IFA_MAX + 1> a{};
    nlmsg_parse(header, sizeof *info, a.data(), IFA_MAX, nullptr);
    Address address;
    // IFA_LOCAL is the address itself where the device has one; IFA_ADDRESS is then the peer's.
    nlattr* local = a[IFA_LOCAL] != nullptr ? a[IFA_LOCAL] : a[IFA_ADDRESS];
    if (local != nullptr) address.prefix.address = read_address(local);
    if (a[IFA_LOCAL] != nullptr && a[IFA_ADDRESS] != nullptr) {
        const IpAddress remote = read_address(a[IFA_ADDRESS]);
        if (remote != address.prefix.address) address.peer = remote;
    }
    address.prefix.length = info->ifa_prefixlen;
    address.scope = info->ifa_scope;
    const std::uint32_t flags = a[IFA_FLAGS] != nullptr ? nla_get_u32(a[IFA_FLAGS]) : info->ifa_flags;
    address.no_dad = (flags & IFA_F_NODAD) != 0;
    address.no_prefix_route = (flags & IFA_F_NOPREFIXROUTE) != 0;
    address.tentative = (flags & IFA_F_TENTATIVE) != 0;
    return address;
}

}  // namespace

Result<void> SystemRtnl::add_address(IfIndex device, const Address& address) {
    const IpAddress& local = address.prefix.address;
    Message message = make_message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL,
                                   ifaddrmsg{.ifa_family = kernel_family(local.family),
                                             .ifa_prefixlen = address.prefix.length,
                                             .ifa_flags = 0,
                                             .ifa_scope = address.scope,
                                             .ifa_index = static_cast<std::uint32_t>(device)});
    put_address(message.get(), IFA_LOCAL, local);
    put_address(message.get(), IFA_ADDRESS, address.peer.value_or(local));
    std::uint32_t flags = 0;
    if (address.no_dad && local.family == Family::ipv6) flags |= IFA_F_NODAD;
    if (address.no_prefix_route) flags |= IFA_F_NOPREFIXROUTE;
    nla_put_u32(message.get(), IFA_FLAGS, flags);
    return route_.request(std::move(message), "add address " + address.prefix.to_string());
}

Result<std::vector<Address>> SystemRtnl::list_addresses(IfIndex device) {
    std::vector<Address> addresses;
    const auto make = [device] {
        return make_message(RTM_GETADDR, 0,
                            ifaddrmsg{.ifa_family = AF_UNSPEC, .ifa_prefixlen = 0, .ifa_flags = 0, .ifa_scope = 0,
                                      .ifa_index = static_cast<std::uint32_t>(device)});
    };
    const auto receive = [&](nlmsghdr* header) {
        if (static_cast<ifaddrmsg*>(nlmsg_data(header))->ifa_index == static_cast<std::uint32_t>(device))
            addresses.push_back(decode_address(header));
    };
    auto done = route_.dump(make, "list addresses", receive, [&] { addresses.clear(); });
    if (!done) return std::move(done.error());
    return addresses;
}

}  // namespace xveth::netlink
