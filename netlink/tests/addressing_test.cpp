// SPDX-License-Identifier: Apache-2.0
// Addresses, routes and neighbours, in namespaces of the test's own.
#include <linux/rtnetlink.h>

#include <cerrno>

#include "netlink/tests/world.hpp"

namespace xveth::netlink::test {
namespace {

Address address_of(const std::string& text) {
    return {.prefix = prefix(text),
            .peer = {},
            .scope = RT_SCOPE_UNIVERSE,
            .no_dad = true,
            .no_prefix_route = true,
            .tentative = false};
}

Route route_of(const std::string& destination, IfIndex device) {
    Route route;
    route.destination = prefix(destination);
    route.device = device;
    return route;
}

TEST(Addresses, AreReadBackAsTheyWereGiven) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    must(rtnl.add_address(pair.inner.index, address_of("10.1.0.5/16")));
    must(rtnl.add_address(pair.inner.index, address_of("fd00::5/64")));
    Address remote = address_of("10.9.0.1/32");
    remote.peer = ip("10.9.0.2");
    remote.scope = RT_SCOPE_LINK;
    must(rtnl.add_address(pair.inner.index, remote));

    const auto addresses = must(rtnl.list_addresses(pair.inner.index));
    ASSERT_EQ(addresses.size(), 3U);
    EXPECT_EQ(addresses[0].prefix.to_string(), "10.9.0.1/32");  // the kernel lists by scope
    EXPECT_EQ(addresses[0].peer, ip("10.9.0.2"));
    EXPECT_EQ(addresses[0].scope, RT_SCOPE_LINK);
    EXPECT_EQ(addresses[1].prefix.to_string(), "10.1.0.5/16");
    EXPECT_TRUE(addresses[1].no_prefix_route);
    EXPECT_FALSE(addresses[1].peer.has_value());
    EXPECT_EQ(addresses[2].prefix.to_string(), "fd00::5/64");
    EXPECT_TRUE(addresses[2].no_dad);
    EXPECT_FALSE(addresses[2].tentative);
    EXPECT_EQ(rtnl.add_address(pair.inner.index, address_of("10.1.0.5/16")).error().errno_value, EEXIST);
}

TEST(Addresses, APrefixRouteIsTheKernelsUnlessDeclined) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    must(rtnl.add_address(pair.inner.index, address_of("10.1.0.5/16")));
    EXPECT_TRUE(must(rtnl.list_routes(Family::ipv4, pair.inner.index)).empty());
    auto with_route = address_of("10.2.0.5/16");
    with_route.no_prefix_route = false;
    must(rtnl.add_address(pair.inner.index, with_route));
    const auto routes = must(rtnl.list_routes(Family::ipv4, pair.inner.index));
    ASSERT_EQ(routes.size(), 1U);
    EXPECT_EQ(routes[0].destination.to_string(), "10.2.0.0/16");
    EXPECT_EQ(routes[0].preferred_source, ip("10.2.0.5"));
}

TEST(Addresses, OfAnAbsentDeviceAreAnError) {
    const Place place;
    EXPECT_EQ(place.rtnl->list_addresses(IfIndex{4711}).error().errno_value, ENODEV);
}

TEST(Routes, AreReadBackAsTheyWereGiven) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    must(rtnl.add_address(pair.inner.index, address_of("10.1.0.5/32")));
    Route link = route_of("10.1.0.1/32", pair.inner.index);
    link.scope = RT_SCOPE_LINK;
    Route gateway = route_of("0.0.0.0/0", pair.inner.index);
    gateway.gateway = ip("10.1.0.1");
    gateway.onlink = true;
    gateway.mtu = 1400;
    gateway.advmss = 1300;
    gateway.priority = 7;
    gateway.preferred_source = ip("10.1.0.5");
    must(rtnl.add_route(link));
    must(rtnl.add_route(gateway));

    const auto routes = must(rtnl.list_routes(Family::ipv4, pair.inner.index));
    ASSERT_EQ(routes.size(), 2U);
    const Route& read = routes[0];
    EXPECT_TRUE(read.destination.is_default());
    EXPECT_EQ(read.gateway, ip("10.1.0.1"));
    EXPECT_EQ(read.device, pair.inner.index);
    EXPECT_TRUE(read.onlink);
    EXPECT_EQ(read.mtu, 1400U);
    EXPECT_EQ(read.advmss, 1300U);
    EXPECT_EQ(read.priority, 7U);
    EXPECT_EQ(read.table, 0U);
    EXPECT_EQ(read.preferred_source, ip("10.1.0.5"));
    EXPECT_EQ(routes[1].destination.to_string(), "10.1.0.1/32");
    EXPECT_EQ(routes[1].scope, RT_SCOPE_LINK);
    EXPECT_EQ(rtnl.add_route(gateway).error().errno_value, EEXIST);
    EXPECT_EQ(must(rtnl.list_routes(Family::ipv4, IfIndex::none)).size(), 2U);
}

TEST(Routes, OfIpv6AreReadBackAsTheyWereGiven) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    must(rtnl.add_address(pair.inner.index, address_of("fd00::5/128")));
    Route link = route_of("fd00::1/128", pair.inner.index);
    Route gateway = route_of("::/0", pair.inner.index);
    gateway.gateway = ip("fd00::1");
    gateway.mtu = 1400;
    must(rtnl.add_route(link));
    must(rtnl.add_route(gateway));
    bool found = false;
    for (const auto& route : must(rtnl.list_routes(Family::ipv6, pair.inner.index))) {
        if (!route.destination.is_default()) continue;
        found = true;
        EXPECT_EQ(route.gateway, ip("fd00::1"));
        EXPECT_EQ(route.mtu, 1400U);
    }
    EXPECT_TRUE(found);
    must(rtnl.remove_route_if_present(gateway));
    EXPECT_FALSE(must(rtnl.route_to(ip("fd99::1"))).has_value());
}

