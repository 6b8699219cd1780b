// SPDX-License-Identifier: Apache-2.0
// Who a container may claim to be, and the MAC that it is found under.
#include <functional>

#include "bpf-progs/tests/test_node.hpp"

namespace xveth::bpf::testing {
namespace {

class Source : public TestNode, public ::testing::WithParamInterface<Family> {
protected:
    [[nodiscard]] Packet spoofed() const {
        auto packet = a_to_b(GetParam());
        packet.src = GetParam() == Family::ipv4 ? ip("10.1.0.66") : ip("fd01::66");
        return packet;
    }
    void expect_dropped(const Packet& packet) {
        EXPECT_EQ(from_a(packet).action, xdp_drop);
        expect_counted(a_, XV_DROP_SPOOFED);
    }
};

INSTANTIATE_TEST_SUITE_P(BothFamilies, Source, ::testing::Values(Family::ipv4, Family::ipv6),
                         [](const auto& instance) { return instance.param == Family::ipv4 ? "IPv4" : "IPv6"; });

TEST_P(Source, ThatIsNotTheContainersIsDropped) { expect_dropped(spoofed()); }

TEST_P(Source, OfAnotherContainerIsDropped) {
    auto packet = spoofed();
    packet.src = a_to_b(GetParam()).dst;
    packet.dst = a_to_b(GetParam()).src;
    expect_dropped(packet);
}

TEST_P(Source, IsCheckedInEveryIpFrame) {
    for (const auto& change : std::vector<std::function<void(Packet&)>>{
             [](Packet& p) { p.more_fragments = true; },
             [](Packet& p) { p.fragment_offset = 800; },
             [](Packet& p) { p.options = true; },
             [](Packet& p) { p.ttl = 1; },
             [](Packet& p) { p.proto = 132; },
             [](Packet& p) { p.bad_checksum = true; },
             [](Packet& p) { p.proto = p.src.family == Family::ipv4 ? proto_icmp : proto_icmp6; },
             [](Packet& p) { p.dst_mac = mac("ff:ff:ff:ff:ff:ff"); },
         }) {
        auto packet = spoofed();
        change(packet);
        expect_dropped(packet);
    }
}

TEST_P(Source, IsCheckedAlthoughTheFlowIsCached) {
    EXPECT_EQ(from_a(a_to_b(GetParam())).action, xdp_redirect);
    EXPECT_EQ(from_a(a_to_b(GetParam())).action, xdp_redirect);
    // The same frame from the other container.
    EXPECT_EQ(run(Program::host, b_.ifindex, a_to_b(GetParam()).build()).action, xdp_drop);
    EXPECT_EQ(reason_count(b_, XV_DROP_SPOOFED), 1U);
}

TEST_P(Source, IsFreeWhereTheCheckIsOff) {
    change_port(a_, XV_PORT_SPOOFCHECK, 0);
    expect_passed(from_a(spoofed()), spoofed().build(), a_, XV_PASS_NO_WAY_BACK);
}

TEST_P(Source, MayBeOneOfTheAllowedPrefixes) {
    const auto prefix = GetParam() == Family::ipv4 ? "10.1.0.64/28" : "fd01::60/124";
    ASSERT_TRUE(objects_->put_source(a_.id, IpPrefix::parse(prefix).value()));
    expect_dropped(spoofed());  // the port's flag says whether there are any
    change_port(a_, 0, XV_PORT_EXTRA_SOURCES);
    expect_passed(from_a(spoofed()), spoofed().build(), a_, XV_PASS_NO_WAY_BACK);
    auto outside = spoofed();
    outside.src = GetParam() == Family::ipv4 ? ip("10.1.0.80") : ip("fd01::70");
    expect_dropped(outside);
    // What is allowed for one port is not for another.
    change_port(b_, 0, XV_PORT_EXTRA_SOURCES);
    auto other = spoofed();
    other.dst_mac = b_.host_mac;
    EXPECT_EQ(from_b(other).action, xdp_drop);
}

TEST_P(Source, TheContainersMacIsLearntFromItsFrames) {
    const auto there = b_to_a(GetParam());
    EXPECT_EQ(from_b(there).action, xdp_redirect);
    auto changed = a_to_b(GetParam());
    changed.src_mac = mac("02:00:00:00:01:77");
    expect_redirected(from_a(changed), changed.build(), b_.mac, b_.host_mac);
    expect_redirected(from_b(there), there.build(), changed.src_mac, a_.host_mac);
    // At most about once a second: each change makes the whole node ask anew.
    auto again = changed;
    again.src_mac = mac("02:00:00:00:01:78");
    EXPECT_EQ(from_a(again).action, xdp_redirect);
    expect_redirected(from_b(there), there.build(), changed.src_mac, a_.host_mac);
}

// "I am <sender>": a gratuitous ARP request.
Bytes announcement(const Mac& from, const IpAddress& sender) {
    Bytes frame(6, 0xff);
    const auto append = [&](const auto& bytes, std::size_t count) {
        frame.insert(frame.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    };
    append(from.bytes, 6);
    append(std::array<std::uint8_t, 10>{0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1}, 10);
    append(from.bytes, 6);
    append(sender.bytes, 4);
    append(Mac{}.bytes, 6);
    append(sender.bytes, 4);
    return frame;
}

TEST_F(TestNode, AMacIsLearntFromArpOfTheContainersOwnAddress) {
    const auto there = b_to_a(Family::ipv4);
    const Mac changed = mac("02:00:00:00:01:77");
    run(Program::host, a_.ifindex, announcement(changed, there.src));
    expect_redirected(from_b(there), there.build(), a_.mac, a_.host_mac);
    EXPECT_EQ(run(Program::host, a_.ifindex, announcement(changed, there.dst)).action, xdp_pass);
    expect_redirected(from_b(there), there.build(), changed, a_.host_mac);
}

TEST_P(Source, NoMacIsLearntFromOthersFrames) {
    auto multicast = a_to_b(GetParam());
    multicast.src_mac = mac("03:00:00:00:01:77");
    from_a(multicast);
    auto foreign = spoofed();
    foreign.src_mac = mac("02:00:00:00:01:77");
    from_a(foreign);
    const auto there = b_to_a(GetParam());
    expect_redirected(from_b(there), there.build(), a_.mac, a_.host_mac);
}

}  // namespace
}  // namespace xveth::bpf::testing
