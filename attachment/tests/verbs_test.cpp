// SPDX-License-Identifier: Apache-2.0
// What ADD and DEL promise beside other attachments and other people's devices, on fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "attachment/lifecycle.hpp"
#include "attachment/tests/fake_node.hpp"
#include "base/files.hpp"

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

// Where bpffs was wiped and /run stayed, port ids began anew.
TEST_F(VerbsTest, PortOnRecordThatIsAnothersByNowStaysTheOthers) {
    must_add(first_);
    must_add(second_);
    const auto second_index = static_cast<std::uint32_t>(node_.host_end("pod2").link.index);
    const auto taken = node_.objects.find_port(second_index).value();
    auto record = node_.store.find(key_of(conf_, first_)).value().value();
    record.port = static_cast<std::uint32_t>(taken.value());
    ASSERT_TRUE(node_.store.put(record));
    must_del(first_);
    EXPECT_EQ(node_.objects.find_port(second_index).value(), taken);
    EXPECT_EQ(node_.objects.get_port(*taken).value().ifindex, second_index);
}

TEST_F(VerbsTest, LinksOfADeadDeviceWithoutARecordDoNotStopTheNextAdd) {
    must_add(first_);
    node_.remove_device(node_.container, "eth0");
    ASSERT_TRUE(node_.store.remove_if_present(key_of(conf_, first_)));
    must_add(first_);
}

TEST_F(VerbsTest, AddressOfTheNodeItselfIsRefused) {
    must_add(first_);
    must_del(first_);
    node_.nic().addresses.push_back({.prefix = IpPrefix::host(ip("10.1.0.77")),
                                     .peer = {},
                                     .scope = 0,
                                     .no_dad = false,
                                     .no_prefix_route = false,
                                     .tentative = false});
    const std::string before = node_.snapshot();
    node_.pool.next_host = 77;
    const Error error = fail_add(first_);
    EXPECT_EQ(error.code, 7);
    EXPECT_THAT(error.text, HasSubstr("10.1.0.77 is one of the node's own"));
    EXPECT_EQ(node_.snapshot(), before);
}

TEST_F(VerbsTest, GcRemovesThePortOfANicThatIsGone) {
    must_add(first_);
    must_del(first_);
    ASSERT_EQ(node_.objects.list_ports().value().size(), 1U);
    node_.remove_device(node_.ns, "eth0");
    conf_.valid_attachments.emplace();
    ASSERT_TRUE(node_.gc(conf_));
    EXPECT_TRUE(node_.objects.list_ports().value().empty());
}

TEST_F(VerbsTest, Ipv6OnAnMtuThatIsTooSmallForItIsNamed) {
    node_.pool.dual_stack = true;
    conf_ = conf_with(R"("mtu": 1279, "localMtu": 0)", ipam);
    const Error error = fail_add(first_);
    EXPECT_EQ(error.code, 7);
    EXPECT_THAT(error.text, HasSubstr("MTU is 1279: IPv6 needs 1280"));
    conf_.mtu = 1280;
    must_add(first_);
}

TEST_F(VerbsTest, RouteOfAFamilyWithoutAddressIsLeftOut) {
    for (const char* destination : {"0.0.0.0/0", "::/0"})
        node_.pool.routes.emplace_back().destination = IpPrefix::parse(destination).value();
    must_add(first_);
    const auto& routes = node_.world.of(node_.container).routes;
    const auto is_default = [](Family family) {
        return [family](const netlink::Route& route) {
            return route.destination.is_default() && route.destination.address.family == family;
        };
    };
    EXPECT_TRUE(std::ranges::any_of(routes, is_default(Family::ipv4)));
    EXPECT_TRUE(std::ranges::none_of(routes, is_default(Family::ipv6)));
}

TEST_F(VerbsTest, LockThatCannotBeMadeIsNotCalledBusy) {
    ASSERT_TRUE(write_file_atomically(node_.directory.path() + "/locks", ""));
    const Error error = fail_add(first_);
    EXPECT_EQ(error.code, 104);
    EXPECT_THAT(error.text, Not(HasSubstr("still running")));
}

}  // namespace
}  // namespace xveth::attachment
