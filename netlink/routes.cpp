// SPDX-License-Identifier: Apache-2.0
#include <linux/rtnetlink.h>
#include <netlink/attr.h>

#include <array>
#include <cerrno>

#include "netlink/ip_attributes.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

using Attributes = std::array<nlattr*, RTA_MAX + 1>;

std::uint32_t table_of(const Route& route) {
    return route.table == 0 ? static_cast<std::uint32_t>(RT_TABLE_MAIN) : route.table;
}

Message route_message(int type, int flags, const Route& route) {
    const std::uint32_t table = table_of(route);
    rtmsg header{};
    header.rtm_family = kernel_family(route.destination.address.family);
    header.rtm_dst_len = route.destination.length;
    header.rtm_table = table < 256 ? static_cast<std::uint8_t>(table) : static_cast<std::uint8_t>(RT_TABLE_UNSPEC);
    header.rtm_protocol = RTPROT_STATIC;
    header.rtm_scope = type == RTM_DELROUTE ? static_cast<std::uint8_t>(RT_SCOPE_NOWHERE) : route.scope;
    header.rtm_type = type == RTM_DELROUTE ? RTN_UNSPEC : RTN_UNICAST;
    if (route.onlink && type == RTM_NEWROUTE) header.rtm_flags = RTNH_F_ONLINK;
    Message message = make_message(type, flags, header);
    if (!route.destination.is_default())
        put_address(message.get(), RTA_DST, route.destination.network().address);
    if (route.device != IfIndex::none) nla_put_u32(message.get(), RTA_OIF, static_cast<std::uint32_t>(route.device));
    if (route.gateway) put_address(message.get(), RTA_GATEWAY, *route.gateway);
    nla_put_u32(message.get(), RTA_TABLE, table);
    if (route.priority != 0) nla_put_u32(message.get(), RTA_PRIORITY, route.priority);
    return message;
}

void decode_metrics(nlattr* metrics, Route& route) {
    std::array<nlattr*, RTAX_MAX + 1> part{};
    if (metrics == nullptr || nla_parse_nested(part.data(), RTAX_MAX, metrics, nullptr) < 0) return;
    if (part[RTAX_MTU] != nullptr) route.mtu = nla_get_u32(part[RTAX_MTU]);
    if (part[RTAX_ADVMSS] != nullptr) route.advmss = nla_get_u32(part[RTAX_ADVMSS]);
}

// A multipath route is given by its first hop.
void decode_first_hop(nlattr* multipath, Route& route) {
    if (multipath == nullptr) return;
    const auto* hop = static_cast<rtnexthop*>(nla_data(multipath));
    if (route.device == IfIndex::none) route.device = IfIndex{static_cast<std::uint32_t>(hop->rtnh_ifindex)};
    auto* first = reinterpret_cast<nlattr*>(static_cast<char*>(nla_data(multipath)) + sizeof *hop);
    const int length = static_cast<int>(hop->rtnh_len) - static_cast<int>(sizeof *hop);
    if (nlattr* gateway = nla_find(first, length, RTA_GATEWAY); gateway != nullptr) route.gateway = read_address(gateway);
}

Route decode_route(nlmsghdr* header) {
    const auto* info = static_cast<rtmsg*>(nlmsg_data(header));
    Attributes a{};
    nlmsg_parse(header, sizeof *info, a.data(), RTA_MAX, nullptr);
    Route route;
    route.destination.address.family = info->rtm_family == AF_INET6 ? Family::ipv6 : Family::ipv4;
    if (a[RTA_DST] != nullptr) route.destination.address = read_address(a[RTA_DST]);
    route.destination.length = info->rtm_dst_len;
    route.scope = info->rtm_scope;
    route.onlink = (info->rtm_flags & RTNH_F_ONLINK) != 0;
    route.table = a[RTA_TABLE] != nullptr ? nla_get_u32(a[RTA_TABLE]) : info->rtm_table;
    if (a[RTA_OIF] != nullptr) route.device = IfIndex{nla_get_u32(a[RTA_OIF])};
    if (a[RTA_GATEWAY] != nullptr) route.gateway = read_address(a[RTA_GATEWAY]);
    if (a[RTA_PREFSRC] != nullptr) route.preferred_source = read_address(a[RTA_PREFSRC]);
    if (a[RTA_PRIORITY] != nullptr) route.priority = nla_get_u32(a[RTA_PRIORITY]);
    decode_metrics(a[RTA_METRICS], route);
    decode_first_hop(a[RTA_MULTIPATH], route);
    return route;
}

}  // namespace

Result<void> SystemRtnl::add_route(const Route& route) {
    Message message = route_message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route);
    if (route.preferred_source) put_address(message.get(), RTA_PREFSRC, *route.preferred_source);
    if (route.mtu != 0 || route.advmss != 0) {
        nlattr* metrics = nla_nest_start(message.get(), RTA_METRICS);
        if (route.mtu != 0) nla_put_u32(message.get(), RTAX_MTU, route.mtu);
        if (route.advmss != 0) nla_put_u32(message.get(), RTAX_ADVMSS, route.advmss);
        nla_nest_end(message.get(), metrics);
    }
    return route_.request(std::move(message), "add route to " + route.destination.to_string());
}

Result<void> SystemRtnl::remove_route_if_present(const Route& route) {
    auto done = route_.request(route_message(RTM_DELROUTE, 0, route), "remove route to " + route.destination.to_string());
    if (!done && (done.error().errno_value == ESRCH || done.error().errno_value == ENODEV)) return ok();
    return done;
}

Result<std::optional<Route>> SystemRtnl::route_to(const IpAddress& destination) {
    rtmsg header{};
    header.rtm_family = kernel_family(destination.family);
    header.rtm_dst_len = static_cast<std::uint8_t>(destination.bits());
    Message message = make_message(RTM_GETROUTE, 0, header);
    put_address(message.get(), RTA_DST, destination);
    std::optional<Route> route;
    auto done = route_.request(std::move(message), "look up the route to " + destination.to_string(),
                               [&](nlmsghdr* answer) { route = decode_route(answer); });
    if (done) return route;
    const int err = done.error().errno_value;
    if (err == ENETUNREACH || err == EHOSTUNREACH || err == EACCES || err == EINVAL) return std::optional<Route>{};
    return std::move(done.error());
}

Result<std::vector<Route>> SystemRtnl::list_routes(Family family, IfIndex device) {
    std::vector<Route> routes;
    const auto make = [&] {
        rtmsg header{};
        header.rtm_family = kernel_family(family);
        header.rtm_table = RT_TABLE_MAIN;
        header.rtm_type = RTN_UNICAST;
        Message message = make_message(RTM_GETROUTE, 0, header);
        nla_put_u32(message.get(), RTA_TABLE, RT_TABLE_MAIN);
        if (device != IfIndex::none) nla_put_u32(message.get(), RTA_OIF, static_cast<std::uint32_t>(device));
        return message;
    };
    const auto receive = [&](nlmsghdr* answer) {
        Route route = decode_route(answer);
        const bool wanted = device == IfIndex::none || route.device == device;
        if (wanted && route.table == RT_TABLE_MAIN) routes.push_back(std::move(route));
    };
    auto done = route_.dump(make, "list routes", receive, [&] { routes.clear(); });
    if (done) return routes;
    // A family that the kernel runs without, or whose main table does not exist yet, has no routes.
    const int err = done.error().errno_value;
    if (err == EAFNOSUPPORT || err == EOPNOTSUPP || err == ENOENT) return std::vector<Route>{};
    return std::move(done.error());
}

}  // namespace xveth::netlink
