// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of devices, in namespaces of the test's own.
#include "netlink/link_monitor.hpp"

#include <poll.h>

#include <algorithm>

#include "netlink/tests/world.hpp"

namespace xveth::netlink::test {
namespace {

// Takes what comes until `enough` holds; the kernel tells within the system call that changes a device, or soon after.
template <class Enough>
LinkNotices listen_until(LinkMonitor& monitor, Enough enough) {
    LinkNotices all;
    pollfd ready{.fd = monitor.fd(), .events = POLLIN, .revents = 0};
    while (!enough(all) && ::poll(&ready, 1, 5000) > 0) {
        auto some = must(monitor.take());
        std::ranges::move(some.list, std::back_inserter(all.list));
        all.missed |= some.missed;
    }
    return all;
}

bool holds(const LinkNotices& notices, const std::string& name, auto wanted) {
    return std::ranges::any_of(notices.list,
                               [&](const LinkNotice& each) { return each.link.name == name && wanted(each); });
}

TEST(LinkMonitor, TellsWhatChangesAndWhatEnds) {
    const Pair pair;
    auto monitor = must(open_link_monitor(pair.host.ns));
    must(pair.host.rtnl->set_mtu(pair.outer.index, 1400));
    const auto smaller = [](const LinkNotice& each) { return !each.gone && each.link.mtu == 1400; };
    const auto changed = listen_until(*monitor, [&](const auto& seen) { return holds(seen, "xvhost", smaller); });
    EXPECT_TRUE(holds(changed, "xvhost", smaller));
    EXPECT_FALSE(changed.missed);

    must(pair.host.rtnl->remove_link_if_present(pair.outer.index));
    const auto gone = [](const LinkNotice& each) { return each.gone; };
    const auto ended = listen_until(*monitor, [&](const auto& seen) { return holds(seen, "xvhost", gone); });
    EXPECT_TRUE(holds(ended, "xvhost", gone));
}

// The host's end may still be heard of: the kernel notices its carrier in the background.
TEST(LinkMonitor, HearsNothingOfOtherNamespaces) {
    const Pair pair;
    auto monitor = must(open_link_monitor(pair.host.ns));
    must(pair.container.rtnl->set_mtu(pair.inner.index, 1400));
    must(pair.host.rtnl->set_mtu(pair.outer.index, 1300));
    const auto last = [](const LinkNotice& each) { return each.link.mtu == 1300; };
    const auto heard = listen_until(*monitor, [&](const auto& seen) { return holds(seen, "xvhost", last); });
    EXPECT_TRUE(holds(heard, "xvhost", last));
    for (const auto& each : heard.list) {
        EXPECT_EQ(each.link.name, "xvhost");
        EXPECT_NE(each.link.mtu, 1400U);
    }
}

TEST(LinkMonitor, SaysThatSomeWasMissed) {
    const Pair pair;
    auto monitor = must(open_link_monitor(pair.host.ns));
    for (std::uint32_t round = 0; round < 2000; ++round)
        must(pair.host.rtnl->set_mtu(pair.outer.index, 1300 + round % 2));
    EXPECT_TRUE(must(monitor->take()).missed);
    EXPECT_FALSE(must(monitor->take()).missed);
    must(pair.host.rtnl->set_mtu(pair.outer.index, 1400));
    EXPECT_FALSE(listen_until(*monitor, [](const auto& seen) { return !seen.list.empty(); }).list.empty());
}

}  // namespace
}  // namespace xveth::netlink::test
