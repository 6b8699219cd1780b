// SPDX-License-Identifier: Apache-2.0
// Members of chains, on fakes: whose place it is, what stays of a function, and that a failed ADD leaves a chain in use as
// it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "attachment/chains.hpp"
#include "attachment/tests/fake_node.hpp"

namespace xveth::attachment {
namespace {

using datapath::ChainView;
using datapath::FunctionState;
using testing::HasSubstr;

NetConf function_at(int position, const std::string& on_failure = "drop", int mtu = 1500) {
    return conf_with(R"("containerXdp": "free", "mtu": )" + std::to_string(mtu) +
                     R"(, "chain": {"name": "edge", "position": )" + std::to_string(position) + R"(, "onFailure": ")" +
                     on_failure + R"("})");
}

class ChainVerbs : public testing::Test {
protected:
    void must_add(const NetConf& conf, const Request& request) {
        auto added = node_.add(conf, request);
        ASSERT_TRUE(added) << added.error().text;
    }
    void must_del(const NetConf& conf, const Request& request) {
        auto deleted = node_.del(conf, request);
        ASSERT_TRUE(deleted) << deleted.error().text;
    }
    Error fail_add(const NetConf& conf, const Request& request) {
        auto added = node_.add(conf, request);
        EXPECT_FALSE(added);
        return added ? Error{} : added.error();
    }
    ChainView edge() { return datapath::find_chain(node_.path, "edge").value().value_or(ChainView{}); }
    [[nodiscard]] datapath::NodeLock lock() const { return std::move(datapath::NodeLock::acquire(node_.path).value()); }

    FakeNode node_;
    NetConf protected_ = conf_with(R"("protectedBy": "edge")");
    Request web_ = node_.request("web", "eth0");
    Request function_ = node_.request_of_second("function", "eth0");
    Request other_ = node_.request_of_second("other", "eth1");
};

TEST_F(ChainVerbs, AFunctionLeavesItsPlaceBehindUntilTheLastMemberGoes) {
    must_add(protected_, web_);
    must_add(function_at(10, "bypass"), function_);
    ASSERT_EQ(edge().functions.size(), 1U);
    EXPECT_EQ(edge().functions[0].state, FunctionState::live);
    must_del(function_at(10, "bypass"), function_);
    ASSERT_EQ(edge().functions.size(), 1U);
    EXPECT_EQ(edge().functions[0].state, FunctionState::gone);
    EXPECT_TRUE(edge().functions[0].bypass_on_failure);
    must_del(protected_, web_);
    EXPECT_TRUE(datapath::list_chains(node_.path).value().empty());
}

TEST_F(ChainVerbs, APositionHasOneFunctionAndASuccessor) {
    must_add(protected_, web_);
    must_add(function_at(10), function_);
    const Error taken = fail_add(function_at(10), other_);
    EXPECT_EQ(taken.code, 7);
    EXPECT_THAT(taken.text, HasSubstr("position 10 of chain edge is held by net/function/eth0"));
    must_del(function_at(10), function_);
    must_add(function_at(10, "bypass"), other_);
    ASSERT_EQ(edge().functions.size(), 1U);
    EXPECT_EQ(edge().functions[0].state, FunctionState::live);
}

TEST_F(ChainVerbs, AFailedAddLeavesAChainInUseAsItWas) {
    must_add(protected_, web_);
    must_add(function_at(10), function_);
    must_del(function_at(10), function_);  // its place stays
    for (const int position : {10, 20}) {
        const std::string before = node_.snapshot();
        node_.faults.fail_nth(0, 0);
        must_add(function_at(position), function_);
        const int calls = node_.faults.calls();
        must_del(function_at(position), function_);
        if (position == 20) {
            ASSERT_TRUE(datapath::forget_function(node_.path, lock(), edge(), edge().functions[1]).value());
        }
        ASSERT_EQ(node_.snapshot(), before);
        for (int n = 1; n <= calls; ++n) {
            node_.faults.fail_nth(n, EIO);
            auto added = node_.add(function_at(position), function_);
            SCOPED_TRACE("call " + std::to_string(n) + " " + node_.faults.names().at(static_cast<std::size_t>(n) - 1));
            node_.faults.fail_nth(0, 0);
            if (added) {
                must_del(function_at(position), function_);
                if (position == 20) (void)datapath::forget_function(node_.path, lock(), edge(), edge().functions[1]);
            }
            ASSERT_EQ(node_.snapshot(), before);
        }
    }
}

TEST_F(ChainVerbs, MtuIsTheSmallestAndNoFunctionUndercutsIt) {
    must_add(function_at(10, "drop", 1400), function_);
    must_add(protected_, web_);
    EXPECT_EQ(node_.inner("eth0").link.mtu, 1400U);
    const Error smaller = fail_add(function_at(20, "drop", 1300), other_);
    EXPECT_EQ(smaller.code, 7);
    EXPECT_THAT(smaller.text, HasSubstr("MTU 1300"));
    EXPECT_THAT(smaller.text, HasSubstr("net/web/eth0 of MTU 1400"));
}

TEST_F(ChainVerbs, WithXvethdAFunctionIsLiveWhenItRunsAProgram) {
    const auto agent = FileLock::acquire(node_.store.agent_lock_path(), std::chrono::milliseconds(0));
    ASSERT_TRUE(agent);
    must_add(function_at(10), function_);
    EXPECT_EQ(edge().functions.at(0).state, FunctionState::disarmed);
    const auto& inner = node_.device(node_.second_container, "eth0").link;
    const auto cookie = node_.second_container.cookie().value();
    node_.world.set_program(cookie, static_cast<std::uint32_t>(inner.index), netlink::XdpMode::native, 7);
    const auto changes = datapath::note_armed_functions(node_.path, lock(), {});
    ASSERT_TRUE(changes);
    EXPECT_EQ(changes->size(), 1U);
    EXPECT_EQ(edge().functions.at(0).state, FunctionState::live);
    node_.world.set_program(cookie, static_cast<std::uint32_t>(inner.index), netlink::XdpMode::none, 0);
    ASSERT_TRUE(datapath::note_armed_functions(node_.path, lock(), {node_.nic().link.index}).value().empty());
    ASSERT_EQ(datapath::note_armed_functions(node_.path, lock(), {}).value().size(), 1U);
    EXPECT_EQ(edge().functions.at(0).state, FunctionState::disarmed);
}

TEST_F(ChainVerbs, WithoutXvethdAddSaysWhatIsNotNoticed) {
    must_add(function_at(10), function_);
    EXPECT_EQ(edge().functions.at(0).state, FunctionState::live);
    EXPECT_THAT(node_.notes, testing::Contains(HasSubstr("xvethd does not run")));
}

TEST_F(ChainVerbs, OnlyWhatIsGoneIsForgotten) {
    must_add(protected_, web_);
    must_add(function_at(10), function_);
    EXPECT_FALSE(datapath::forget_function(node_.path, lock(), edge(), edge().functions[0]).value());
    node_.remove_device(node_.second_container, "eth0");  // its namespace died
    EXPECT_EQ(edge().functions.at(0).state, FunctionState::gone);
    EXPECT_TRUE(datapath::forget_function(node_.path, lock(), edge(), edge().functions[0]).value());
    EXPECT_TRUE(edge().functions.empty());
    must_del(function_at(10), function_);
    EXPECT_TRUE(edge().functions.empty());
}

}  // namespace
}  // namespace xveth::attachment
