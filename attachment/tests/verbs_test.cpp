// SPDX-License-Identifier: Apache-2.0
// What ADD and DEL promise beside other attachments and other people's devices, on fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attachment/lifecycle.hpp"
#include "attachment/tests/fake_node.hpp"

namespace xveth::attachment {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

constexpr const char* ipam = R"({"type": "host-local", "subnet": "10.1.0.0/24"})";

class VerbsTest : public testing::Test {
protected:
    Request must_add(const Request& request) {
        auto added = node_.add(conf_, request);
        EXPECT_TRUE(added) << added.error().text;
        return request;
    }
    Error fail_add(const Request& request) {
        auto added = node_.add(conf_, request);
        EXPECT_FALSE(added);
        return added ? Error{} : added.error();
    }
    void must_del(const Request& request) {
        auto deleted = node_.del(conf_, request);
        EXPECT_TRUE(deleted) << deleted.error().text;
    }
    [[nodiscard]] std::string lock_of(const Request& request) const { return key_of(conf_, request).hash(); }
    void expect_unlocked(const Request& request) {
        EXPECT_THAT(node_.lock_files(), Not(IsSupersetOf({lock_of(request)})));
    }

    FakeNode node_;
    NetConf conf_ = conf_with(R"("policy": "fast", "ipMasq": true)", ipam);
    Request first_ = node_.request("pod1");
    Request second_ = node_.request_of_second("pod2");
};

TEST_F(VerbsTest, NoLockFileOutlivesItsVerb) {
    must_add(first_);
    expect_unlocked(first_);
    (void)fail_add(first_);
    expect_unlocked(first_);
    must_del(first_);
    expect_unlocked(first_);
    node_.pool.faults.fail_nth(1, EIO);
    (void)fail_add(first_);
    node_.pool.faults.fail_nth(0, 0);
    expect_unlocked(first_);
}

TEST_F(VerbsTest, AddressOfAnotherAttachmentNamesItAndLeavesItAlone) {
    must_add(first_);
    const std::string before = node_.snapshot();
    node_.pool.next_host = node_.pool.leases.begin()->second;
    const Error error = fail_add(second_);
    EXPECT_EQ(error.code, 7);
    EXPECT_THAT(error.text, HasSubstr("net/pod1/eth0"));
    EXPECT_EQ(node_.snapshot(), before);
}

TEST_F(VerbsTest, DeviceOfAStrangerUnderOurNameIsAnErrorAndStays) {
    const std::string name = host_end_name(key_of(conf_, first_));
    node_.world.add_veth_pair(node_.ns, name, node_.second_container, "strange");
    for (const char* alias : {"", "somebody's"}) {
        node_.device(node_.ns, name).link.alias = alias;
        const Error error = fail_add(first_);
        EXPECT_EQ(error.code, 100);
        EXPECT_THAT(error.text, HasSubstr(name));
        must_del(first_);
        node_.device(node_.ns, name).link.alias.clear();
    }
    EXPECT_NE(node_.world.of(node_.ns).find(name), nullptr);
    EXPECT_NE(node_.world.of(node_.second_container).find("strange"), nullptr);
}

TEST_F(VerbsTest, PairThatHasNoAliasYetIsKnownByItsMac) {
    must_add(first_);
    const std::string name = host_end_name(key_of(conf_, first_));
    node_.device(node_.ns, name).link.alias.clear();
    must_del(first_);
    EXPECT_EQ(node_.world.of(node_.ns).find(name), nullptr);
}

TEST_F(VerbsTest, GcRemovesLockFilesThatNobodyHolds) {
    auto held = FileLock::acquire(node_.store.lock_path(key_of(conf_, first_)), std::chrono::milliseconds(0));
    ASSERT_TRUE(held);
    ASSERT_TRUE(FileLock::acquire(node_.store.lock_path(key_of(conf_, second_)), std::chrono::milliseconds(0)));
    conf_.valid_attachments.emplace();
    ASSERT_TRUE(node_.gc(conf_));
    EXPECT_THAT(node_.lock_files(), IsSupersetOf({lock_of(first_)}));
    expect_unlocked(second_);
}

}  // namespace
}  // namespace xveth::attachment
