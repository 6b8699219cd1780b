// SPDX-License-Identifier: Apache-2.0
// The operator's program at containers' ends: where its maps are, and its replacement, whole or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "attachment/program_replace.hpp"
#include "attachment/tests/fake_node.hpp"

namespace xveth::attachment {
namespace {

using ::testing::HasSubstr;

const std::string limit =
    R"("containerXdp": "program", "containerProgram": {"object": "limit.o", "program": "xdp_limit"})";

class ProgramTest : public testing::Test {
protected:
    CniResult must_add(const Request& request) {
        auto added = node_.add(conf_, request);
        EXPECT_TRUE(added) << added.error().text;
        return added.value_or(CniResult{});
    }
    [[nodiscard]] std::string add_error(Request request, const std::string& args) {
        request.args = args;
        auto added = node_.add(conf_, request);
        EXPECT_FALSE(added);
        return added ? "" : std::to_string(added.error().code) + " " + added.error().text;
    }
    [[nodiscard]] std::string check_error(const CniResult& result) {
        auto checked = node_.check(with_result(conf_, result), first_);
        return checked ? "" : checked.error().text;
    }
    [[nodiscard]] static std::string pin_of(const Request& request) {
        return AttachmentKey{.network = "net", .container_id = request.container_id, .ifname = "eth0"}.hash() + "c";
    }
    [[nodiscard]] std::uint32_t id_at(const Request& request) const {
        return node_.objects.program_at(pin_of(request)).value().id;
    }

