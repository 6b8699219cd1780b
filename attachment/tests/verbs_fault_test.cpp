// SPDX-License-Identifier: Apache-2.0
// Each verb with the n-th call to the kernel or the store failing, for every n that a clean run makes: the error has a code
// and a text, everything is as before, and the verb then succeeds. What a verb undoes is done by calls that work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <ostream>

#include "attachment/tests/fake_node.hpp"

namespace xveth::attachment {
namespace {

struct Scenario {
    std::string name;
    std::string keys;
    bool dual_stack = false;
    bool chained = false;
    bool with_ipam = true;
};

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

const std::vector<Scenario> scenarios{
    {.name = "Plain", .keys = R"("nicRequired": true, "policy": "fast")"},
    {.name = "Defaults", .keys = ""},
    {.name = "Everything",
     .keys = R"("nicRequired": true, "ipMasq": true, "fastPathTo": ["198.51.100.0/24", "2001:db8::/32"],
                "allowedSources": ["10.9.0.0/16"])",
     .dual_stack = true},
    {.name = "FreeHook", .keys = R"("containerXdp": "free", "ipMasq": true)"},
    {.name = "OperatorsProgram",
     .keys = R"("containerXdp": "program", "containerProgram": {"object": "limit.o", "program": "xdp_limit"})"},
    {.name = "Function", .keys = R"("containerXdp": "free", "chain": {"name": "edge", "position": 10})"},
    {.name = "Protected", .keys = R"("protectedBy": "edge")", .dual_stack = true},
    {.name = "NoAddresses", .keys = R"("nic": "none", "policy": "stack")", .with_ipam = false},
    {.name = "Bridge", .keys = R"("mode": "bridge")"},
    {.name = "BridgeDualStack",
     .keys = R"("mode": "bridge", "ipMasq": true, "containerXdp": "free", "portIsolation": true)",
     .dual_stack = true},
    {.name = "BridgeVlan", .keys = R"("mode": "bridge", "vlan": 10, "vlanTrunk": [{"minID": 20, "maxID": 22}])"},
    {.name = "Chained", .keys = R"("nicRequired": true)", .chained = true, .with_ipam = false},
    {.name = "ChainedProgram",
     .keys = R"("containerXdp": "program", "containerProgram": {"object": "plain.o", "program": "xdp_plain"})",
     .chained = true,
     .with_ipam = false},
    {.name = "ChainedFree", .keys = R"("containerXdp": "free")", .chained = true, .with_ipam = false},
};

class VerbFaults : public testing::TestWithParam<Scenario> {
protected:
    VerbFaults() : conf_(conf_with(GetParam().keys, GetParam().with_ipam ? ipam_of(GetParam()) : "")) {
        node_.pool.dual_stack = GetParam().dual_stack;
        if (GetParam().chained) conf_.prev_result = node_.attach_by_another_plugin();
    }

    static std::string ipam_of(const Scenario& scenario) {
        return scenario.dual_stack
                   ? R"({"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]})"
                   : R"({"type": "host-local", "subnet": "10.1.0.0/24"})";
    }

    CniResult must_add() { return must_add(request_); }
    CniResult must_add(const Request& request) {
        auto added = node_.add(conf_, request);
        EXPECT_TRUE(added) << added.error().text;
        return added.value_or(CniResult{});
    }
    void must_del() {
        auto deleted = node_.del(conf_, request_);
        EXPECT_TRUE(deleted) << deleted.error().text;
    }
    void must_check(const CniResult& result) {
        auto checked = node_.check(with_result(conf_, result), request_);
        EXPECT_TRUE(checked) << checked.error().text;
    }
    // What stays of an attachment by design (the NIC's port, shared objects, parameters) is there already.
    void settle() {
        must_check(must_add());
        must_del();
    }
    // The number of calls that `verb` makes.
    int calls_of(const std::function<void()>& verb) {
        node_.faults.fail_nth(0, 0);
        verb();
        return node_.faults.calls();
    }
    std::string fail(int n) {
        node_.faults.fail_nth(n, EIO);
        return "call " + std::to_string(n);
    }
    // Ends the failing; the name of the call that failed.
    std::string heal(int n) {
        const std::string name = node_.faults.names().at(static_cast<std::size_t>(n) - 1);
        node_.faults.fail_nth(0, 0);
        return name;
    }
    static void expect_error(const Error& error, const std::string& where) {
        EXPECT_NE(error.code, 0) << where;
        EXPECT_NE(error.text.find("injected"), std::string::npos) << where << ": " << error.text;
    }
    // What ADD does without: it says so in its notes, or nothing is lost by it.
    [[nodiscard]] bool is_tolerated(const std::string& call) const {
        const bool told = std::ranges::any_of(
            node_.notes, [](const std::string& note) { return note.find("injected") != std::string::npos; });
        return told || call == "load_conntrack" || call == "read net/ipv6/conf/all/forwarding";
    }

    FakeNode node_;
    Request request_ = node_.request();
    NetConf conf_;
};

