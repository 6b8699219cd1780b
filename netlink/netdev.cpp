// SPDX-License-Identifier: Apache-2.0
// The genl family "netdev" (Linux 6.3). Its numbers are kernel ABI; Debian 12's headers are older than the family.
#include <linux/genetlink.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>

#include <array>

#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

constexpr std::uint8_t cmd_dev_get = 1;
constexpr int attr_ifindex = 1;
constexpr int attr_xdp_features = 3;

}  // namespace

Result<std::uint64_t> SystemRtnl::xdp_features(IfIndex device) {
    auto family = genl_family("netdev");
    if (!family) return std::move(family.error());
    Message message = make_message(*family, 0, genlmsghdr{.cmd = cmd_dev_get, .version = 1, .reserved = 0});
    nla_put_u32(message.get(), attr_ifindex, static_cast<std::uint32_t>(device));
    std::uint64_t bits = 0;
    auto done = (*generic())->request(std::move(message), "read XDP features", [&](nlmsghdr* header) {
        std::array<nlattr*, attr_xdp_features + 1> a{};
        nlmsg_parse(header, GENL_HDRLEN, a.data(), attr_xdp_features, nullptr);
        if (a[attr_xdp_features] != nullptr) bits = nla_get_u64(a[attr_xdp_features]);
    });
    if (!done) return std::move(done.error());
    return bits;
}

}  // namespace xveth::netlink
