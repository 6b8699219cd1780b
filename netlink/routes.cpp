// SPDX-License-Identifier: Apache-2.0
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>

#include "netlink/messages.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

std::uint32_t table_of(const Route& route) { return route.table == 0 ? std::uint32_t{RT_TABLE_MAIN} : route.table; }

// struct rtvia ends in an array without size.
void put_gateway_of_other_family(Message& message, const IpAddress& gateway) {
    std::vector<std::uint8_t> via(sizeof(rtvia) + gateway.size());
    const auto family = static_cast<std::uint16_t>(address_family(gateway.family));
    std::memcpy(via.data(), &family, sizeof family);
    std::copy_n(gateway.bytes.begin(), gateway.size(), via.begin() + sizeof(rtvia));
    message.put_bytes(RTA_VIA, via);
}

std::optional<IpAddress> parse_via(std::span<const std::uint8_t> via) {
    std::uint16_t raw_family = 0;
    if (via.size() < sizeof(rtvia)) return std::nullopt;
    std::memcpy(&raw_family, via.data(), sizeof raw_family);
    const auto family = family_of(raw_family);
    if (!family) return std::nullopt;
    IpAddress gateway{.family = *family, .bytes = {}};
    if (via.size() != sizeof(rtvia) + gateway.size()) return std::nullopt;
    std::ranges::copy(via.subspan(sizeof(rtvia)), gateway.bytes.begin());
    return gateway;
}

// What identifies a route, for creation and removal alike.
Message encode_key(int type, int flags, const Route& route, rtmsg header) {
    const std::uint32_t table = table_of(route);
    header.rtm_family = static_cast<std::uint8_t>(address_family(route.destination.address.family));
    header.rtm_dst_len = route.destination.length;
    header.rtm_table = table < 256 ? static_cast<std::uint8_t>(table) : std::uint8_t{RT_TABLE_UNSPEC};
    Message message(type, flags);
    message.header(header).put_u32(RTA_TABLE, table);
    if (!route.destination.is_default()) message.put_address(RTA_DST, route.destination.network().address);
    if (route.device != IfIndex::none) message.put_u32(RTA_OIF, static_cast<std::uint32_t>(route.device));
    if (route.priority != 0) message.put_u32(RTA_PRIORITY, route.priority);
    if (!route.gateway) return message;
    if (route.gateway->family == route.destination.address.family)
        message.put_address(RTA_GATEWAY, *route.gateway);
    else
        put_gateway_of_other_family(message, *route.gateway);
    return message;
}

std::optional<IpAddress> parse_gateway(const Attributes& attributes, Family family) {
    if (const auto gateway = attributes.address(RTA_GATEWAY, family)) return gateway;
    return parse_via(attributes.bytes(RTA_VIA));
}

// RTA_MULTIPATH: a list of struct rtnexthop, each followed by attributes.
std::vector<Route> parse_next_hops(std::span<const std::uint8_t> bytes, const Route& common, Family family) {
    std::vector<Route> routes;
    while (bytes.size() >= sizeof(rtnexthop)) {
        rtnexthop hop{};
        std::memcpy(&hop, bytes.data(), sizeof hop);
        if (hop.rtnh_len < sizeof hop || hop.rtnh_len > bytes.size()) break;
        const auto* first = reinterpret_cast<const nlattr*>(bytes.data() + sizeof hop);
        Route route = common;
        route.device = IfIndex{static_cast<std::uint32_t>(hop.rtnh_ifindex)};
        route.gateway = parse_gateway({first, static_cast<int>(hop.rtnh_len - sizeof hop)}, family);
        route.onlink = (hop.rtnh_flags & RTNH_F_ONLINK) != 0;
        routes.push_back(std::move(route));
        bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), (hop.rtnh_len + 3U) & ~3U));
    }
    return routes;
}

std::string text_of(const Route& route) {
    std::string text = "route to " + route.destination.to_string();
    if (route.gateway) text += " via " + route.gateway->to_string();
    return text + " on " + device_text(route.device);
}

// How the kernel says that there is no way: no route, or one of type unreachable, prohibit or blackhole.
bool is_unreachable(int err) {
    return err == ENETUNREACH || err == EHOSTUNREACH || err == ESRCH || err == EACCES || err == EINVAL;
}

}  // namespace