TEST_P(VerbFaults, AddFailsWholeOrNotAtAll) {
    settle();
    const std::string before = node_.snapshot();
    const int calls = calls_of([&] { must_add(); });
    must_del();
    ASSERT_EQ(node_.snapshot(), before);
    for (int n = 1; n <= calls; ++n) {
        SCOPED_TRACE(fail(n));
        auto added = node_.add(conf_, request_);
        const std::string call = heal(n);
        SCOPED_TRACE(call);
        if (added) {
            EXPECT_TRUE(is_tolerated(call));
            must_check(*added);
            must_del();
        } else {
            expect_error(added.error(), call);
        }
        ASSERT_EQ(node_.snapshot(), before);
        must_check(must_add());
        must_del();
        ASSERT_EQ(node_.snapshot(), before);
    }
}

TEST_P(VerbFaults, AddOnANodeWithoutObjectsIsRepeatable) {
    FakeNode fresh;
    const int calls = GetParam().chained ? 0 : [&] {
        fresh.pool.dual_stack = GetParam().dual_stack;
        auto added = fresh.add(conf_, fresh.request());
        EXPECT_TRUE(added) << added.error().text;
        return fresh.faults.calls();
    }();
    for (int n = 1; n <= calls; ++n) {
        FakeNode node;
        node.pool.dual_stack = GetParam().dual_stack;
        node.faults.fail_nth(n, EIO);
        auto failed = node.add(conf_, node.request());
        const std::string call = node.faults.names().at(static_cast<std::size_t>(n) - 1);
        SCOPED_TRACE("call " + std::to_string(n) + " " + call);
        node.faults.fail_nth(0, 0);
        if (failed) continue;
        expect_error(failed.error(), call);
        EXPECT_TRUE(node.pool.leases.empty());
        EXPECT_EQ(node.world.of(node.container).devices.size(), 1U) << "more than lo is left";
        auto added = node.add(conf_, node.request());
        ASSERT_TRUE(added) << added.error().text;
        auto checked = node.check(with_result(conf_, *added), node.request());
        EXPECT_TRUE(checked) << checked.error().text;
    }
}

TEST_P(VerbFaults, DelThatFailedIsCompletedByTheNextOne) {
    settle();
    const std::string before = node_.snapshot();
    must_add();
    const int calls = calls_of([&] { must_del(); });
    for (int n = 1; n <= calls; ++n) {
        must_add();
        SCOPED_TRACE(fail(n));
        auto deleted = node_.del(conf_, request_);
        const std::string call = heal(n);
        SCOPED_TRACE(call);
        EXPECT_FALSE(deleted);
        if (!deleted) expect_error(deleted.error(), call);
        must_del();
        ASSERT_EQ(node_.snapshot(), before);
    }
}

