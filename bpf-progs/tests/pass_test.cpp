// SPDX-License-Identifier: Apache-2.0
// Frames that are the stack's: passed as they came, and counted under what was the matter. One test a reason at least.
#include <array>
#include <functional>
#include <numeric>

#include "bpf-progs/loader/map.hpp"
#include "bpf-progs/loader/reasons.hpp"
#include "bpf-progs/tests/test_node.hpp"

namespace xveth::bpf::testing {
namespace {

class Pass : public TestNode, public ::testing::WithParamInterface<Family> {
protected:
    // Both programs have to pass the frame.
    void expect_both_pass(const std::function<void(Packet&)>& change, xv_reason reason) {
        auto inbound = wire_to_a(GetParam());
        change(inbound);
        expect_passed(from_wire(inbound), inbound.build(), nic_, reason);
        auto local = a_to_b(GetParam());
        change(local);
        expect_passed(from_a(local), local.build(), a_, reason);
    }
};

INSTANTIATE_TEST_SUITE_P(BothFamilies, Pass, ::testing::Values(Family::ipv4, Family::ipv6),
                         [](const auto& instance) { return instance.param == Family::ipv4 ? "IPv4" : "IPv6"; });

TEST_P(Pass, ArpAndUnknownEtherTypes) {
    Bytes arp = wire_to_a().build();
    arp[12] = 0x08;
    arp[13] = 0x06;
    expect_passed(run(Program::nic, nic_.ifindex, arp), arp, nic_, XV_PASS_NOT_IP);
    expect_passed(run(Program::host, a_.ifindex, arp), arp, a_, XV_PASS_NOT_IP);
}

TEST_P(Pass, TaggedFrames) {
    expect_both_pass([](Packet& p) { p.vlan = 100; }, XV_PASS_VLAN);
    auto stacked = wire_to_a(GetParam());
    stacked.vlan = 100;
    auto bytes = stacked.build();
    bytes[12] = 0x88;
    bytes[13] = 0xa8;
    expect_passed(run(Program::nic, nic_.ifindex, bytes), bytes, nic_, XV_PASS_VLAN);
}

TEST_P(Pass, FramesForAnotherMac) {
    for (const char* other : {"ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "02:00:00:00:77:77"})
        expect_both_pass([&](Packet& p) { p.dst_mac = mac(other); }, XV_PASS_OTHER_MAC);
}

TEST_P(Pass, PacketsLongerThanTheirFrame) {
    auto bytes = wire_to_a(GetParam()).build();
    bytes.pop_back();
    expect_passed(run(Program::nic, nic_.ifindex, bytes), bytes, nic_, XV_PASS_MALFORMED);
}

TEST_P(Pass, FramesCutOffAnywhere) {
    const auto whole = wire_to_a(GetParam()).build();
    for (std::size_t size = 14; size < whole.size(); ++size) {
        const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        expect_passed(run(Program::nic, nic_.ifindex, cut), cut, nic_, XV_PASS_MALFORMED);
    }
}

TEST_P(Pass, TcpHeadersThatDoNotFit) {
    auto packet = wire_to_a(GetParam());
    packet.proto = proto_tcp;
    packet.short_l4 = true;
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_MALFORMED);
}

TEST_F(TestNode, AWrongHeaderChecksumIsTheStacksToJudge) {
    auto packet = wire_to_a();
    packet.bad_checksum = true;
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_MALFORMED);
}

TEST_P(Pass, OptionsAndExtensionHeaders) {
    expect_both_pass([](Packet& p) { p.options = true; }, XV_PASS_OPTIONS);
}

TEST_P(Pass, FirstFragments) {
    expect_both_pass([](Packet& p) { p.more_fragments = true; }, XV_PASS_FRAGMENT);
}

TEST_P(Pass, LaterFragments) {
    expect_both_pass([](Packet& p) { p.fragment_offset = 1480; }, XV_PASS_FRAGMENT);
}

TEST_P(Pass, TheLastHop) {
    for (const auto ttl : {std::uint8_t{0}, std::uint8_t{1}})
        expect_both_pass([&](Packet& p) { p.ttl = ttl; }, XV_PASS_TTL);
}

TEST_P(Pass, ProtocolsWithoutPorts) {
    const bool v4 = GetParam() == Family::ipv4;
    expect_both_pass(
        [&](Packet& p) {
            p.proto = v4 ? proto_icmp : proto_icmp6;
            p.icmp_type = v4 ? 8 : 128;
        },
        XV_PASS_PROTOCOL);
    expect_both_pass([](Packet& p) { p.proto = 132; }, XV_PASS_PROTOCOL);  // SCTP
}

TEST_P(Pass, DestinationsThatAreNotContainers) {
    const auto nowhere = GetParam() == Family::ipv4 ? ip("10.1.0.77") : ip("fd01::77");
    expect_both_pass([&](Packet& p) { p.dst = nowhere; }, XV_PASS_UNKNOWN_DST);
    const auto out = a_to_wire(GetParam());  // a container's own flow to beyond the node may want translation
    expect_passed(from_a(out), out.build(), a_, XV_PASS_UNKNOWN_DST);
}

TEST_P(Pass, PacketsLargerThanTheTarget) {
    set_mtu(a_, 1000);
    auto packet = wire_to_a(GetParam());
    packet.payload = 1000 - (GetParam() == Family::ipv4 ? 28 : 48);
    expect_redirected(from_wire(packet), packet.build(), a_.mac, a_.host_mac);
    packet.dport = 2001;
    ++packet.payload;
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_TOO_BIG);
}

TEST_P(Pass, PortsThatMayNotBypassTheStack) {
    change_port(a_, XV_PORT_FAST, 0);
    const auto inbound = wire_to_a(GetParam());
    expect_passed(from_wire(inbound), inbound.build(), nic_, XV_PASS_POLICY);
    const auto out = a_to_b(GetParam());
    expect_passed(from_a(out), out.build(), a_, XV_PASS_POLICY);
    change_port(a_, 0, XV_PORT_FAST);
    change_port(nic_, XV_PORT_FAST, 0);
    auto other = inbound;
    other.sport = 1001;
    expect_passed(from_wire(other), other.build(), nic_, XV_PASS_POLICY);
}

TEST_P(Pass, TargetsThatCannotTakeFrames) {
    change_port(a_, XV_PORT_TARGET, 0);
    const auto inbound = wire_to_a(GetParam());
    expect_passed(from_wire(inbound), inbound.build(), nic_, XV_PASS_NO_TARGET);
}

TEST_P(Pass, TargetsThatAreNotInTheMap) {
    ASSERT_TRUE(objects_->remove_target_if_present(a_.id));
    const auto inbound = wire_to_a(GetParam());
    expect_passed(from_wire(inbound), inbound.build(), nic_, XV_PASS_NO_TARGET);
    expect_passed(from_wire(inbound), inbound.build(), nic_, XV_PASS_FLOW_STACK);
}

TEST_P(Pass, TcpThatDidNotBeginHere) {
    expect_both_pass(
        [](Packet& p) {
            p.proto = proto_tcp;
            p.tcp_flags = tcp_ack;
        },
        XV_PASS_MID_FLOW);
    expect_both_pass(
        [](Packet& p) {
            p.proto = proto_tcp;
            p.tcp_flags = tcp_syn | tcp_ack;
        },
        XV_PASS_MID_FLOW);
    expect_both_pass(
        [](Packet& p) {
            p.proto = proto_tcp;
            p.tcp_flags = tcp_rst;
        },
        XV_PASS_MID_FLOW);
}

TEST_P(Pass, FlowsWhoseRepliesFindNoNeighbour) {
    auto packet = wire_to_a(GetParam());
    packet.src = GetParam() == Family::ipv4 ? ip("192.0.2.10") : ip("2001:db8::10");
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_NO_WAY_BACK);
}

