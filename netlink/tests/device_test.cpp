// SPDX-License-Identifier: Apache-2.0
// What a device can do and what hangs on it: features, channels, XDP features, statistics, qdiscs, filters.
#include <algorithm>
#include <cerrno>

#include "netlink/tests/world.hpp"

namespace xveth::netlink::test {
namespace {

constexpr std::uint64_t veth_plain = xdp_act_basic | xdp_act_redirect | xdp_act_rx_sg;

TEST(Features, AreSetByName) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    const auto before = must(rtnl.features(pair.inner.index));
    EXPECT_FALSE(before.at("rx-gro").active);
    EXPECT_TRUE(before.at("rx-gro").changeable);
    EXPECT_TRUE(before.at("tx-checksum-ip-generic").active);
    EXPECT_FALSE(before.at("rx-vlan-filter").changeable);

    const std::vector<Feature> wanted{{.name = "rx-gro", .on = true}, {.name = "tx-checksum-ip-generic", .on = false}};
    must(rtnl.set_features(pair.inner.index, wanted));
    must(rtnl.set_features(pair.inner.index, wanted));
    const auto after = must(rtnl.features(pair.inner.index));
    EXPECT_TRUE(after.at("rx-gro").active);
    EXPECT_FALSE(after.at("tx-checksum-ip-generic").active);
}

TEST(Features, AFixedOrUnknownOneIsAnErrorUnlessItIsAsWanted) {
    const Pair pair;
    Rtnl& rtnl = *pair.container.rtnl;
    must(rtnl.set_features(pair.inner.index,
                           {{.name = "rx-vlan-filter", .on = false}, {.name = "no-such-feature", .on = false}}));
    const auto fixed =
        rtnl.set_features(pair.inner.index, {{.name = "rx-gro", .on = true}, {.name = "rx-vlan-filter", .on = true}});
    ASSERT_FALSE(fixed);
    EXPECT_EQ(fixed.error().errno_value, EOPNOTSUPP);
    EXPECT_NE(fixed.error().text.find("rx-vlan-filter on"), std::string::npos) << fixed.error().text;
    EXPECT_FALSE(must(rtnl.features(pair.inner.index)).at("rx-gro").active);
    EXPECT_EQ(rtnl.set_features(pair.inner.index, {{.name = "no-such-feature", .on = true}}).error().errno_value,
              EOPNOTSUPP);
    EXPECT_EQ(rtnl.set_features(IfIndex{4711}, {}).error().errno_value, ENODEV);
}

TEST(XdpFeatures, OfAVethShowItsPeersGro) {
    const Pair pair;
    EXPECT_EQ(must(pair.host.rtnl->xdp_features(pair.outer.index)), veth_plain);
    must(pair.container.rtnl->set_features(pair.inner.index, {{.name = "rx-gro", .on = true}}));
    EXPECT_EQ(must(pair.host.rtnl->xdp_features(pair.outer.index)),
              veth_plain | xdp_act_ndo_xmit | xdp_act_ndo_xmit_sg);
    EXPECT_EQ(pair.host.rtnl->xdp_features(IfIndex{4711}).error().errno_value, ENODEV);
}

TEST(Channels, AreTheQueuesInUse) {
    const Pair pair(2);
    const auto channels = must(pair.container.rtnl->channels(pair.inner.index));
    EXPECT_EQ(channels.rx, 2U);
    EXPECT_EQ(channels.tx, 2U);
}

TEST(DriverStatistics, AreReadByName) {
    const Pair pair(2);
    const auto statistics = must(pair.host.rtnl->driver_statistics(pair.outer.index));
    EXPECT_EQ(statistics.at("peer_ifindex"), static_cast<std::uint64_t>(pair.inner.index));
    EXPECT_EQ(statistics.count("rx_queue_1_xdp_packets"), 1U);
    EXPECT_EQ(statistics.count("tx_queue_1_xdp_xmit_errors"), 1U);
    EXPECT_TRUE(must(pair.host.rtnl->driver_statistics(IfIndex{1})).empty());  // lo
    EXPECT_EQ(pair.host.rtnl->driver_statistics(IfIndex{4711}).error().errno_value, ENODEV);
}

std::vector<std::string> kinds_of(Rtnl& rtnl, IfIndex device) {
    std::vector<std::string> kinds;
    for (const auto& qdisc : must(rtnl.list_qdiscs(device))) kinds.push_back(qdisc.kind);
    return kinds;
}

TEST(Qdiscs, OfADeviceWithoutOneAreNone) {
    const Place place;
    must(place.rtnl->create_veth(veth_between(place, place)));
    const auto down = must_have(place.rtnl->find_link("xvhost"));
    EXPECT_TRUE(kinds_of(*place.rtnl, down.index).empty());
    EXPECT_EQ(place.rtnl->list_qdiscs(IfIndex{4711}).error().errno_value, ENODEV);
}

TEST(Qdiscs, AreTheRootAndWhatSomebodyPutBelow) {
    const Pair pair(2);
    Rtnl& rtnl = *pair.host.rtnl;
    EXPECT_EQ(kinds_of(rtnl, pair.outer.index), (std::vector<std::string>{"noqueue"}));
    pair.host.run("tc qdisc replace dev xvhost root tbf rate 1mbit burst 10k latency 10ms");
    EXPECT_EQ(kinds_of(rtnl, pair.outer.index).at(0), "tbf");
    pair.host.run("tc qdisc replace dev xvhost root handle 1: mq");
    EXPECT_EQ(kinds_of(rtnl, pair.outer.index), (std::vector<std::string>{"mq"}));
    pair.host.run("tc qdisc replace dev xvhost parent 1:2 handle 20: tbf rate 1mbit burst 10k latency 10ms");
    EXPECT_EQ(std::ranges::count(kinds_of(rtnl, pair.outer.index), "tbf"), 1);
}

TEST(TcFilters, OfBothDirectionsAreFound) {
    const Pair pair;
    Rtnl& rtnl = *pair.host.rtnl;
    EXPECT_TRUE(must(rtnl.list_tc_filters(pair.outer.index)).empty()) << "without a clsact qdisc";
    pair.host.run("tc qdisc add dev xvhost clsact");
    EXPECT_TRUE(must(rtnl.list_tc_filters(pair.outer.index)).empty());
    pair.host.run("tc filter add dev xvhost egress u32 match u32 0 0 flowid 1:1");
    // u32 tells of its hash table too.
    const auto egress = must(rtnl.list_tc_filters(pair.outer.index));
    EXPECT_TRUE(std::ranges::any_of(egress, [](const TcFilter& filter) { return filter.kind == "u32"; }));
    EXPECT_TRUE(std::ranges::none_of(egress, &TcFilter::ingress));
    pair.host.run("tc filter add dev xvhost ingress u32 match u32 0 0 flowid 1:1");
    EXPECT_TRUE(std::ranges::any_of(must(rtnl.list_tc_filters(pair.outer.index)), &TcFilter::ingress));
}

}  // namespace
}  // namespace xveth::netlink::test