TEST_P(VerbFaults, DelFreesTheLeaseOnlyWithSuccess) {
    if (!GetParam().with_ipam) return;
    settle();
    const std::string before = node_.snapshot();
    must_add();
    node_.pool.faults.fail_nth(1, EIO);
    auto deleted = node_.del(conf_, request_);
    node_.pool.faults.fail_nth(0, 0);
    ASSERT_FALSE(deleted);
    expect_error(deleted.error(), "ipam del");
    EXPECT_EQ(node_.pool.leases.size(), 1U);
    must_del();
    EXPECT_EQ(node_.snapshot(), before);
}

TEST_P(VerbFaults, AddGivesBackTheLeaseOfAFailedIpam) {
    if (!GetParam().with_ipam) return;
    settle();
    const std::string before = node_.snapshot();
    for (const bool leased : {false, true}) {
        node_.pool.fails_after_leasing = leased;
        node_.pool.faults.fail_nth(1, EIO);
        auto added = node_.add(conf_, request_);
        node_.pool.faults.fail_nth(0, 0);
        ASSERT_FALSE(added);
        expect_error(added.error(), "ipam add");
        EXPECT_EQ(added.error().code, 11) << "the delegate's own code";
        EXPECT_EQ(node_.snapshot(), before);
    }
}

TEST_P(VerbFaults, CheckSaysWhatItCouldNotReadAndChangesNothing) {
    const auto checked_conf = with_result(conf_, must_add());
    const std::string before = node_.snapshot();
    const int calls = calls_of([&] { EXPECT_TRUE(node_.check(checked_conf, request_)); });
    for (int n = 1; n <= calls; ++n) {
        SCOPED_TRACE(fail(n));
        auto checked = node_.check(checked_conf, request_);
        const std::string call = heal(n);
        SCOPED_TRACE(call);
        EXPECT_FALSE(checked);
        if (!checked) expect_error(checked.error(), call);
        EXPECT_EQ(node_.snapshot(), before);
    }
}

TEST_P(VerbFaults, StatusSaysWhatItCouldNotReadAndChangesNothing) {
    must_add();
    const std::string before = node_.snapshot();
    const int calls = calls_of([&] { EXPECT_TRUE(node_.status(conf_)); });
    for (int n = 1; n <= calls; ++n) {
        SCOPED_TRACE(fail(n));
        auto ready = node_.status(conf_);
        SCOPED_TRACE(heal(n));
        ASSERT_FALSE(ready);
        expect_error(ready.error(), "status");
        EXPECT_EQ(ready.error().code, 50);
        EXPECT_EQ(node_.snapshot(), before);
    }
}

TEST_P(VerbFaults, GcGoesOnWithTheRest) {
    if (GetParam().chained || conf_.function_of) return;  // a chain's position has one function
    settle();
    const std::string before = node_.snapshot();
    const Request second = node_.request_of_second("pod2");
    NetConf none_valid = conf_;
    none_valid.valid_attachments.emplace();
    const auto fill = [&] {
        must_add();
        must_add(second);
    };
    fill();
    const int calls = calls_of([&] { EXPECT_TRUE(node_.gc(none_valid)); });
    ASSERT_EQ(node_.snapshot(), before);
    for (int n = 1; n <= calls; ++n) {
        fill();
        SCOPED_TRACE(fail(n));
        auto collected = node_.gc(none_valid);
        const std::string call = heal(n);
        SCOPED_TRACE(call);
        EXPECT_FALSE(collected);
        if (!collected) expect_error(collected.error(), call);
        if (n > 1) {
            EXPECT_LE(node_.store.list("net").value().size(), 1U) << "one fault kept two attachments";
        }
        auto again = node_.gc(none_valid);
        EXPECT_TRUE(again) << again.error().text;
        ASSERT_EQ(node_.snapshot(), before);
    }
}

INSTANTIATE_TEST_SUITE_P(All, VerbFaults, testing::ValuesIn(scenarios),
                         [](const auto& scenario) { return scenario.param.name; });

}  // namespace
}  // namespace xveth::attachment
