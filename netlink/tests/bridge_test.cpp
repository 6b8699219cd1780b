// SPDX-License-Identifier: Apache-2.0
// Bridges, in namespaces of the test's own. VLANs need a kernel with CONFIG_BRIDGE_VLAN_FILTERING; without it the kernel's
// refusal is what is tested.
#include <cerrno>

#include "netlink/tests/world.hpp"

namespace xveth::netlink::test {
namespace {

const Mac own_mac = *Mac::parse("02:fc:00:00:00:10");
const Mac other_mac = *Mac::parse("02:fc:00:00:00:11");

// A host whose device xvhost is a port of a bridge.
struct Bridged : Pair {
    Link bridge;

    Bridged() {
        must(host.rtnl->create_bridge({.name = "xvb", .mac = own_mac}));
        bridge = must_have(host.rtnl->find_link("xvb"));
        must(host.rtnl->set_master(outer.index, bridge.index));
        must(host.rtnl->set_up(bridge.index, true));
    }
    [[nodiscard]] Link port() const { return must_have(host.rtnl->find_link(outer.index)); }
};

TEST(Bridge, IsMadeWithItsMacAndDown) {
    const Place host;
    must(host.rtnl->create_bridge({.name = "xvb", .mac = own_mac}));
    const Link bridge = must_have(host.rtnl->find_link("xvb"));
    EXPECT_EQ(bridge.kind, "bridge");
    EXPECT_EQ(bridge.mac, own_mac);
    EXPECT_FALSE(bridge.up);
    EXPECT_FALSE(bridge.filters_vlans);
    host.run("ip -d link show xvb | grep -q NOARP && ip -d link show xvb | grep -q 'stp_state 0.*mcast_snooping 0'");
}

TEST(Bridge, KeepsItsMacWhateverItsPortsHave) {
    const Bridged world;
    EXPECT_EQ(must_have(world.host.rtnl->find_link("xvb")).mac, own_mac);
}

TEST(Bridge, OfATakenNameIsEexist) {
    const Bridged world;
    const auto created = world.host.rtnl->create_bridge({.name = "xvb", .mac = own_mac});
    ASSERT_FALSE(created);
    EXPECT_EQ(created.error().errno_value, EEXIST);
    EXPECT_EQ(created.error().text, "create bridge xvb: File exists");
}

TEST(Bridge, TakesAndReleasesPorts) {
    const Bridged world;
    EXPECT_EQ(world.port().master, world.bridge.index);
    ASSERT_TRUE(world.port().bridge_port.has_value());
    EXPECT_EQ(*world.port().bridge_port, (BridgePort{.learning = true, .isolated = false}));
    must(world.host.rtnl->set_bridge_port(world.outer.index, {.learning = false, .isolated = true}));
    EXPECT_EQ(*world.port().bridge_port, (BridgePort{.learning = false, .isolated = true}));
    must(world.host.rtnl->set_master(world.outer.index, IfIndex::none));
    EXPECT_EQ(world.port().master, IfIndex::none);
    EXPECT_FALSE(world.port().bridge_port.has_value());
    must(world.host.rtnl->set_master(world.outer.index, IfIndex::none));
}

TEST(Bridge, PortThatIsNoneIsAnError) {
    const Pair pair;
    EXPECT_FALSE(pair.host.rtnl->set_bridge_port(pair.outer.index, {}));
    EXPECT_EQ(pair.host.rtnl->set_master(pair.outer.index, IfIndex{4711}).error().errno_value, EINVAL);
}

TEST(Bridge, FindsAMacWhereItWasEntered) {
    const Bridged world;
    Rtnl& rtnl = *world.host.rtnl;
    const BridgeMac entry{.mac = other_mac, .vlan = 0, .port = world.outer.index};
    EXPECT_FALSE(must(rtnl.find_bridge_mac(world.bridge.index, 0, other_mac)).has_value());
    must(rtnl.put_bridge_mac(entry));
    must(rtnl.put_bridge_mac(entry));
    EXPECT_EQ(must_have(rtnl.find_bridge_mac(world.bridge.index, 0, other_mac)), world.outer.index);
    world.host.run("bridge fdb show | grep -q '02:fc:00:00:00:11 dev xvhost extern_learn master xvb'");
    must(rtnl.remove_bridge_mac_if_present(entry));
    must(rtnl.remove_bridge_mac_if_present(entry));
    EXPECT_FALSE(must(rtnl.find_bridge_mac(world.bridge.index, 0, other_mac)).has_value());
}

TEST(Bridge, ForgetsTheMacsOfAPortThatGoes) {
    const Bridged world;
    Rtnl& rtnl = *world.host.rtnl;
    must(rtnl.put_bridge_mac({.mac = other_mac, .vlan = 0, .port = world.outer.index}));
    must(rtnl.remove_link_if_present(world.outer.index));
    EXPECT_FALSE(must(rtnl.find_bridge_mac(world.bridge.index, 0, other_mac)).has_value());
    must(rtnl.remove_bridge_mac_if_present({.mac = other_mac, .vlan = 0, .port = world.outer.index}));
}

TEST(Bridge, LetsItsPortsGo) {
    const Bridged world;
    must(world.host.rtnl->remove_link_if_present(world.bridge.index));
    EXPECT_EQ(world.port().master, IfIndex::none);
}

TEST(Bridge, FiltersVlansWhereTheKernelCan) {
    const Pair pair;
    Rtnl& rtnl = *pair.host.rtnl;
    const auto created = rtnl.create_bridge({.name = "xvb", .mac = own_mac, .filters_vlans = true});
    if (!created) {
        EXPECT_EQ(created.error().errno_value, EOPNOTSUPP);
        EXPECT_FALSE(must(rtnl.find_link("xvb")).has_value());
        return;
    }
    const Link bridge = must_have(rtnl.find_link("xvb"));
    EXPECT_TRUE(bridge.filters_vlans);
    must(rtnl.set_master(pair.outer.index, bridge.index));
    pair.host.run("test -z \"$(bridge vlan show dev xvhost | grep -w 1)\"");
    must(rtnl.add_bridge_vlan(pair.outer.index, {.first = 10, .last = 10, .own = true}));
    must(rtnl.add_bridge_vlan(pair.outer.index, {.first = 20, .last = 29}));
    pair.host.run("bridge vlan show dev xvhost | grep -q '10 PVID Egress Untagged'");
    pair.host.run("bridge vlan show dev xvhost | grep -qw 29");
    must(rtnl.put_bridge_mac({.mac = other_mac, .vlan = 20, .port = pair.outer.index}));
    EXPECT_EQ(must_have(rtnl.find_bridge_mac(bridge.index, 20, other_mac)), pair.outer.index);
    EXPECT_FALSE(must(rtnl.find_bridge_mac(bridge.index, 10, other_mac)).has_value());
}

}  // namespace
}  // namespace xveth::netlink::test
