// SPDX-License-Identifier: Apache-2.0
#include "attachment/state_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "attachment/json.hpp"
#include "attachment/log.hpp"
#include "base/files.hpp"

namespace xveth::attachment {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StateStoreTest : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/xveth-store-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    static AttachmentRecord record(const std::string& id) {
        AttachmentRecord r;
        r.key = {.network = "net", .container_id = id, .ifname = "eth0"};
        return r;
    }
    [[nodiscard]] std::string path(const AttachmentKey& key) const {
        return directory_ + "/s/" + key.network + "/" + key.hash() + ".json";
    }

    std::string directory_;
};

TEST_F(StateStoreTest, ReadsBackWhatItWrote) {
    StateStore store{directory_ + "/s"};
    AttachmentRecord r = record("c1");
    r.complete = true;
    r.chained = true;
    r.owner = "oci-hook";
    r.netns_path = "/run/netns/\xff";
    r.container_xdp = "free";
    r.host_end = "xv0";
    r.host_ifindex = 7;
    r.container_ifindex = 2;
    r.port = 3;
    r.addresses = {*IpAddress::parse("10.1.0.5"), *IpAddress::parse("fd00::5")};
    r.masqueraded = true;
    r.ipam_type = "host-local";
    r.conf = "{\"a\":\"\\u00e4\"}\n";
    r.args = "A=b";
    r.container_features = {{"rx-gro", false}};
    r.host_features = {{"tx-checksum-ip-generic", true}};
    r.pod = "ns/pod";
    ASSERT_TRUE(store.put(r));

    const auto found = store.find(r.key);
    ASSERT_TRUE(found && *found);
    const AttachmentRecord& f = **found;
    EXPECT_EQ(f.key, r.key);
    EXPECT_TRUE(f.complete && f.chained && f.masqueraded);
    EXPECT_EQ(f.owner, "oci-hook");
    EXPECT_EQ(f.container_xdp, "free");
    EXPECT_EQ(f.host_end, "xv0");
    EXPECT_EQ(f.host_ifindex, 7U);
    EXPECT_EQ(f.container_ifindex, 2U);
    EXPECT_EQ(f.port, 3U);
    EXPECT_EQ(f.addresses, r.addresses);
    EXPECT_EQ(f.ipam_type, "host-local");
    EXPECT_EQ(f.conf, r.conf);
    EXPECT_EQ(f.args, r.args);
    EXPECT_EQ(f.container_features, r.container_features);
    EXPECT_EQ(f.host_features, r.host_features);
    EXPECT_EQ(f.pod, "ns/pod");
}

TEST_F(StateStoreTest, RemovalLeavesNothingBehind) {
    StateStore store{directory_ + "/s"};
    const AttachmentRecord r = record("c1");
    ASSERT_TRUE(store.put(r));
    ASSERT_TRUE(write_file_atomically(path(r.key) + ".k1lled", "half"));
    ASSERT_TRUE(store.remove_if_present(r.key));
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/s/net"));
    EXPECT_FALSE(*store.find(r.key));
    EXPECT_TRUE(store.remove_if_present(r.key));
}

TEST_F(StateStoreTest, RemovalKeepsTheOthers) {
    StateStore store{directory_ + "/s"};
    ASSERT_TRUE(store.put(record("c1")) && store.put(record("c2")));
    ASSERT_TRUE(store.remove_if_present(record("c1").key));
    EXPECT_TRUE(*store.find(record("c2").key));
}

TEST_F(StateStoreTest, ABrokenFileCountsAsAbsent) {
    StateStore store{directory_ + "/s"};
    const AttachmentKey key = record("c1").key;
    for (const char* content : {"", "{", "[]", "{}", R"({"network":"net","containerID":7})", "\xff"}) {
        ASSERT_TRUE(write_file_atomically(path(key), content));
        const auto found = store.find(key);
        ASSERT_TRUE(found) << content;
        EXPECT_FALSE(*found) << content;
        EXPECT_THAT(*store.list("net"), IsEmpty()) << content;
    }
    EXPECT_TRUE(store.put(record("c1")));
    EXPECT_TRUE(*store.find(key));
}

TEST_F(StateStoreTest, ARecordUnderAnothersNameIsNotFound) {
    StateStore store{directory_ + "/s"};
    ASSERT_TRUE(store.put(record("c1")));
    std::filesystem::rename(path(record("c1").key), path(record("c2").key));
    EXPECT_FALSE(*store.find(record("c2").key));
}

