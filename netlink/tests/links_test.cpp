// SPDX-License-Identifier: Apache-2.0
// Links, in namespaces of the test's own.
#include <cerrno>
#include <chrono>
#include <thread>

#include "netlink/tests/world.hpp"

namespace xveth::netlink::test {
namespace {

TEST(Links, OneMessagePutsBothEndsIntoTwoNamespacesFromAThird) {
    const Place third;
    const Place host;
    const Place container;
    must(third.rtnl->create_veth(veth_between(host, container, 9000, 2)));

    const Link outer = must_have(host.rtnl->find_link("xvhost"));
    const Link inner = must_have(container.rtnl->find_link("eth0"));
    EXPECT_EQ(outer.kind, "veth");
    EXPECT_EQ(outer.mac.to_string(), "02:fc:00:00:00:01");
    EXPECT_EQ(inner.mac.to_string(), "02:fc:00:00:00:02");
    for (const Link& end : {outer, inner}) {
        EXPECT_EQ(end.mtu, 9000U);
        EXPECT_EQ(end.rx_queues, 2U);
        EXPECT_EQ(end.tx_queues, 2U);
        EXPECT_FALSE(end.up);
        EXPECT_TRUE(end.peer_netns_id.has_value());
        EXPECT_EQ(end.xdp_mode, XdpMode::none);
    }
    EXPECT_EQ(outer.peer, inner.index);
    EXPECT_EQ(inner.peer, outer.index);
    EXPECT_FALSE(must(third.rtnl->find_link("xvhost")).has_value());
    EXPECT_EQ(must(third.rtnl->list_links()).size(), 1U);  // lo
}

// Waits for the link-local address that the kernel gives on its own when the carrier comes.
std::vector<Address> wait_for_addresses(Rtnl& rtnl, IfIndex device) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    auto addresses = must(rtnl.list_addresses(device));
    while (addresses.empty() && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        addresses = must(rtnl.list_addresses(device));
    }
    return addresses;
}

TEST(Links, OnlyAnEndWithAutoconfigurationGetsALinkLocalAddress) {
    const Place host;
    const Place container;
    auto spec = veth_between(host, container);
    spec.container.no_ipv6_autoconf = false;
    must(host.rtnl->create_veth(spec));
    const Link outer = must_have(host.rtnl->find_link("xvhost"));
    const Link inner = must_have(container.rtnl->find_link("eth0"));
    must(host.rtnl->set_up(outer.index, true));
    must(container.rtnl->set_up(inner.index, true));
    const auto addresses = wait_for_addresses(*container.rtnl, inner.index);
    ASSERT_EQ(addresses.size(), 1U);
    EXPECT_EQ(addresses[0].prefix.to_string(), "fe80::fc:ff:fe00:2/64");
    EXPECT_TRUE(must(host.rtnl->list_addresses(outer.index)).empty());
}

TEST(Links, AutoconfigurationIsSwitchedOffLater) {
    const Place host;
    const Place container;
    auto spec = veth_between(host, container);
    spec.host.no_ipv6_autoconf = false;
    spec.container.no_ipv6_autoconf = false;
    must(host.rtnl->create_veth(spec));
    const Link outer = must_have(host.rtnl->find_link("xvhost"));
    const Link inner = must_have(container.rtnl->find_link("eth0"));
    must(host.rtnl->set_no_ipv6_autoconf(outer.index));
    must(host.rtnl->set_up(outer.index, true));
    must(container.rtnl->set_up(inner.index, true));
    EXPECT_EQ(wait_for_addresses(*container.rtnl, inner.index).size(), 1U);
    EXPECT_TRUE(must(host.rtnl->list_addresses(outer.index)).empty());
}

TEST(Links, APairThatCannotBeLeavesNothing) {
    const Place host;
    const Place container;
    const auto created = host.rtnl->create_veth(veth_between(host, container, 70000));
    ASSERT_FALSE(created);
    EXPECT_EQ(created.error().errno_value, EINVAL);
    EXPECT_EQ(created.error().code, 100);
    EXPECT_EQ(created.error().text, "create veth pair xvhost/eth0: Invalid argument");
    EXPECT_FALSE(must(host.rtnl->find_link("xvhost")).has_value());
}

TEST(Links, AnErrorCarriesErrnoAndTheKernelsOwnSentence) {
    const Pair pair;
    const auto set = pair.host.rtnl->set_mtu(pair.outer.index, 70000);
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().errno_value, EINVAL);
    EXPECT_EQ(set.error().code, 100);
    EXPECT_EQ(set.error().text, "set MTU 70000 of device " + std::to_string(static_cast<unsigned>(pair.outer.index)) +
                                    ": Invalid argument (kernel: mtu greater than device maximum)");
}

TEST(Links, ANameThatIsTakenAtEitherEndIsEexistAndLeavesNothing) {
    const Pair pair;
    auto spec = veth_between(pair.host, pair.container);
    spec.host.name = "other";
    const auto created = pair.host.rtnl->create_veth(spec);
    ASSERT_FALSE(created);
    EXPECT_EQ(created.error().errno_value, EEXIST);
    EXPECT_FALSE(must(pair.host.rtnl->find_link("other")).has_value());
}

TEST(Links, AreFoundByNameAndNumberAndAbsenceIsNoError) {
    const Pair pair;
    EXPECT_EQ(must_have(pair.host.rtnl->find_link(pair.outer.index)).name, "xvhost");
    EXPECT_FALSE(must(pair.host.rtnl->find_link("nobody")).has_value());
    EXPECT_FALSE(must(pair.host.rtnl->find_link("a-name-that-no-device-can-have")).has_value());
    EXPECT_FALSE(must(pair.host.rtnl->find_link(IfIndex{4711})).has_value());
    EXPECT_TRUE(must_have(pair.host.rtnl->find_link("lo")).loopback);
}

TEST(Links, AreChanged) {
    const Pair pair;
    Rtnl& rtnl = *pair.host.rtnl;
    must(rtnl.set_alias(pair.outer.index, "xveth net/container/eth0"));
    must(rtnl.set_mtu(pair.outer.index, 1400));
    must(rtnl.set_mac(pair.outer.index, *Mac::parse("02:fc:00:00:00:77")));
    Link link = must_have(rtnl.find_link("xvhost"));
    EXPECT_EQ(link.alias, "xveth net/container/eth0");
    EXPECT_EQ(link.mtu, 1400U);
    EXPECT_EQ(link.mac.to_string(), "02:fc:00:00:00:77");
    EXPECT_TRUE(link.up);
    must(rtnl.set_up(pair.outer.index, false));
    EXPECT_FALSE(must_have(rtnl.find_link("xvhost")).up);
    EXPECT_EQ(rtnl.set_alias(pair.outer.index, std::string(256, 'x')).error().errno_value, ERANGE);
}

TEST(Links, RemovalTakesBothEndsAndIsIdempotent) {
    const Pair pair;
    must(pair.host.rtnl->remove_link_if_present(pair.outer.index));
    EXPECT_FALSE(must(pair.host.rtnl->find_link("xvhost")).has_value());
    EXPECT_FALSE(must(pair.container.rtnl->find_link("eth0")).has_value());
    must(pair.host.rtnl->remove_link_if_present(pair.outer.index));
}

}  // namespace
}  // namespace xveth::netlink::test
