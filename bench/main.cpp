// SPDX-License-Identifier: Apache-2.0
// xvbench: what xveth costs and gains, measured beside the reference plugins.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "bench/benches.hpp"
#include "bench/topology.hpp"

namespace {

using namespace xveth;
using namespace xveth::bench;

struct Bench {
    const char* name;
    const char* what;
    Result<void> (*run)(const Settings&, Report&);
};

constexpr std::array benches{
    Bench{"drop", "64-byte frames to a container that drops them in XDP", bench_drop},
    Bench{"tx", "64-byte frames to a container that answers them by XDP_TX", bench_tx},
    Bench{"tcp", "TCP streams and request/response between containers and with a client", bench_tcp},
    Bench{"add", "time of CNI ADD and DEL", bench_add},
    Bench{"chain", "64-byte frames through chains of 1, 2 and 4 containers", bench_chain},
    Bench{"bridge", "frames, broadcast and TCP between the containers of a bridge", bench_bridge},
};

constexpr int exit_failed = 2;

std::string own_directory() {
    std::error_code none;
    return std::filesystem::read_symlink("/proc/self/exe", none).parent_path().string();
}

// A smoke run: every step once or twice, numbers of no worth. What was asked for by its own option stays.
void make_quick(const CLI::App& app, Settings& settings) {
    const auto unless_given = [&app](const char* option, auto& value, auto quick) {
        if (app.count(option) == 0) value = quick;
    };
    unless_given("--rounds", settings.rounds, 2U);
    unless_given("--seconds", settings.seconds, 0.3);
    unless_given("--endpoints", settings.endpoints, 10U);
    unless_given("--repeats", settings.repeats, 2U);
}

void add_options(CLI::App& app, Settings& settings) {
    app.add_option("--rounds", settings.rounds, "interleaved rounds; the median is reported")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--seconds", settings.seconds, "length of one measurement")
        ->check(CLI::Range(0.05, 600.0))
        ->capture_default_str();
    app.add_option("--flows", settings.flows, "UDP flows of the frame generator")
        ->check(CLI::Range(1, 50000))
        ->capture_default_str();
    app.add_option("--endpoints", settings.endpoints, "containers on the crowded node")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_option("--repeats", settings.repeats, "ADD and DEL pairs a round")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--bin-dir", settings.bin_dir, "folder of the xveth binary")->capture_default_str();
    app.add_option("--cni-path", settings.cni_path, "folder of ptp, bridge and host-local")->capture_default_str();
}

int run(const Bench& bench, const Settings& settings, bool json) {
    Report report(bench.name);
    auto done = enter_sandbox();
    if (done) done = bench.run(settings, report);
    if (!done) {
        std::cerr << "xvbench " << bench.name << ": " << done.error().text << '\n';
        return exit_failed;
    }
    std::cout << (json ? report.json() : report.table());
    return report.complete() ? 0 : exit_failed;
}

}  // namespace

int main(int argc, char** argv) {
    Settings settings{.bin_dir = own_directory(), .cni_path = "/usr/lib/cni"};
    bool json = false;
    bool quick = false;
    CLI::App app{"Measures xveth beside Debian's ptp and bridge plugins, in namespaces of its own."};
    add_options(app, settings);
    app.add_flag("--json", json, "print one JSON object");
    app.add_flag("--quick", quick, "a smoke run of a few seconds, whose numbers mean little");
    app.require_subcommand(1)->fallthrough();
    for (const auto& bench : benches) app.add_subcommand(bench.name, bench.what)->fallthrough();
    CLI11_PARSE(app, argc, argv);
    if (quick) make_quick(app, settings);
    for (const auto& bench : benches)
        if (app.got_subcommand(bench.name)) return run(bench, settings, json);
    return 1;
}