    FakeNode node_;
    NetConf conf_ = conf_with(limit);
    Request first_ = node_.request("pod1");
    Request second_ = node_.request_of_second("pod2");
    const ProgramSelection all_{.objects = {"limit.o"}, .containers = {}, .networks = {}, .fresh_maps = false};
};

TEST_F(ProgramTest, MapsAreFiledByThePodsUid) {
    first_.container_id = "pod1.a";
    must_add(first_);
    EXPECT_THAT(node_.programs.to_string(), HasSubstr("map pods/pod1%a/eth0/limits\nmap pods/pod1%a/eth0/seen\n"));
    ASSERT_TRUE(node_.del(conf_, first_));
    first_.args = "IgnoreUnknown=1;K8S_POD_UID=0f1e-2d3c";
    must_add(first_);
    EXPECT_THAT(node_.programs.to_string(), HasSubstr("map pods/0f1e-2d3c/eth0/limits\n"));
    ASSERT_TRUE(node_.del(conf_, first_));
    EXPECT_EQ(node_.programs.to_string(), "");
}

TEST_F(ProgramTest, AnIdThatCouldLeadElsewhereIsRefused) {
    for (const char* uid : {"..", "a/b", ".hidden", "-x", "a b"})
        EXPECT_THAT(add_error(first_, std::string("K8S_POD_UID=") + uid), HasSubstr("7 CNI_ARGS key \"K8S_POD_UID\""));
    EXPECT_THAT(add_error(first_, "K8S_POD_UID=" + std::string(256, 'a')), HasSubstr("K8S_POD_UID"));
}

TEST_F(ProgramTest, ASecondSandboxTakesOverItsPodsMaps) {
    first_.args = second_.args = "K8S_POD_UID=0f1e";
    must_add(first_);
    must_add(second_);
    ASSERT_TRUE(node_.del(conf_, first_));
    EXPECT_THAT(node_.programs.to_string(), HasSubstr("map pods/0f1e/eth0/seen\n"));
    ASSERT_TRUE(node_.del(conf_, second_));
    EXPECT_EQ(node_.programs.to_string(), "");
}

TEST_F(ProgramTest, CheckSaysWhichProgramRunsInstead) {
    const auto result = must_add(first_);
    EXPECT_EQ(check_error(result), "");
    const auto ours = *node_.objects.program_at(pin_of(first_));
    node_.objects.put_program_at(pin_of(first_), {.id = 77, .name = "stranger", .mode = "native"});
    EXPECT_THAT(check_error(result),
                HasSubstr("limit.o:xdp_limit: eth0: somebody updated our XDP link: it runs program 77, "
                          "ours is " +
                          std::to_string(ours.id)));
    node_.objects.put_program_at(pin_of(first_), ours);
    EXPECT_EQ(check_error(result), "");
}

TEST_F(ProgramTest, StatusMissesTheFile) {
    EXPECT_TRUE(node_.status(conf_));
    node_.programs.files.clear();
    auto ready = node_.status(conf_);
    ASSERT_FALSE(ready);
    EXPECT_EQ(ready.error().code, 50);
    EXPECT_THAT(ready.error().text, HasSubstr("limit.o"));
}

TEST_F(ProgramTest, GcCollectsTheMapsOfALostRecord) {
    must_add(first_);
    must_add(second_);
    const std::string before = node_.programs.to_string();
    ASSERT_TRUE(node_.store.remove_if_present({.network = "net", .container_id = "pod1", .ifname = "eth0"}));
    NetConf conf = conf_;
    conf.valid_attachments = {{"pod1", "eth0"}, {"pod2", "eth0"}};
    ASSERT_TRUE(node_.gc(conf));
    EXPECT_EQ(node_.programs.to_string(), before) << "its link still runs it";
    node_.remove_device(node_.container, "eth0");
    ASSERT_TRUE(node_.gc(conf));
    EXPECT_THAT(node_.programs.to_string(), testing::Not(HasSubstr("pod1")));
    EXPECT_THAT(node_.programs.to_string(), HasSubstr("pod2"));
}

// -- replacement

TEST_F(ProgramTest, ReplacesEveryOneAndTakesItOnRecord) {
    const auto result = must_add(first_);
    must_add(second_);
    const auto old = id_at(first_);
    node_.programs.files["limit.o"].maps = {"seen", "third"};
    auto replaced = replace_programs(node_.node, all_);
    ASSERT_TRUE(replaced) << replaced.error().text;
    ASSERT_EQ(replaced->size(), 2U);
    EXPECT_NE(id_at(first_), old);
    EXPECT_EQ(check_error(result), "");
    EXPECT_THAT(node_.programs.to_string(), HasSubstr("map pods/pod1/eth0/seen\nmap pods/pod1/eth0/third\n"));
    const auto record = node_.store.find({.network = "net", .container_id = "pod1", .ifname = "eth0"}).value().value();
    EXPECT_EQ(record.program->id, id_at(first_));
    EXPECT_EQ(record.program->next_id, 0U);
}

TEST_F(ProgramTest, RefusesAnotherKindOfProgramAndOneThatNobodyRuns) {
    must_add(first_);
    node_.programs.files["limit.o"].traits.frags = false;
    auto replaced = replace_programs(node_.node, all_);
    ASSERT_FALSE(replaced);
    EXPECT_THAT(replaced.error().text, HasSubstr("MTU limit"));
    ProgramSelection both = all_;
    both.objects.push_back("none.o");
    replaced = replace_programs(node_.node, both);
    ASSERT_FALSE(replaced);
    EXPECT_THAT(replaced.error().text, HasSubstr("none.o"));
}

TEST_F(ProgramTest, ReplacementFailsWholeOrNotAtAll) {
    must_add(first_);
    must_add(second_);
    const auto replace = [&] { return replace_programs(node_.node, all_); };
    node_.faults.fail_nth(0, 0);
    ASSERT_TRUE(replace());
    const int calls = node_.faults.calls();
    node_.programs.files["limit.o"].maps = {"seen", "third"};
    const std::string before = node_.snapshot();
    const auto ids = std::pair{id_at(first_), id_at(second_)};
    for (int n = 1; n <= calls; ++n) {
        SCOPED_TRACE("call " + std::to_string(n));
        node_.faults.fail_nth(n, EIO);
        auto replaced = replace();
        SCOPED_TRACE(node_.faults.names().at(static_cast<std::size_t>(n) - 1));
        node_.faults.fail_nth(0, 0);
        ASSERT_FALSE(replaced);
        EXPECT_THAT(replaced.error().text, HasSubstr("injected"));
        EXPECT_EQ(node_.snapshot(), before);
        EXPECT_EQ(std::pair(id_at(first_), id_at(second_)), ids);
    }
    ASSERT_TRUE(replace());
    EXPECT_NE(node_.snapshot(), before);
    ASSERT_TRUE(node_.del(conf_, first_));
    ASSERT_TRUE(node_.del(conf_, second_));
    EXPECT_EQ(node_.programs.to_string(), "");
}

TEST_F(ProgramTest, AReplacementThatWasKilledIsTakenUp) {
    const auto result = must_add(first_);
    const AttachmentKey key{.network = "net", .container_id = "pod1", .ifname = "eth0"};
    auto record = node_.store.find(key).value().value();
    record.program->next_id = 5000;
    ASSERT_TRUE(node_.store.put(record));
    EXPECT_EQ(check_error(result), "") << "killed before the exchange";
    node_.objects.put_program_at(pin_of(first_), {.id = 5000, .name = "xdp_limit", .mode = "native"});
    EXPECT_EQ(check_error(result), "") << "killed after it";
    ASSERT_TRUE(replace_programs(node_.node, all_));
    EXPECT_EQ(check_error(result), "");
    EXPECT_EQ(node_.store.find(key).value().value().program->next_id, 0U);
}

}  // namespace
}  // namespace xveth::attachment