TEST(Routes, OfIpv4MayHaveAnIpv6Gateway) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    Route route = route_of("10.3.0.0/16", pair.inner.index);
    route.gateway = ip("fe80::1");
    route.onlink = true;
    must(rtnl.add_route(route));
    const auto routes = must(rtnl.list_routes(Family::ipv4, pair.inner.index));
    ASSERT_EQ(routes.size(), 1U);
    EXPECT_EQ(routes[0].gateway, ip("fe80::1"));
    must(rtnl.remove_route_if_present(route));
    EXPECT_TRUE(must(rtnl.list_routes(Family::ipv4, pair.inner.index)).empty());
}

TEST(Routes, ATableOfItsOwnIsNotMain) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    Route route = route_of("10.3.0.0/16", pair.inner.index);
    route.table = 1000;
    route.scope = RT_SCOPE_LINK;
    must(rtnl.add_route(route));
    EXPECT_TRUE(must(rtnl.list_routes(Family::ipv4, pair.inner.index)).empty());
    must(rtnl.remove_route_if_present(route));
    must(rtnl.add_route(route));
}

TEST(Routes, RemovalIsIdempotent) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    Route route = route_of("10.3.0.0/16", pair.inner.index);
    route.scope = RT_SCOPE_LINK;
    route.mtu = 1400;
    must(rtnl.add_route(route));
    must(rtnl.remove_route_if_present(route));
    EXPECT_TRUE(must(rtnl.list_routes(Family::ipv4, pair.inner.index)).empty());
    must(rtnl.remove_route_if_present(route));
    route.device = IfIndex{4711};
    must(rtnl.remove_route_if_present(route));
}

TEST(Routes, TheKernelSaysWhichWayItWouldTake) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    must(rtnl.add_address(pair.inner.index, address_of("10.1.0.5/32")));
    Route gateway = route_of("10.2.0.0/16", pair.inner.index);
    gateway.gateway = ip("10.1.0.1");
    gateway.onlink = true;
    must(rtnl.add_route(gateway));
    const Route way = must_have(rtnl.route_to(ip("10.2.3.4")));
    EXPECT_EQ(way.gateway, ip("10.1.0.1"));
    EXPECT_EQ(way.device, pair.inner.index);
    EXPECT_EQ(way.preferred_source, ip("10.1.0.5"));
    EXPECT_FALSE(way.local);
    must(rtnl.set_up(IfIndex{1}, true));  // what ends here goes by way of lo
    for (const char* own : {"10.1.0.5", "::1"}) EXPECT_TRUE(must_have(rtnl.route_to(ip(own))).local) << own;
    EXPECT_FALSE(must(rtnl.route_to(ip("192.0.2.1"))).has_value());
    EXPECT_FALSE(must(rtnl.route_to(ip("2001:db8::1"))).has_value());
}

Neighbour neighbour_of(IfIndex device, const std::string& address, NeighbourState state) {
    return {.device = device,
            .address = ip(address),
            .mac = *Mac::parse("02:fc:00:00:00:09"),
            .state = state,
            .managed = false};
}

TEST(Neighbours, AreReadBackAsTheyWereGiven) {
    const Pair pair;
    Rtnl& rtnl = *pair.host.rtnl;
    must(rtnl.replace_neighbour(neighbour_of(pair.outer.index, "10.1.0.5", NeighbourState::permanent)));
    must(rtnl.replace_neighbour(neighbour_of(pair.outer.index, "fd00::5", NeighbourState::stale)));
    const auto v4 = must_have(rtnl.find_neighbour(pair.outer.index, ip("10.1.0.5")));
    EXPECT_EQ(v4.mac.to_string(), "02:fc:00:00:00:09");
    EXPECT_EQ(v4.state, NeighbourState::permanent);
    EXPECT_FALSE(v4.managed);
    EXPECT_EQ(must_have(rtnl.find_neighbour(pair.outer.index, ip("fd00::5"))).state, NeighbourState::stale);
    EXPECT_FALSE(must(rtnl.find_neighbour(pair.outer.index, ip("10.1.0.6"))).has_value());
}

TEST(Neighbours, AManagedOneNeedsNoMac) {
    const Pair pair;
    Rtnl& rtnl = *pair.host.rtnl;
    Neighbour managed = neighbour_of(pair.outer.index, "10.1.0.7", NeighbourState::none);
    managed.mac = {};
    managed.managed = true;
    must(rtnl.replace_neighbour(managed));
    EXPECT_TRUE(must_have(rtnl.find_neighbour(pair.outer.index, ip("10.1.0.7"))).managed);
}

TEST(Neighbours, RemovalIsIdempotent) {
    const Pair pair;
    Rtnl& rtnl = *pair.host.rtnl;
    must(rtnl.replace_neighbour(neighbour_of(pair.outer.index, "10.1.0.5", NeighbourState::permanent)));
    must(rtnl.remove_neighbour_if_present(pair.outer.index, ip("10.1.0.5")));
    EXPECT_FALSE(must(rtnl.find_neighbour(pair.outer.index, ip("10.1.0.5"))).has_value());
    must(rtnl.remove_neighbour_if_present(pair.outer.index, ip("10.1.0.5")));
    must(rtnl.remove_neighbour_if_present(IfIndex{4711}, ip("10.1.0.5")));
}

}  // namespace
}  // namespace xveth::netlink::test