Message encode_add_route(const Route& route) {
    rtmsg header{};
    header.rtm_scope = route.scope;
    header.rtm_type = RTN_UNICAST;
    header.rtm_protocol = RTPROT_BOOT;
    if (route.onlink) header.rtm_flags |= RTNH_F_ONLINK;
    auto message = encode_key(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route, header);
    if (route.preferred_source) message.put_address(RTA_PREFSRC, *route.preferred_source);
    if (route.mtu == 0 && route.advmss == 0) return message;
    message.nest(RTA_METRICS, [&](Message& metrics) {
        if (route.mtu != 0) metrics.put_u32(RTAX_MTU, route.mtu);
        if (route.advmss != 0) metrics.put_u32(RTAX_ADVMSS, route.advmss);
    });
    return message;
}

Message encode_remove_route(const Route& route) {
    rtmsg header{};
    header.rtm_scope = RT_SCOPE_NOWHERE;  // any scope
    return encode_key(RTM_DELROUTE, 0, route, header);
}

std::vector<Route> parse_routes(const Received& message) {
    const auto header = message.header<rtmsg>();
    const auto attributes = message.attributes<rtmsg>();
    const auto family = family_of(header.rtm_family);
    if (!family) return {};
    Route route;
    route.destination = {
        .address = attributes.address(RTA_DST, *family).value_or(IpAddress{.family = *family, .bytes = {}}),
        .length = header.rtm_dst_len};
    route.gateway = parse_gateway(attributes, *family);
    route.device = IfIndex{attributes.u32(RTA_OIF)};
    route.preferred_source = attributes.address(RTA_PREFSRC, *family);
    const auto metrics = attributes.nested(RTA_METRICS);
    route.mtu = metrics.u32(RTAX_MTU);
    route.advmss = metrics.u32(RTAX_ADVMSS);
    route.priority = attributes.u32(RTA_PRIORITY);
    const std::uint32_t table = attributes.find_value<std::uint32_t>(RTA_TABLE).value_or(header.rtm_table);
    route.table = table == RT_TABLE_MAIN ? 0 : table;
    route.scope = header.rtm_scope;
    route.onlink = (header.rtm_flags & RTNH_F_ONLINK) != 0;
    if (attributes.has(RTA_MULTIPATH)) return parse_next_hops(attributes.bytes(RTA_MULTIPATH), route, *family);
    return {std::move(route)};
}

Result<void> SystemRtnl::add_route(const Route& route) {
    auto message = encode_add_route(route);
    return route_.execute(message, "add " + text_of(route));
}

Result<void> SystemRtnl::remove_route_if_present(const Route& route) {
    auto message = encode_remove_route(route);
    return absence_is_success(route_.execute(message, "remove " + text_of(route)));
}

Result<std::optional<Route>> SystemRtnl::route_to(const IpAddress& destination) {
    rtmsg header{};
    header.rtm_family = static_cast<std::uint8_t>(address_family(destination.family));
    header.rtm_dst_len = static_cast<std::uint8_t>(destination.bits());
    Message message(RTM_GETROUTE, 0);
    message.header(header).put_address(RTA_DST, destination);
    auto answer = route_.get(message, "look for a route to " + destination.to_string());
    if (!answer && is_unreachable(answer.error().errno_value)) return std::optional<Route>{};
    if (!answer) return std::move(answer.error());
    const auto type = answer->header<rtmsg>().rtm_type;
    auto routes = parse_routes(*answer);
    if (routes.empty() || (type != RTN_UNICAST && type != RTN_LOCAL)) return std::optional<Route>{};
    routes.front().local = type == RTN_LOCAL;
    return std::optional<Route>(std::move(routes.front()));
}

Result<std::vector<Route>> SystemRtnl::list_routes(Family family, IfIndex device) {
    rtmsg header{};
    header.rtm_family = static_cast<std::uint8_t>(address_family(family));
    header.rtm_table = RT_TABLE_MAIN;
    Message message(RTM_GETROUTE, 0);
    message.header(header);
    if (device != IfIndex::none) message.put_u32(RTA_OIF, static_cast<std::uint32_t>(device));
    auto answers = route_.dump(message, "list routes");
    // IPv4's main table comes into being with its first route.
    if (!answers && answers.error().errno_value == ENOENT) return std::vector<Route>{};
    if (!answers) return std::move(answers.error());
    std::vector<Route> routes;
    for (const auto& answer : *answers) {
        if (answer.header<rtmsg>().rtm_type != RTN_UNICAST) continue;
        for (auto& route : parse_routes(answer)) {
            const bool wanted = route.destination.address.family == family && route.table == 0 &&
                                (device == IfIndex::none || route.device == device);
            if (wanted) routes.push_back(std::move(route));
        }
    }
    return routes;
}

}  // namespace xveth::netlink
