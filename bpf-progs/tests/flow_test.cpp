// SPDX-License-Identifier: Apache-2.0
// A flow is fast in both directions or in neither, and what falls to the stack stays there.
#include <chrono>
#include <functional>
#include <thread>

#include "bpf-progs/loader/map.hpp"
#include "bpf-progs/tests/test_node.hpp"

namespace xveth::bpf::testing {
namespace {

class Flow : public TestNode, public ::testing::WithParamInterface<Family> {
protected:
    [[nodiscard]] Packet wire() const { return wire_to_a(GetParam()); }
    [[nodiscard]] Packet reply() const { return a_to_wire(GetParam()); }
    void expect_reaches_a(const Packet& packet) {
        expect_redirected(from_wire(packet), packet.build(), a_.mac, a_.host_mac);
    }
    void expect_leaves(const Packet& packet) {
        expect_redirected(from_a(packet), packet.build(), remote_mac_, nic_.mac);
    }
    // How conntrack lists an entry whose first frame was this one.
    [[nodiscard]] static std::string conntrack_line(const Packet& packet) {
        return "src=" + packet.src.to_string() + " dst=" + packet.dst.to_string() +
               " sport=" + std::to_string(packet.sport) + " dport=" + std::to_string(packet.dport) + " ";
    }
    [[nodiscard]] std::string conntrack_entries() const {
        return output_of(std::string("conntrack -L -f ") + (GetParam() == Family::ipv4 ? "ipv4" : "ipv6") +
                         " 2>/dev/null");
    }
    [[nodiscard]] Packet tcp(Packet packet, std::uint8_t flags) const {
        packet.proto = proto_tcp;
        packet.tcp_flags = flags;
        return packet;
    }
    // An age in seconds for the flow's entry.
    void make_older(const Packet& packet, std::uint64_t seconds) {
        auto flow = flow_of(packet).value();
        flow.seen_ns -= seconds * 1'000'000'000U;
        store_flow(packet, flow);
    }
    void let_stack_flows_age(std::uint32_t seconds) {
        TypedMap<std::uint32_t, std::uint64_t> began(map_path("xv_stack_began"));
        for (std::uint32_t slot = 0; slot < XV_STACK_SLOTS; ++slot) {
            const auto value = began.find(slot).value().value();
            if (value != 0) began.put(slot, value - seconds).value();
        }
    }
    void wait_for_cache_to_expire() { std::this_thread::sleep_for(std::chrono::milliseconds(1100)); }
};

INSTANTIATE_TEST_SUITE_P(BothFamilies, Flow, ::testing::Values(Family::ipv4, Family::ipv6),
                         [](const auto& instance) { return instance.param == Family::ipv4 ? "IPv4" : "IPv6"; });

TEST_P(Flow, RemembersWhoStartedItAndWhetherItWasAnswered) {
    expect_reaches_a(wire());
    auto flow = flow_of(wire()).value();
    EXPECT_EQ(flow.verdict, XV_FLOW_FAST);
    EXPECT_EQ(flow.replied, 0);
    EXPECT_EQ(flow.lifetime_ns, 30'000'000'000U);
    expect_leaves(reply());
    flow = flow_of(reply()).value();
    EXPECT_EQ(flow.replied, 1);
    EXPECT_EQ(flow.lifetime_ns, 180'000'000'000U);
}

TEST_P(Flow, TcpLivesAsLongAsConntrackWouldKeepIt) {
    expect_reaches_a(tcp(wire(), tcp_syn));
    EXPECT_EQ(flow_of(tcp(wire(), 0))->lifetime_ns, 120'000'000'000U);
    expect_leaves(tcp(reply(), tcp_syn | tcp_ack));
    EXPECT_EQ(flow_of(tcp(wire(), 0))->lifetime_ns, 432'000'000'000'000U);
    expect_reaches_a(tcp(wire(), tcp_rst));
    EXPECT_EQ(flow_of(tcp(wire(), 0))->lifetime_ns, 120'000'000'000U);
}

TEST_P(Flow, AFirstFragmentTakesItToTheStackInItsOwnDirection) {
    expect_reaches_a(wire());
    expect_leaves(reply());
    auto fragment = reply();
    fragment.more_fragments = true;
    expect_passed(from_a(fragment), fragment.build(), a_, XV_PASS_FRAGMENT);
    EXPECT_EQ(flow_of(wire())->verdict, XV_FLOW_STACK);
    EXPECT_NE(conntrack_entries().find(conntrack_line(reply())), std::string::npos) << conntrack_entries();
    EXPECT_NE(conntrack_entries().find("[ASSURED]"), std::string::npos);
    EXPECT_EQ(conntrack_entries().find("[UNREPLIED]"), std::string::npos);
    // Both directions were cached as fast; both are the stack's at once.
    expect_passed(from_wire(wire()), wire().build(), nic_, XV_PASS_FLOW_STACK);
    expect_passed(from_a(reply()), reply().build(), a_, XV_PASS_FLOW_STACK);
}

TEST_P(Flow, FallsForWhateverOnlyTheStackCanCarry) {
    const std::vector<std::pair<xv_reason, std::function<void(Packet&)>>> obstacles{
        {XV_PASS_TTL, [](Packet& p) { p.ttl = 1; }},
        {XV_PASS_OPTIONS, [](Packet& p) { p.options = true; }},
        {XV_PASS_TOO_BIG, [](Packet& p) { p.payload = 1600; }},
        {XV_PASS_FRAGMENT, [](Packet& p) { p.more_fragments = true; }},
        {XV_PASS_FRAGMENT, [](Packet& p) { p.more_fragments = p.options = true; }},
    };
    std::uint16_t port = 3000;
    for (const auto& [reason, change] : obstacles) {
        auto packet = tcp(wire(), tcp_syn);
        packet.sport = ++port;
        expect_reaches_a(packet);
        packet.tcp_flags = tcp_ack;
        change(packet);
        expect_passed(from_wire(packet), packet.build(), nic_, reason);
        EXPECT_EQ(flow_of(packet)->verdict, XV_FLOW_STACK) << reason_name(reason);
        EXPECT_NE(conntrack_entries().find(conntrack_line(packet)), std::string::npos) << reason_name(reason);
    }
}

TEST_P(Flow, FallsWhenItsNeighbourIsGone) {
    expect_reaches_a(wire());
    run_command("ip neigh flush dev nic0 nud permanent; ip -6 neigh flush dev nic0 nud permanent");
    expect_passed(from_a(reply()), reply().build(), a_, XV_PASS_NEIGHBOUR);
    EXPECT_NE(conntrack_entries().find(conntrack_line(reply())), std::string::npos);
    expect_passed(from_wire(wire()), wire().build(), nic_, XV_PASS_FLOW_STACK);
}

TEST_P(Flow, DrainsWhenItsPolicyTightens) {
    expect_reaches_a(wire());
    change_port(a_, XV_PORT_FAST, 0);
    expect_passed(from_a(reply()), reply().build(), a_, XV_PASS_POLICY);
    EXPECT_NE(conntrack_entries().find(conntrack_line(reply())), std::string::npos);
}

TEST_P(Flow, FallsWhenItsTargetIsGoneEvenIfCached) {
    expect_reaches_a(wire());
    ASSERT_TRUE(objects_->remove_target_if_present(a_.id));
    expect_passed(from_wire(wire()), wire().build(), nic_, XV_PASS_NO_TARGET);
    EXPECT_EQ(flow_of(wire())->verdict, XV_FLOW_STACK);
    EXPECT_NE(conntrack_entries().find(conntrack_line(wire())), std::string::npos);
}

TEST_P(Flow, GivesWayToConntrack) {
    expect_reaches_a(wire());
    run_command("conntrack -I -p udp -t 60 -u ASSURED -s " + wire().src.to_string() + " -d " + wire().dst.to_string() +
                " --sport 1000 --dport 2000 2>/dev/null");
    wait_for_cache_to_expire();
    expect_passed(from_a(reply()), reply().build(), a_, XV_PASS_CONNTRACK);
    expect_passed(from_wire(wire()), wire().build(), nic_, XV_PASS_FLOW_STACK);
}

TEST_P(Flow, DiesWithTheAddressesOwner) {
    expect_reaches_a(tcp(wire(), tcp_syn));
    const auto entry = objects_->get_port(a_.id).value();
    ASSERT_TRUE(objects_->free_port(a_.id));
    a_.id = objects_->allocate_port(entry).value();
    ASSERT_TRUE(objects_->put_target(a_.id, a_.ifindex));
    ASSERT_TRUE(objects_->put_endpoint(wire().dst, a_.id));
    forget_cache();
    const auto data = tcp(wire(), tcp_ack);
    expect_passed(from_wire(data), data.build(), nic_, XV_PASS_MID_FLOW);
}

TEST_P(Flow, EndsAfterItsLifetime) {
    expect_reaches_a(wire());
    expect_leaves(reply());
    make_older(wire(), 181);
    forget_cache();
    expect_reaches_a(wire());  // begins anew, in the same place
    EXPECT_EQ(flow_of(wire())->replied, 0);
    make_older(wire(), 31);
    forget_cache();
    expect_passed(from_a(reply()), reply().build(), a_, XV_PASS_UNKNOWN_DST);
}

TEST_P(Flow, DatagramsThatTheStackBeganStayThereWithoutConntrackToo) {
    expect_passed(from_a(reply()), reply().build(), a_, XV_PASS_UNKNOWN_DST);
    expect_passed(from_wire(wire()), wire().build(), nic_, XV_PASS_FLOW_STACK);
    EXPECT_FALSE(flow_of(wire()));
    auto other = wire();
    other.sport++;
    expect_reaches_a(other);
    let_stack_flows_age(181);
    forget_cache();
    expect_reaches_a(wire());
    expect_leaves(reply());
}

TEST_P(Flow, DatagramsToANewOwnerOfTheAddressAreNotTheOldOnes) {
    expect_passed(from_a(reply()), reply().build(), a_, XV_PASS_UNKNOWN_DST);
    TypedMap<std::uint32_t, xv_port> ports(map_path("xv_port_info"));
    auto entry = objects_->get_port(a_.id).value();
    entry.epoch++;
    ASSERT_TRUE(ports.put(static_cast<std::uint32_t>(a_.id), entry));
    forget_cache();
    expect_reaches_a(wire());
}

TEST_P(Flow, IsAskedAnewWhenItsPortsAreUsedAgain) {
    expect_reaches_a(tcp(wire(), tcp_syn));
    expect_leaves(tcp(reply(), tcp_syn | tcp_ack));
    expect_reaches_a(tcp(wire(), tcp_syn));  // a repeated SYN changes nothing
    EXPECT_EQ(flow_of(tcp(wire(), 0))->replied, 1);
    expect_reaches_a(tcp(wire(), tcp_fin | tcp_ack));
    expect_reaches_a(tcp(wire(), tcp_syn));
    const auto flow = flow_of(tcp(wire(), 0)).value();
    EXPECT_EQ(flow.closing, 0);
    EXPECT_EQ(flow.replied, 0);
}

TEST_P(Flow, BeginningMakesCachedRefusalsStale) {
    const auto data = tcp(wire(), tcp_ack);
    expect_passed(from_wire(data), data.build(), nic_, XV_PASS_MID_FLOW);
    expect_passed(from_wire(data), data.build(), nic_, XV_PASS_CACHED);
    expect_reaches_a(tcp(wire(), tcp_syn));
    expect_reaches_a(data);
}

TEST_P(Flow, BeginsNowhereWhenTheTableIsFull) {
    auto live = tcp(wire(), tcp_syn);
    for (std::uint16_t i = 0; i < 8; ++i) {
        live.sport = static_cast<std::uint16_t>(4000 + i);
        expect_reaches_a(live);
    }
    // The hand goes round: the next eight places hold flows that live.
    TypedMap<std::uint32_t, xv_flow_key> ring(map_path("xv_flow_ring"));
    for (std::uint32_t i = 0; i < 8; ++i) {
        live.sport = static_cast<std::uint16_t>(4000 + i);
        auto flow = flow_of(live).value();
        EXPECT_EQ(flow.slot, i);
        ASSERT_TRUE(ring.put(8 + i, ring.find(i).value().value()));
        flow.slot = 8 + i;
        store_flow(live, flow);
    }
    const auto next = wire();
    expect_passed(from_wire(next), next.build(), nic_, XV_PASS_TABLE_FULL);
    EXPECT_FALSE(flow_of(next));
    for (std::uint16_t i = 0; i < 8; ++i) {
        live.sport = static_cast<std::uint16_t>(4000 + i);
        EXPECT_TRUE(flow_of(live)) << "a live flow was evicted";
    }
}

TEST_P(Flow, TakesThePlaceOfADeadOne) {
    auto dead = wire();
    dead.sport = 4000;
    expect_reaches_a(dead);
    make_older(dead, 31);
    TypedMap<std::uint32_t, xv_flow_key> ring(map_path("xv_flow_ring"));
    ASSERT_TRUE(ring.put(1, ring.find(0).value().value()));
    auto flow = flow_of(dead).value();
    flow.slot = 1;
    store_flow(dead, flow);
    expect_reaches_a(wire());
    EXPECT_EQ(flow_of(wire())->slot, 1U);
    EXPECT_FALSE(flow_of(dead));
}

TEST_P(Flow, ForwardingIsAskedAnewAfterASecond) {
    expect_reaches_a(wire());
    ASSERT_TRUE(objects_->remove_endpoint_if_of(wire().dst, a_.id));
    expect_reaches_a(wire());
    wait_for_cache_to_expire();
    expect_passed(from_wire(wire()), wire().build(), nic_, XV_PASS_UNKNOWN_DST);
}

TEST_P(Flow, ForwardingIsAskedAnewWithTheGeneration) {
    expect_reaches_a(wire());
    ASSERT_TRUE(objects_->remove_endpoint_if_of(wire().dst, a_.id));
    ASSERT_TRUE(objects_->bump_generation());
    expect_passed(from_wire(wire()), wire().build(), nic_, XV_PASS_UNKNOWN_DST);
}

TEST_P(Flow, MayLeaveTheNodeWhereFastPathToSays) {
    const auto out = reply();
    change_port(a_, 0, XV_PORT_FAST_TO);
    const auto prefix = GetParam() == Family::ipv4 ? "192.0.2.0/24" : "2001:db8::/64";
    ASSERT_TRUE(objects_->put_fast_to(a_.id, IpPrefix::parse(prefix).value()));
    expect_leaves(out);
    expect_reaches_a(wire());
    EXPECT_EQ(flow_of(out)->replied, 1);
    // Another container has no such permission.
    auto other = out;
    other.src = b_to_a(GetParam()).src;
    other.src_mac = b_.mac;
    other.dst_mac = b_.host_mac;
    expect_passed(from_b(other), other.build(), b_, XV_PASS_UNKNOWN_DST);
}

TEST_P(Flow, BetweenContainersNeedsBothToTakeFrames) {
    change_port(a_, XV_PORT_TARGET, 0);
    const auto there = a_to_b(GetParam());
    expect_passed(from_a(there), there.build(), a_, XV_PASS_NO_WAY_BACK);
}

// -- ICMP errors

class IcmpError : public Flow {
protected:
    [[nodiscard]] Packet error_about(const Packet& quoted, Packet carrier) const {
        const bool v4 = GetParam() == Family::ipv4;
        carrier.proto = v4 ? proto_icmp : proto_icmp6;
        carrier.icmp_type = v4 ? 3 : 1;
        auto quote = quoted.l3();
        quote.resize(v4 ? 28 : 48);
        carrier.icmp_quote = quote;
        return carrier;
    }
};

INSTANTIATE_TEST_SUITE_P(BothFamilies, IcmpError, ::testing::Values(Family::ipv4, Family::ipv6),
                         [](const auto& instance) { return instance.param == Family::ipv4 ? "IPv4" : "IPv6"; });

TEST_P(IcmpError, FollowsItsFlowToTheContainer) {
    expect_reaches_a(wire());
    expect_leaves(reply());
    auto router = wire();
    router.src = GetParam() == Family::ipv4 ? ip("198.51.100.1") : ip("2001:db8:5::1");
    const auto error = error_about(reply(), router);
    expect_reaches_a(error);
    EXPECT_EQ(flow_of(wire())->verdict, XV_FLOW_FAST);
}

TEST_P(IcmpError, FollowsItsFlowOutOfTheNode) {
    expect_reaches_a(wire());
    const auto error = error_about(wire(), reply());
    expect_leaves(error);
    EXPECT_EQ(flow_of(wire())->replied, 0) << "an error is no answer";
}

TEST_P(IcmpError, AboutAFlowOfTheStackIsTheStacks) {
    const auto error = error_about(reply(), wire());
    expect_passed(from_wire(error), error.build(), nic_, XV_PASS_PROTOCOL);
    EXPECT_FALSE(flow_of(wire()));
}

TEST_P(IcmpError, ThatGoesToAnotherThanTheSenderIsNotFollowed) {
    expect_reaches_a(wire());
    auto forged = error_about(reply(), wire());
    forged.dst = a_to_b(GetParam()).dst;
    expect_passed(from_wire(forged), forged.build(), nic_, XV_PASS_PROTOCOL);
}

TEST_P(IcmpError, EchoAndNeighbourDiscoveryPass) {
    expect_reaches_a(wire());
    auto message = error_about(reply(), wire());
    const auto types = GetParam() == Family::ipv4 ? std::vector<std::uint8_t>{0, 4, 5, 8, 13}
                                                  : std::vector<std::uint8_t>{0, 5, 128, 133, 134, 135, 136, 143};
    for (const auto type : types) {
        message.icmp_type = type;
        expect_passed(from_wire(message), message.build(), nic_, XV_PASS_PROTOCOL);
    }
}

}  // namespace
}  // namespace xveth::bpf::testing
