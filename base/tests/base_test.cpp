// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"
#include "base/scope_exit.hpp"

namespace xveth {
namespace {

using namespace std::chrono_literals;

class Files : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/xveth-base-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        dir_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(dir_); }
    std::string dir_;
};

TEST(ErrorTest, EachLayerPutsItsPhraseInFrontAndTheInnermostCodeStays) {
    Error e = errno_error(EBUSY, "attach XDP").in("host end xv12").or_code(101).in("ADD").or_code(999);
    EXPECT_EQ(e.text, "ADD: host end xv12: attach XDP: Device or resource busy");
    EXPECT_EQ(e.code, 101);
    EXPECT_EQ(e.errno_value, EBUSY);
}

TEST(TransactionTest, UndoesInReverseOrderUnlessCommitted) {
    std::string trace;
    {
        Transaction tx;
        tx.on_failure([&] { trace += "a"; });
        tx.on_failure([&] { trace += "b"; });
    }
    EXPECT_EQ(trace, "ba");
    {
        Transaction tx;
        tx.on_failure([&] { trace += "c"; });
        tx.commit();
    }
    EXPECT_EQ(trace, "ba");
}

TEST_F(Files, AtomicWriteMakesParentsAndLeavesNoTemporary) {
    const std::string path = dir_ + "/a/b/state.json";
    ASSERT_TRUE(write_file_atomically(path, "one"));
    ASSERT_TRUE(write_file_atomically(path, "two"));
    EXPECT_EQ(read_file(path).value(), "two");
    ASSERT_TRUE(remove_file_if_present(path));
    EXPECT_EQ(::rmdir((dir_ + "/a/b").c_str()), 0) << "the directory holds more than the file that was written";
    EXPECT_EQ(read_file(path).error().errno_value, ENOENT);
}

TEST_F(Files, LockExcludesAndSurvivesRemovalOfItsFile) {
    const std::string path = dir_ + "/lock";
    auto first = FileLock::acquire(path, 0ms);
    ASSERT_TRUE(first);
    EXPECT_TRUE(FileLock::is_held(path).value());
    auto second = FileLock::acquire(path, 20ms);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().errno_value, EWOULDBLOCK);
    first->remove_file();
    EXPECT_TRUE(FileLock::acquire(path, 0ms));
}

TEST_F(Files, NetnsOpenTellsGoneFromWrong) {
    EXPECT_EQ(Netns::open(dir_ + "/none").error().errno_value, ENOENT);
    EXPECT_EQ(Netns::open(dir_ + "/none/deeper").error().errno_value, ENOENT);
    ASSERT_TRUE(write_file_atomically(dir_ + "/empty", ""));
    EXPECT_EQ(Netns::open(dir_ + "/empty").error().errno_value, ENOENT);
    ASSERT_TRUE(write_file_atomically(dir_ + "/plain", "x"));
    EXPECT_EQ(Netns::open(dir_ + "/plain").error().errno_value, EINVAL);
    EXPECT_EQ(Netns::open("/proc/self/ns/mnt").error().errno_value, EINVAL);
    EXPECT_EQ(Netns::open(dir_).error().errno_value, EINVAL);
    EXPECT_TRUE(Netns::open("/proc/self/ns/net"));
}

TEST(NetnsTest, CurrentIsTheSameAsItsFileAndHasACookie) {
    auto here = Netns::current();
    auto file = Netns::open("/proc/self/ns/net");
    ASSERT_TRUE(here && file);
    EXPECT_TRUE(here->same_as(*file));
    EXPECT_GT(here->cookie().value(), 0U);
}

TEST(HashTest, IsFnv1a) { EXPECT_EQ(hash64("a"), 0xaf63dc4c8601ec8cU); }

}  // namespace
}  // namespace xveth