TEST_P(Pass, FlowsWhoseRepliesFindNoRoute) {
    auto packet = wire_to_a(GetParam());
    packet.src = GetParam() == Family::ipv4 ? ip("203.0.113.1") : ip("2001:db8:9::1");
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_NO_WAY_BACK);
}

TEST_P(Pass, FlowsWhoseNextHopIsNotConfirmedByTheirOwnFrames) {
    auto packet = wire_to_a(GetParam());
    packet.src_mac = mac("02:00:00:00:03:0a");
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_NO_WAY_BACK);
    // With the agent, next hops are kept resolved.
    TypedMap<std::uint32_t, xv_node> nodes(map_path("xv_node"));
    auto node = nodes.find(0).value().value();
    node.flags |= XV_NODE_AGENT;
    ASSERT_TRUE(nodes.put(0, node));
    forget_cache();
    packet.sport = 1001;
    expect_redirected(from_wire(packet), packet.build(), a_.mac, a_.host_mac);
}

TEST_P(Pass, WireFramesThatClaimToComeFromAContainer) {
    auto packet = wire_to_a(GetParam());
    packet.src = a_to_b(GetParam()).dst;
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_NO_WAY_BACK);
}

TEST_P(Pass, FlowsThatConntrackKnows) {
    run_command("conntrack -I -p udp -t 60 -u ASSURED -s " + wire_to_a(GetParam()).src.to_string() + " -d " +
                wire_to_a(GetParam()).dst.to_string() + " --sport 1000 --dport 2000 2>/dev/null");
    const auto there = wire_to_a(GetParam());
    expect_passed(from_wire(there), there.build(), nic_, XV_PASS_CONNTRACK);
}

TEST_P(Pass, VerdictsAreRememberedAndCountedAsSuch) {
    auto packet = wire_to_a(GetParam());
    packet.proto = proto_tcp;
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_MID_FLOW);
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_CACHED);
    forget_cache();
    expect_passed(from_wire(packet), packet.build(), nic_, XV_PASS_MID_FLOW);
}

TEST_P(Pass, DevicesThatAreNoPort) {
    ASSERT_TRUE(objects_->free_port(nic_.id));
    forget_cache();
    const auto inbound = wire_to_a(GetParam());
    EXPECT_EQ(from_wire(inbound).action, xdp_pass);
    TypedMap<xv_reason_key, std::array<std::uint64_t, 1024>> reasons(map_path("xv_reasons"));
    const auto counted = reasons.find({.port = 0, .reason = XV_PASS_UNKNOWN_PORT}).value();
    ASSERT_TRUE(counted);
    EXPECT_EQ(std::accumulate(counted->begin(), counted->end(), std::uint64_t{0}), 1U);
}

