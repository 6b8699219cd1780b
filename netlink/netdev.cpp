// SPDX-License-Identifier: Apache-2.0
#include <linux/genetlink.h>

#include "netlink/messages.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

// Generic netlink family "netdev" (Linux 6.3), which older headers lack.
constexpr const char* netdev_family = "netdev";
constexpr std::uint8_t netdev_version = 1;
constexpr std::uint8_t netdev_cmd_dev_get = 1;
constexpr int netdev_a_dev_ifindex = 1;
constexpr int netdev_a_dev_xdp_features = 3;

}  // namespace

Result<std::uint64_t> SystemRtnl::xdp_features(IfIndex device) {
    auto family = generic_family(netdev_family);
    if (!family) return std::move(family.error());
    Message message(*family, 0);
    message.header(genlmsghdr{.cmd = netdev_cmd_dev_get, .version = netdev_version, .reserved = 0})
        .put_u32(netdev_a_dev_ifindex, static_cast<std::uint32_t>(device));
    auto answer = (*generic())->get(message, "read XDP features of " + device_text(device));
    if (!answer) return std::move(answer.error());
    return answer->attributes<genlmsghdr>().u64(netdev_a_dev_xdp_features);
}

}  // namespace xveth::netlink
