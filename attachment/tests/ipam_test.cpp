// SPDX-License-Identifier: Apache-2.0
// Delegates are small shell scripts: whatever a real plugin may do wrong, one of them does.
#include "attachment/ipam.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/files.hpp"
#include "base/unique_fd.hpp"

namespace xveth::attachment {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class IpamTest : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/xveth-ipam-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
        request_ = {.container_id = "c1",
                    .netns_path = "/run/netns/c1",
                    .ifname = "eth0",
                    .args = "IgnoreUnknown=1;XVETH_POLICY=stack",
                    .plugin_path = {"/nowhere", directory_}};
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    void install(const std::string& script) {
        ASSERT_TRUE(write_file_atomically(directory_ + "/pool", "#!/bin/sh\n" + script, 0755));
    }
    [[nodiscard]] static NetConf conf(const std::string& version = "1.0.0", const std::string& members = "") {
        return *parse_net_conf(
            R"({"cniVersion":")" + version + R"(","name":"net","ipam":{"type":"pool"})" + members + "}", "", "eth0");
    }
    [[nodiscard]] std::string file(const std::string& name) const {
        return read_file(directory_ + "/" + name).value_or("");
    }

    std::string directory_;
    Request request_;
    ExecIpam ipam_{10s};
};

constexpr const char* good_answer =
    R"(echo '{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.5/16","gateway":"10.1.0.1"}]}')";

TEST_F(IpamTest, HandsOverConfigurationAndEnvironment) {
    install("cat > $(dirname $0)/stdin; env > $(dirname $0)/env\n" + std::string(good_answer));
    const NetConf c = conf("1.0.0", ",\r\n\"odd\" : null \r\n");
    const auto result = ipam_.add(c, request_);
    ASSERT_TRUE(result) << result.error().text;
    EXPECT_EQ(result->ips.at(0).address.to_string(), "10.1.0.5/16");
    EXPECT_EQ(file("stdin"), c.raw);
    for (const char* variable : {"CNI_COMMAND=ADD\n", "CNI_CONTAINERID=c1\n", "CNI_NETNS=/run/netns/c1\n",
                                 "CNI_IFNAME=eth0\n", "CNI_ARGS=IgnoreUnknown=1\n", "PATH="})
        EXPECT_THAT(file("env"), HasSubstr(variable));
    EXPECT_THAT(file("env"), HasSubstr("CNI_PATH=/nowhere:" + directory_ + "\n"));
}

TEST_F(IpamTest, CallsEachVerb) {
    install("echo $CNI_COMMAND >> $(dirname $0)/verbs\n");
    const NetConf c = conf("1.1.0");
    EXPECT_TRUE(ipam_.del(c, request_) && ipam_.check(c, request_) && ipam_.gc(c, request_) &&
                ipam_.status(c, request_));
    EXPECT_EQ(file("verbs"), "DEL\nCHECK\nGC\nSTATUS\n");
}

TEST_F(IpamTest, AMissingPluginNamesTypeAndPath) {
    for (const auto& result : {ipam_.del(conf(), request_), ipam_.status(conf("1.1.0"), request_)}) {
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code, 103);
        EXPECT_THAT(result.error().text, HasSubstr("\"pool\""));
        EXPECT_THAT(result.error().text, HasSubstr("/nowhere:" + directory_));
        // A runtime library takes a DEL error with these words for success.
        EXPECT_THAT(result.error().text, Not(HasSubstr("not found")));
        EXPECT_THAT(result.error().text, Not(HasSubstr("no such file or directory")));
    }
}

TEST_F(IpamTest, ADirectoryOrAFileThatCannotRunIsNoPlugin) {
    std::filesystem::create_directory(directory_ + "/pool");
    EXPECT_EQ(ipam_.add(conf(), request_).error().code, 103);
    std::filesystem::remove(directory_ + "/pool");
    ASSERT_TRUE(write_file_atomically(directory_ + "/pool", "garbage", 0644));
    const auto result = ipam_.add(conf(), request_);
    EXPECT_EQ(result.error().code, 103);
    EXPECT_EQ(result.error().errno_value, EACCES);
}

TEST_F(IpamTest, ItsErrorComesUpUnchanged) {
    install(R"(echo '{"code":11,"msg":"pool is empty","details":"wait"}'; exit 1)");
    const auto result = ipam_.add(conf(), request_);
    EXPECT_EQ(result.error().code, 11);
    EXPECT_EQ(result.error().text, "IPAM plugin \"pool\": pool is empty");
    EXPECT_EQ(result.error().hint, "wait");
}