TEST_P(Pass, LinkLocalAndUnspecifiedSources) {
    const bool v4 = GetParam() == Family::ipv4;
    for (const char* source : {v4 ? "169.254.1.1" : "fe80::1", v4 ? "0.0.0.0" : "::"}) {
        auto packet = a_to_b(GetParam());
        packet.src = ip(source);
        expect_passed(from_a(packet), packet.build(), a_, XV_PASS_LINK_LOCAL);
    }
}

TEST_P(Pass, FramesOfTheContainersOwnProgramAreCountedWithoutAPort) {
    const auto frame = a_to_b(GetParam()).build();
    const auto outcome = run(Program::pod, a_.ifindex, frame);
    EXPECT_EQ(outcome.action, xdp_pass);
    EXPECT_EQ(outcome.frame, frame);
}

class WithoutConntrack : public TestNode {
    [[nodiscard]] bool with_conntrack() const override { return false; }
};

TEST_F(WithoutConntrack, OnlyTcpBetweenContainersIsFast) {
    EXPECT_FALSE(objects_->has_conntrack());
    auto syn = a_to_b();
    syn.proto = proto_tcp;
    syn.tcp_flags = tcp_syn;
    expect_redirected(from_a(syn), syn.build(), b_.mac, b_.host_mac);
    const auto datagram = a_to_b();
    expect_passed(from_a(datagram), datagram.build(), a_, XV_PASS_NO_CONNTRACK);
    syn = wire_to_a();
    syn.proto = proto_tcp;
    syn.tcp_flags = tcp_syn;
    expect_passed(from_wire(syn), syn.build(), nic_, XV_PASS_NO_CONNTRACK);
}

// What the kernel could not deliver: the program has long answered XDP_REDIRECT, and the frame is lost.
class RedirectError : public TestNode {
protected:
    void SetUp() override {
        TestNode::SetUp();
        auto node = TypedMap<std::uint32_t, xv_node>(map_path("xv_node")).find(0).value().value();
        ASSERT_NE(node.flags & XV_NODE_TRACE, 0U) << "no tracing here";
    }
    void arm_b() { run_command("nsenter --net=/run/netns/b ethtool -K eth0 gro on"); }
    // The NAPI that runs the program may run a moment later.
    static void await(const std::function<bool()>& seen) {
        for (int wait = 0; wait < 100 && !seen(); ++wait) run_command("sleep 0.02");
    }
    void expect_error(xv_reason reason) {
        await([&] { return reason_count(b_, reason) > 0; });
        EXPECT_EQ(reason_count(b_, reason), 1U);
    }
};

TEST_F(RedirectError, NobodyBehindTheHostEndTakesFrames) {
    send_from_a(a_to_b());
    expect_error(XV_ERR_NO_XMIT);
}

TEST_F(RedirectError, TheTargetIsDown) {
    arm_b();
    run_command("ip link set b0 down");
    send_from_a(a_to_b());
    expect_error(XV_ERR_DOWN);
}

TEST_F(RedirectError, TheFrameIsLargerThanTheDevice) {
    arm_b();
    run_command("ip link set a0 mtu 9000 && nsenter --net=/run/netns/a ip link set eth0 mtu 9000");
    set_mtu(b_, 9000);
    auto packet = a_to_b();
    packet.payload = 2000;
    send_from_a(packet);
    expect_error(XV_ERR_TOO_BIG);
}

TEST_F(RedirectError, AnArmedContainerGetsTheFrame) {
    arm_b();
    send_from_a(a_to_b());
    const std::string received =
        "nsenter --net=/run/netns/b awk '/^Ip: [0-9]/ {print $4}' /proc/net/snmp";  // InReceives
    const std::string expected = "1\n";
    await([&] { return output_of(received) == expected; });
    EXPECT_EQ(output_of(received), expected);
    const auto stats = objects_->stats(b_.id).value();
    EXPECT_EQ(stats.to_port.frames, 1U);
    EXPECT_TRUE(stats.reasons.empty());
}

TEST(Reasons, EveryReasonHasAName) {
    for (std::uint32_t reason = XV_PASS_NOT_IP; reason <= XV_PASS_FLOOD; ++reason)
        EXPECT_EQ(reason_name(reason).substr(0, 5), "pass_") << reason;
    for (std::uint32_t reason = XV_DROP_SPOOFED; reason <= XV_DROP_VLAN; ++reason)
        EXPECT_EQ(reason_name(reason).substr(0, 5), "drop_") << reason;
    for (std::uint32_t reason = XV_ERR_NO_XMIT; reason < XV_REASON_MAX; ++reason)
        EXPECT_EQ(reason_name(reason).substr(0, 6), "error_") << reason;
    EXPECT_EQ(reason_name(60), "reason_60");
}

}  // namespace
}  // namespace xveth::bpf::testing
