// SPDX-License-Identifier: Apache-2.0
// Frames for a protected container: A is protected, B is a function.
#include <algorithm>

#include "bpf-progs/tests/test_node.hpp"

namespace xveth::bpf::testing {
namespace {

class Chain : public TestNode, public ::testing::WithParamInterface<Family> {
protected:
    void SetUp() override {
        TestNode::SetUp();
        if (HasFatalFailure()) return;
        id_ = objects_->allocate_chain("edge").value();
        make_member(a_, 0, XV_PORT_PROTECTED);
        make_member(b_, 10, 0);
        put(XV_SLOT_LIVE, XV_ON_FAILURE_DROP);
    }
    void make_member(const TestPort& port, std::uint16_t position, std::uint32_t flags) {
        auto entry = objects_->get_port(port.id).value();
        entry.chain = static_cast<std::uint16_t>(id_);
        entry.position = position;
        entry.flags |= flags;
        ASSERT_TRUE(objects_->update_port(port.id, entry));
    }
    [[nodiscard]] xv_chain_slot slot(xv_slot_state state, xv_on_failure on_failure) const {
        return {.port = static_cast<std::uint32_t>(b_.id),
                .position = 10,
                .state = static_cast<std::uint8_t>(state),
                .on_failure = static_cast<std::uint8_t>(on_failure)};
    }
    void put(xv_slot_state state, xv_on_failure on_failure) {
        ASSERT_TRUE(objects_->put_chain_slot(id_, 0, slot(state, on_failure)));
    }
    void put_at(std::uint32_t index, std::uint16_t position) {
        auto there = slot(XV_SLOT_GONE, XV_ON_FAILURE_BYPASS);
        there.position = position;
        ASSERT_TRUE(objects_->put_chain_slot(id_, index, there));
    }
    // The frame as the function sends it on.
    Outcome from_function(const Packet& packet) { return run(Program::function, b_.ifindex, packet.build()); }

    ChainId id_ = ChainId::none;
};

INSTANTIATE_TEST_SUITE_P(BothFamilies, Chain, ::testing::Values(Family::ipv4, Family::ipv6),
                         [](const auto& instance) { return instance.param == Family::ipv4 ? "IPv4" : "IPv6"; });

TEST_P(Chain, AFrameGoesToTheFunctionAndFromThereToTheContainer) {
    const auto packet = wire_to_a(GetParam());
    for (int round = 0; round < 2; ++round)  // the second one by the cache
        expect_redirected(from_wire(packet), packet.build(), b_.mac, b_.host_mac);
    const auto onward = from_function(packet);
    EXPECT_EQ(onward.action, xdp_redirect);
    auto expected = packet.build();
    std::ranges::copy(a_.mac.bytes, expected.begin());
    std::ranges::copy(a_.host_mac.bytes, expected.begin() + 6);
    EXPECT_EQ(onward.frame, expected) << "the hop limit has been counted down already";
    const auto hop = objects_->hop_stats(id_, 0).value();
    EXPECT_EQ(hop.in, 2U);
    EXPECT_EQ(hop.out, 1U);
    EXPECT_EQ(hop.dropped, 0U);
}

TEST_P(Chain, AFunctionThatIsGoneClosesTheChainOrIsPassedBy) {
    const auto packet = wire_to_a(GetParam());
    put(XV_SLOT_GONE, XV_ON_FAILURE_DROP);
    EXPECT_EQ(from_wire(packet).action, xdp_drop);
    expect_counted(nic_, XV_DROP_CHAIN_GONE);
    put(XV_SLOT_GONE, XV_ON_FAILURE_BYPASS);
    expect_redirected(from_wire(packet), packet.build(), a_.mac, a_.host_mac);
}

TEST_P(Chain, AFunctionWhoseDeviceDiedIsGone) {
    ASSERT_TRUE(objects_->remove_target_if_present(b_.id));
    forget_cache();
    EXPECT_EQ(from_wire(wire_to_a(GetParam())).action, xdp_drop);
    expect_counted(nic_, XV_DROP_CHAIN_GONE);
}

TEST_P(Chain, AChainWithoutFunctionsIsClosed) {
    ASSERT_TRUE(objects_->put_chain_slot(id_, 0, {}));
    EXPECT_EQ(from_wire(wire_to_a(GetParam())).action, xdp_drop);
    expect_counted(nic_, XV_DROP_CHAIN_EMPTY);
}

TEST_P(Chain, AFunctionsOwnFlowBeginsAsAnyContainersAndBehindItsOwnPlace) {
    const auto packet = b_to_a(GetParam());
    expect_redirected(from_function(packet), packet.build(), a_.mac, a_.host_mac);
    EXPECT_TRUE(flow_of(packet)) << "so that the answer is of a known flow";
    const auto answer = a_to_b(GetParam());
    expect_redirected(from_a(answer), answer.build(), b_.mac, b_.host_mac);
    EXPECT_EQ(objects_->hop_stats(id_, 0).value().in, 0U) << "it does not get its own frames back";
}

TEST_P(Chain, OnlySlotsInUseAreLookedAt) {
    const auto used = [&] { return objects_->list_chains().value().front().second.used; };
    EXPECT_EQ(used(), 1U);
    put_at(15, 20);
    EXPECT_EQ(used(), 16U);
    ASSERT_TRUE(objects_->put_chain_slot(id_, 0, {}));
    EXPECT_EQ(used(), 16U);
    ASSERT_TRUE(objects_->put_chain_slot(id_, 15, {}));
    EXPECT_EQ(used(), 0U);
    const auto beyond = objects_->put_chain_slot(id_, XV_CHAIN_SLOTS, {});
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().text, "no chain slot 16");
}

TEST_P(Chain, ASlotIsInForceAtOnce) {
    const auto packet = wire_to_a(GetParam());
    expect_redirected(from_wire(packet), packet.build(), b_.mac, b_.host_mac);
    ASSERT_TRUE(objects_->put_chain_slot(id_, 0, slot(XV_SLOT_GONE, XV_ON_FAILURE_DROP)));
    EXPECT_EQ(from_wire(packet).action, xdp_drop) << "what was cached is asked anew";
}

TEST_P(Chain, AFunctionSpeaksForOthersOnlyTowardsWhatItsChainProtects) {
    make_member(a_, 0, 0);
    change_port(a_, XV_PORT_PROTECTED, 0);
    const auto forged = from_function(wire_to_a(GetParam()));
    EXPECT_EQ(forged.action, xdp_drop);
    expect_counted(b_, XV_DROP_SPOOFED);
}

}  // namespace
}  // namespace xveth::bpf::testing
