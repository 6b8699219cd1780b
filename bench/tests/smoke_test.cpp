// SPDX-License-Identifier: Apache-2.0
// Each bench runs once, shortly, and delivers every metric of the contract. No number is judged: this machine is busy.
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/host_tools.hpp"

namespace xveth::bench {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

const std::vector<std::string> environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};

struct Case {
    std::string bench;
    std::vector<std::string> metrics;
};

class Smoke : public testing::TestWithParam<Case> {};

TEST_P(Smoke, DeliversEveryMetricWithAPositiveValue) {
    const auto& [bench, metrics] = GetParam();
    const auto done = run_process({XVBENCH_BINARY, bench, "--quick", "--json"}, environment, "");
    ASSERT_TRUE(done.has_value()) << done.error().text;
    ASSERT_EQ(done->status, 0) << done->out << done->err;
    const auto object = nlohmann::json::parse(done->out);
    EXPECT_EQ(object["bench"], bench);
    std::vector<std::string> found;
    for (const auto& result : object["results"]) {
        found.push_back(result["metric"]);
        EXPECT_GT(result["median"].get<double>(), 0) << result;
        EXPECT_LE(result["min"].get<double>(), result["median"].get<double>()) << result;
        EXPECT_GE(result["max"].get<double>(), result["median"].get<double>()) << result;
    }
    EXPECT_THAT(found, IsSupersetOf(metrics));
}

INSTANTIATE_TEST_SUITE_P(
    Benches, Smoke,
    testing::Values(Case{"drop",
                         {"drop.xveth", "drop.ptp", "drop.nic", "drop.vs_ptp", "drop_ct.vs_ptp", "drop.vs_nic_drop",
                          "drop.10_vs_1"}},
                    Case{"tx", {"tx.xveth", "tx.ptp", "tx.vs_ptp"}},
                    Case{"tcp",
                         {"tcp_pod_pod.xveth", "tcp_pod_pod.ptp", "tcp_pod_pod.bridge", "tcp_pod_pod.vs_bridge",
                          "tcp_pod_pod.vs_ptp", "tcp_out.vs_ptp", "tcp_in.vs_ptp", "tcp_rr.vs_ptp"}},
                    Case{"chain",
                         {"chain_hop.vs_routed", "chain_hop.vs_bridge", "chain_1.xveth", "chain_1.vs_routed",
                          "chain_4.vs_routed", "chain_4.vs_bridge", "chain_hop.xveth"}},
                    Case{"bridge",
                         {"bridge.vs_linux_bridge", "bridge_broadcast.vs_linux_bridge", "bridge_tcp.vs_linux_bridge",
                          "bridge_frames.xveth", "bridge_frames.linux_bridge"}},
                    Case{"add", {"add.xveth", "add.ptp", "add.vs_ptp", "add_rss.xveth", "add.10_vs_1"}}),
    [](const auto& chosen) { return chosen.param.bench; });

TEST(XvbenchOptions, AnUnknownBenchIsAUsageError) {
    const auto done = run_process({XVBENCH_BINARY, "nonsense"}, environment, "");
    ASSERT_TRUE(done.has_value());
    EXPECT_NE(done->status, 0);
    EXPECT_TRUE(done->out.empty()) << done->out;
}

TEST(XvbenchOptions, AMissingPluginIsNamed) {
    const auto done = run_process({XVBENCH_BINARY, "tx", "--quick", "--bin-dir", "/nonexistent"}, environment, "");
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->status, 2);
    EXPECT_THAT(done->err, HasSubstr("/nonexistent/xveth"));
}

std::string slurp(const char* path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The lab hangs on mounts that nobody else sees: its namespaces, devices and pins go with the process.
TEST(XvbenchKilled, LeavesNoMountBehind) {
    std::string binary = XVBENCH_BINARY;
    std::string bench = "drop";
    char* const arguments[] = {binary.data(), bench.data(), nullptr};
    char* const nothing[] = {nullptr};
    pid_t pid = 0;
    ASSERT_EQ(::posix_spawn(&pid, XVBENCH_BINARY, nullptr, nullptr, arguments, nothing), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed";
    EXPECT_THAT(slurp("/proc/self/mountinfo"), Not(HasSubstr("lab-drop")));
}

}  // namespace
}  // namespace xveth::bench