TEST_F(StateStoreTest, ListsByNetwork) {
    StateStore store{directory_ + "/s"};
    EXPECT_THAT(*store.list("net"), IsEmpty());
    EXPECT_THAT(*store.list_all(), IsEmpty());
    AttachmentRecord other = record("c3");
    other.key.network = "locks";
    ASSERT_TRUE(store.put(record("c1")) && store.put(record("c2")) && store.put(other));
    ASSERT_TRUE(write_file_atomically(store.lock_path(other.key), ""));
    EXPECT_EQ(store.list("net")->size(), 2U);
    EXPECT_EQ(store.list("locks")->size(), 1U);
    EXPECT_EQ(store.list_all()->size(), 3U);
}

TEST_F(StateStoreTest, ListsTheLocksOfAttachmentsAlone) {
    StateStore store{directory_ + "/s"};
    EXPECT_THAT(*store.list_lock_paths(), IsEmpty());
    const std::string path = store.lock_path(record("c1").key);
    AttachmentRecord in_a_network_called_locks = record("c2");
    in_a_network_called_locks.key.network = "locks";
    ASSERT_TRUE(write_file_atomically(path, "") && write_file_atomically(store.node_lock_path(), ""));
    ASSERT_TRUE(store.put(in_a_network_called_locks));
    EXPECT_THAT(*store.list_lock_paths(), ElementsAre(path));
}

TEST_F(StateStoreTest, TakesNamesOfAnyLength) {
    StateStore store{directory_ + "/s"};
    AttachmentRecord r = record(std::string(300, 'c'));
    r.key.network = std::string(300, 'n');
    ASSERT_TRUE(store.put(r));
    EXPECT_TRUE(*store.find(r.key));
    EXPECT_EQ(store.list(r.key.network)->size(), 1U);
    ASSERT_TRUE(store.remove_if_present(r.key));
    EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/s"));
}

TEST(AttachmentKeyTest, EveryPartMatters) {
    const AttachmentKey key{.network = "net", .container_id = "a-b", .ifname = "c"};
    EXPECT_EQ(key.hash().size(), 12U);
    EXPECT_EQ(key.hash(), (AttachmentKey{.network = "net", .container_id = "a-b", .ifname = "c"}).hash());
    for (const AttachmentKey& other : {AttachmentKey{.network = "net", .container_id = "a", .ifname = "b-c"},
                                       AttachmentKey{.network = "neta", .container_id = "-b", .ifname = "c"},
                                       AttachmentKey{.network = "net", .container_id = "a-b", .ifname = "d"}})
        EXPECT_NE(key.hash(), other.hash());
    EXPECT_NE((AttachmentKey{.network = "n", .container_id = "1234567891", .ifname = "eth0"}).hash(),
              (AttachmentKey{.network = "n", .container_id = "1234567892", .ifname = "eth0"}).hash());
}

TEST(AttachmentKeyTest, TheAliasFitsTheKernel) {
    const AttachmentKey key{.network = "net", .container_id = "c1", .ifname = "eth0"};
    EXPECT_EQ(key.alias(), "xveth:net/c1/eth0");
    EXPECT_EQ((AttachmentKey{.network = "net", .container_id = std::string(300, 'c'), .ifname = "eth0"}).alias().size(),
              255U);
}

TEST_F(StateStoreTest, TheLogHasOneObjectALine) {
    const Log log{directory_ + "/log/xveth.log"};
    log.write("info", "done\nwell", {{"verb", "ADD"}, {"odd", "\xff"}});
    log.write("error", "no", {});
    const std::string text = read_file(directory_ + "/log/xveth.log").value();
    EXPECT_EQ(std::ranges::count(text, '\n'), 2);
    const auto first = parse_json(text.substr(0, text.find('\n')));
    ASSERT_TRUE(first);
    EXPECT_EQ(first->at("level"), "info");
    EXPECT_EQ(first->at("message"), "done\nwell");
    EXPECT_EQ(first->at("verb"), "ADD");
    EXPECT_THAT(first->at("time").get<std::string>(), testing::MatchesRegex("....-..-..T..:..:..\\....Z"));
}

TEST_F(StateStoreTest, ALogThatNobodyReadsHoldsUpNoVerb) {
    const std::string fifo = directory_ + "/fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    Log{fifo}.write("info", "done", {});
}

TEST(LogTest, ALogThatCannotBeWrittenIsNoError) { Log{"/dev/null/x/log"}.write("info", "done", {}); }

}  // namespace
}  // namespace xveth::attachment
