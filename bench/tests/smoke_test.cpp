// SPDX-License-Identifier: Apache-2.0
// Each bench runs once, shortly, and delivers every metric of the contract. No number is judged: this machine is busy.
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "bench/host_tools.hpp"

namespace xveth::bench {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

const std::vector<std::string> environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};

std::string slurp(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

struct TemporaryDirectory {
    std::string path = [] {
        std::string name = testing::TempDir() + "bench-XXXXXX";
        return std::string(::mkdtemp(name.data()));
    }();
    TemporaryDirectory() = default;
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() { std::filesystem::remove_all(path); }
};

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
                          "bridge.xveth", "bridge.linux_bridge"}},
                    Case{"add", {"add.xveth", "add.ptp", "add.vs_ptp", "add_rss.xveth", "add.10_vs_1"}}),
    [](const auto& chosen) { return chosen.param.bench; });

// The whole report, its numbers of no worth at all.
TEST(XvbenchAll, WritesTablesAndChartsOfEveryBench) {
    const TemporaryDirectory directory;
    const auto done = run_process({XVBENCH_BINARY, "all", "--report", directory.path, "--rounds", "1", "--seconds",
                                   "0.1", "--repeats", "1", "--endpoints", "2"},
                                  environment, "");
    ASSERT_TRUE(done.has_value()) << done.error().text;
    ASSERT_EQ(done->status, 0) << done->err << slurp(directory.path + "/report.md");
    const auto report = nlohmann::json::parse(slurp(directory.path + "/report.json"));
    for (const auto& bench : report["benches"]) {
        EXPECT_FALSE(bench.contains("failed")) << bench;
        EXPECT_FALSE(bench["results"].empty()) << bench;
    }
    const auto page = slurp(directory.path + "/report.md");
    for (const auto* table :
         {"drop", "drop_ct", "tx", "tcp_pod_pod", "tcp_in", "tcp_out", "tcp_rr", "chain", "bridge", "add"}) {
        EXPECT_THAT(page, HasSubstr("<!-- xvbench: " + std::string(table) + " -->"));
        EXPECT_THAT(slurp(directory.path + "/" + table + ".svg"), HasSubstr("<rect class=\"ours\""));
    }
}

TEST(XvbenchRender, MakesThePagesFromTheReportAgain) {
    const TemporaryDirectory directory;
    std::ofstream(directory.path + "/report.json")
        << R"({"benches":[{"bench":"tx","results":[{"metric":"tx.xveth","unit":"Mpps","median":1.5,"min":1,"max":2,"samples":3}]}],"machine":{}})";
    const auto done = run_process({XVBENCH_BINARY, "render", "--report", directory.path}, environment, "");
    ASSERT_TRUE(done.has_value()) << done.error().text;
    ASSERT_EQ(done->status, 0) << done->err;
    EXPECT_THAT(slurp(directory.path + "/report.md"), HasSubstr("| xveth | 1.50 Mpps (1.00–2.00) | – | – |"));
    EXPECT_THAT(slurp(directory.path + "/tx.svg"), HasSubstr(">1.50</text>"));
}

TEST(XvbenchRender, SaysWhatIsNoReport) {
    const TemporaryDirectory directory;
    std::ofstream(directory.path + "/report.json") << "{}";
    const auto done = run_process({XVBENCH_BINARY, "render", "--report", directory.path}, environment, "");
    ASSERT_TRUE(done.has_value()) << done.error().text;
    EXPECT_EQ(done->status, 2);
    EXPECT_THAT(done->err, HasSubstr("report.json: not a report of xvbench all"));
}

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

pid_t start(const std::vector<std::string>& words) {
    std::vector<std::string> copies{XVBENCH_BINARY};
    copies.insert(copies.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (auto& word : copies) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    char* const nothing[] = {nullptr};
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, XVBENCH_BINARY, nullptr, nullptr, arguments.data(), nothing), 0);
    return pid;
}

void kill_and_wait(pid_t pid) {
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed";
}

std::vector<pid_t> children_of(pid_t pid) {
    const auto text = std::to_string(pid);
    std::istringstream list(slurp("/proc/" + text + "/task/" + text + "/children"));
    return {std::istream_iterator<pid_t>(list), {}};
}

bool ends_within(pid_t pid, std::chrono::seconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (::kill(pid, 0) == 0) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
}

// The lab hangs on mounts that nobody else sees: its namespaces, devices and pins go with the process.
TEST(XvbenchKilled, LeavesNoMountBehind) {
    const auto pid = start({"drop"});
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    kill_and_wait(pid);
    EXPECT_THAT(slurp("/proc/self/mountinfo"), Not(HasSubstr("lab-drop")));
}

// The benches of a report are processes of their own, which do not outlive it.
TEST(XvbenchKilled, TakesTheBenchOfAReportWithIt) {
    const auto pid = start({"all"});
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto children = children_of(pid);
    kill_and_wait(pid);
    ASSERT_EQ(children.size(), 1U);
    EXPECT_TRUE(ends_within(children.front(), std::chrono::seconds(10)));
}

}  // namespace
}  // namespace xveth::bench