TEST_F(IpamTest, AnErrorObjectIsAnErrorWhateverTheExitStatus) {
    install(R"(echo '{"code":100,"msg":"no"}')");
    EXPECT_EQ(ipam_.add(conf(), request_).error().code, 100);
}

TEST_F(IpamTest, FailingWithoutWordsIs103) {
    const std::vector<std::pair<std::string, std::string>> scripts{{"exit 3", "status 3"},
                                                                   {"echo oops; exit 1", "oops"},
                                                                   {"kill -9 $$", "signal 9"},
                                                                   {R"(echo '{"code":"x"}'; exit 1)", "status 1"}};
    for (const auto& [script, why] : scripts) {
        install(script);
        const auto result = ipam_.del(conf(), request_);
        ASSERT_FALSE(result) << script;
        EXPECT_EQ(result.error().code, 103) << script;
        EXPECT_THAT(result.error().text, HasSubstr(why)) << script;
    }
}

TEST_F(IpamTest, GarbageIs103) {
    for (const char* script : {"true", "echo garbage", "echo '[]'", "echo '{\"ips\":[{\"address\":\"10.1.0.5\"}]}'"}) {
        install(script);
        const auto result = ipam_.add(conf(), request_);
        ASSERT_FALSE(result) << script;
        EXPECT_EQ(result.error().code, 103) << script;
    }
}

TEST_F(IpamTest, ReadsTheOldestShape) {
    install(R"(echo '{"ip4":{"ip":"10.1.0.5/16","gateway":"10.1.0.1","routes":[{"dst":"0.0.0.0/0"}]}}')");
    const auto result = ipam_.add(conf("0.2.0"), request_);
    ASSERT_TRUE(result) << result.error().text;
    EXPECT_EQ(result->ips.at(0).address.to_string(), "10.1.0.5/16");
    EXPECT_EQ(result->routes.size(), 1U);
}

// A killed process ends when it is scheduled next; a zombie, which init reaps later, has no command line any more.
bool ends_soon(pid_t pid) {
    const auto is_there = [pid] {
        return !read_file("/proc/" + std::to_string(pid) + "/cmdline").value_or("").empty();
    };
    for (int i = 0; i < 1000 && is_there(); ++i) std::this_thread::sleep_for(10ms);
    return !is_there();
}

TEST_F(IpamTest, AHangingPluginIsKilledWithItsChildren) {
    install("sleep 300 & echo $! > $(dirname $0)/child; echo $$ > $(dirname $0)/self; wait");
    ExecIpam impatient{300ms};
    const auto start = std::chrono::steady_clock::now();
    const auto result = impatient.add(conf(), request_);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
    EXPECT_EQ(result.error().code, 103);
    EXPECT_EQ(result.error().errno_value, ETIMEDOUT);
    for (const char* name : {"child", "self"}) {
        EXPECT_TRUE(ends_soon(std::stoi(file(name)))) << name;
    }
}

TEST_F(IpamTest, AChildLeftBehindHoldsNobodyUp) {
    install("sleep 300 & echo $! > $(dirname $0)/child\n" + std::string(good_answer));
    const auto start = std::chrono::steady_clock::now();
    const auto result = ipam_.add(conf(), request_);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
    EXPECT_TRUE(result);
    EXPECT_TRUE(ends_soon(std::stoi(file("child"))));
}

TEST_F(IpamTest, TakesMuchInputAndOutput) {
    install(
        "printf '{\"x\":\"'; head -c 3000000 /dev/zero | tr '\\0' a; printf "
        "'\",\"ips\":[{\"address\":\"10.1.0.5/16\"}]}'; cat >/dev/null");
    const auto result = ipam_.add(conf("1.0.0", ",\"args\":\"" + std::string(2'000'000, 'a') + "\""), request_);
    ASSERT_TRUE(result) << result.error().text;
    EXPECT_EQ(result->ips.size(), 1U);
}

TEST_F(IpamTest, EndlessOutputIsCutOff) {
    install("exec cat /dev/zero");
    const auto result = ipam_.add(conf(), request_);
    EXPECT_EQ(result.error().code, 103);
    EXPECT_THAT(result.error().text, HasSubstr("4 MiB"));
}

