// SPDX-License-Identifier: Apache-2.0
// IP addresses in netlink attributes. Private to this folder.
#pragma once

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>

#include "base/address.hpp"

namespace xveth::netlink {

inline std::uint8_t kernel_family(Family family) { return family == Family::ipv4 ? AF_INET : AF_INET6; }

inline void put_address(nl_msg* message, int type, const IpAddress& address) {
    nla_put(message, type, static_cast<int>(address.size()), address.bytes.data());
}

// The attribute's length tells the family.
inline IpAddress read_address(nlattr* attribute) {
    IpAddress address;
    address.family = nla_len(attribute) == 16 ? Family::ipv6 : Family::ipv4;
    nla_memcpy(address.bytes.data(), attribute, static_cast<int>(address.size()));
    return address;
}

}  // namespace xveth::netlink
