// SPDX-License-Identifier: Apache-2.0
// Frames that the fast path carries: where they go, and what is written into them.
#include "bpf-progs/tests/test_node.hpp"

namespace xveth::bpf::testing {
namespace {

class Forward : public TestNode, public ::testing::WithParamInterface<Family> {};

INSTANTIATE_TEST_SUITE_P(BothFamilies, Forward, ::testing::Values(Family::ipv4, Family::ipv6),
                         [](const auto& instance) { return instance.param == Family::ipv4 ? "IPv4" : "IPv6"; });

TEST_P(Forward, ANewFlowFromTheWireIsRedirectedToItsContainer) {
    const auto sent = wire_to_a(GetParam()).build();
    expect_redirected(from_wire(wire_to_a(GetParam())), sent, a_.mac, a_.host_mac);
    expect_redirected(from_wire(wire_to_a(GetParam())), sent, a_.mac, a_.host_mac);
    const auto to_a = objects_->stats(a_.id).value();
    EXPECT_EQ(to_a.to_port.frames, 2U);
    EXPECT_EQ(to_a.to_port.bytes, 2 * sent.size());
    EXPECT_EQ(to_a.from_port.frames, 0U);
    const auto from_nic = objects_->stats(nic_.id).value();
    EXPECT_EQ(from_nic.from_port.frames, 2U);
    EXPECT_TRUE(from_nic.reasons.empty());
}

TEST_P(Forward, TheReplyLeavesByTheNic) {
    from_wire(wire_to_a(GetParam()));
    const auto reply = a_to_wire(GetParam());
    expect_redirected(from_a(reply), reply.build(), remote_mac_, nic_.mac);
    expect_redirected(from_a(reply), reply.build(), remote_mac_, nic_.mac);
    EXPECT_EQ(objects_->stats(nic_.id).value().to_port.frames, 2U);
    EXPECT_EQ(objects_->stats(a_.id).value().from_port.frames, 2U);
}

TEST_P(Forward, ContainersOfTheNodeReachEachOther) {
    const auto there = a_to_b(GetParam());
    expect_redirected(from_a(there), there.build(), b_.mac, b_.host_mac);
    const auto back = b_to_a(GetParam());
    expect_redirected(from_b(back), back.build(), a_.mac, a_.host_mac);
    expect_redirected(from_b(back), back.build(), a_.mac, a_.host_mac);
}

TEST_P(Forward, ATcpConnectionIsFastFromItsFirstFrame) {
    auto syn = wire_to_a(GetParam());
    syn.proto = proto_tcp;
    syn.tcp_flags = tcp_syn;
    expect_redirected(from_wire(syn), syn.build(), a_.mac, a_.host_mac);
    auto answer = a_to_wire(GetParam());
    answer.proto = proto_tcp;
    answer.tcp_flags = tcp_syn | tcp_ack;
    expect_redirected(from_a(answer), answer.build(), remote_mac_, nic_.mac);
    auto data = syn;
    data.tcp_flags = tcp_ack;
    expect_redirected(from_wire(data), data.build(), a_.mac, a_.host_mac);
    data.tcp_flags = tcp_ack | tcp_fin;
    expect_redirected(from_wire(data), data.build(), a_.mac, a_.host_mac);
    EXPECT_EQ(flow_of(syn)->closing, 1);
}

}  // namespace
}  // namespace xveth::bpf::testing