TEST_F(IpamTest, APluginThatNeverReadsStdinIsFine) {
    install(good_answer);
    EXPECT_TRUE(ipam_.add(conf("1.0.0", ",\"args\":\"" + std::string(200'000, 'a') + "\""), request_));
}

TEST_F(IpamTest, WaitsWhileThePluginIsBeingInstalled) {
    // A copy of a program that is open for writing cannot be executed (ETXTBSY); scripts can.
    std::filesystem::copy_file("/bin/true", directory_ + "/pool");
    UniqueFd writer{::open((directory_ + "/pool").c_str(), O_WRONLY | O_CLOEXEC)};
    std::thread installer{[&] {
        std::this_thread::sleep_for(200ms);
        writer.reset();
    }};
    EXPECT_TRUE(ipam_.del(conf(), request_));
    installer.join();
}

TEST_F(IpamTest, ItDiesWithUs) {
    install("echo $$ > $(dirname $0)/self; exec sleep 300");
    const pid_t caller = ::fork();
    if (caller == 0) {
        (void)ipam_.del(conf(), request_);
        ::_exit(0);
    }
    while (file("self").empty()) std::this_thread::sleep_for(5ms);
    ::kill(caller, SIGKILL);
    ::waitpid(caller, nullptr, 0);
    const std::string command_line = "/proc/" + std::to_string(std::stoi(file("self"))) + "/cmdline";
    for (int i = 0; i < 200 && !read_file(command_line).value_or("").empty(); ++i) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(read_file(command_line).value_or(""), "");
}

// ---- delegates that are older than the network

constexpr const char* speaks_1_0_0 = R"(
    input=$(cat); echo "$CNI_COMMAND $input" >> $(dirname $0)/calls
    [ $CNI_COMMAND = VERSION ] && { echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}'; exit 0; }
    case "$input" in *'"cniVersion":"1.1.0"'*) echo '{"code":1,"msg":"incompatible CNI versions"}'; exit 1;; esac
    [ $CNI_COMMAND = ADD ] && echo '{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.5/16"}]}'
    exit 0)";

TEST_F(IpamTest, AnOlderPluginIsAskedInItsNewestVersion) {
    install(speaks_1_0_0);
    const NetConf c =
        conf("1.1.0", R"(,"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mtu":1500}]})");
    const auto result = ipam_.add(c, request_);
    ASSERT_TRUE(result) << result.error().text;
    EXPECT_EQ(result->ips.size(), 1U);
    const std::string calls = file("calls");
    EXPECT_THAT(calls, HasSubstr("ADD " + c.raw));
    const std::string again = calls.substr(calls.rfind("ADD "));
    EXPECT_THAT(again, HasSubstr("\"cniVersion\":\"1.0.0\""));
    EXPECT_THAT(again, Not(HasSubstr("1.1.0")));
    EXPECT_THAT(again, Not(HasSubstr("mtu")));
    EXPECT_TRUE(ipam_.del(c, request_));
}

TEST_F(IpamTest, VerbsThatAnOlderPluginDoesNotKnowSucceed) {
    install(speaks_1_0_0);
    EXPECT_TRUE(ipam_.gc(conf("1.1.0"), request_));
    EXPECT_TRUE(ipam_.status(conf("1.1.0"), request_));
    install(R"(echo '{"code":4,"msg":"unknown CNI_COMMAND: STATUS"}'; exit 1)");
    EXPECT_TRUE(ipam_.status(conf("1.1.0"), request_));
}

TEST_F(IpamTest, AStatusOfAPluginThatKnowsItIsBelieved) {
    install(R"([ $CNI_COMMAND = VERSION ] && { echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}'; exit 0; }
               echo '{"code":50,"msg":"no addresses"}'; exit 1)");
    EXPECT_EQ(ipam_.status(conf("1.1.0"), request_).error().code, 50);
    install(R"([ $CNI_COMMAND = VERSION ] && { echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}'; exit 0; }
               echo '{"code":3,"msg":"odd"}'; exit 1)");
    EXPECT_EQ(ipam_.gc(conf("1.1.0"), request_).error().code, 3);
}

TEST_F(IpamTest, NoDescriptorOfOursReachesIt) {
    const UniqueFd inheritable{::open("/dev/null", O_RDONLY)};
    install("ls /proc/self/fd > $(dirname $0)/fds");
    EXPECT_TRUE(ipam_.del(conf(), request_));
    ASSERT_TRUE(inheritable.valid());
    EXPECT_EQ(std::ranges::count(file("fds"), '\n'), 4) << file("fds");  // 0, 1, 2 and the directory that ls reads
}

}  // namespace
}  // namespace xveth::attachment
