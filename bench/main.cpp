// SPDX-License-Identifier: Apache-2.0
// xvbench: what xveth costs and gains, measured beside the reference plugins.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "base/files.hpp"
#include "bench/benches.hpp"
#include "bench/suite.hpp"
#include "bench/tables.hpp"
#include "bench/topology.hpp"

namespace {

using namespace xveth;
using namespace xveth::bench;

constexpr std::array benches{
    Bench{"drop", "64-byte frames to a container that drops them in XDP", bench_drop},
    Bench{"tx", "64-byte frames to a container that answers them by XDP_TX", bench_tx},
    Bench{"tcp", "TCP streams and request/response between containers and with a client", bench_tcp},
    Bench{"add", "time of CNI ADD and DEL", bench_add},
    Bench{"chain", "64-byte frames through chains of 1, 2 and 4 containers", bench_chain},
    Bench{"bridge", "frames, broadcast and TCP between the containers of a bridge", bench_bridge},
};

constexpr int exit_failed = 2;

struct Output {
    bool json = false;
    std::string directory;  // of the report of all benches
};

std::string own_directory() {
    std::error_code none;
    return std::filesystem::read_symlink("/proc/self/exe", none).parent_path().string();
}

struct Length {
    unsigned rounds;
    double seconds;
    unsigned endpoints;
    unsigned repeats;
};
// A smoke run: every step once or twice, numbers of no worth.
constexpr Length quick_length{.rounds = 2, .seconds = 0.3, .endpoints = 10, .repeats = 2};
// All benches, in minutes.
constexpr Length suite_length{.rounds = 5, .seconds = 0.5, .endpoints = 100, .repeats = 5};

// What was asked for by its own option stays.
void choose_length(const CLI::App& app, const Length& length, Settings& settings) {
    const auto unless_given = [&app](const char* option, auto& value, auto chosen) {
        if (app.count(option) == 0) value = chosen;
    };
    unless_given("--rounds", settings.rounds, length.rounds);
    unless_given("--seconds", settings.seconds, length.seconds);
    unless_given("--endpoints", settings.endpoints, length.endpoints);
    unless_given("--repeats", settings.repeats, length.repeats);
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

int fail(const std::string& what, const Error& error) {
    std::cerr << "xvbench " << what << ": " << error.text << '\n';
    return exit_failed;
}

int run(const Bench& bench, const Settings& settings, bool json) {
    Report report(bench.name);
    auto done = enter_sandbox();
    if (done) done = bench.run(settings, report);
    if (!done) return fail(bench.name, done.error());
    std::cout << (json ? report.json() : report.table());
    return report.complete() ? 0 : exit_failed;
}

// The directory is made first: not after minutes shall it show that nothing can be written there.
int run_all(const Settings& settings, const Output& output) {
    if (!output.directory.empty())
        if (auto made = make_directories(output.directory, 0755); !made) return fail("all", made.error());
    const auto report = run_suite(benches, settings);
    if (!output.directory.empty())
        if (auto written = write_report(report, output.directory); !written) return fail("all", written.error());
    if (output.json || output.directory.empty())
        std::cout << (output.json ? report.dump(2) + "\n" : markdown_page(report));
    return complete(report) ? 0 : exit_failed;
}

int render(const Output& output) {
    const auto report = read_report(output.directory);
    if (!report) return fail("render", report.error());
    if (auto written = write_pages(*report, output.directory); !written) return fail("render", written.error());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Settings settings{.bin_dir = own_directory(), .cni_path = "/usr/lib/cni"};
    Output output;
    bool quick = false;
    CLI::App app{"Measures xveth beside Debian's ptp and bridge plugins, in namespaces of its own."};
    add_options(app, settings);
    app.add_flag("--json", output.json, "print one JSON object");
    app.add_flag("--quick", quick, "a smoke run of a few seconds, whose numbers mean little");
    app.require_subcommand(1)->fallthrough();
    for (const auto& bench : benches) app.add_subcommand(bench.name, bench.what)->fallthrough();
    auto* all = app.add_subcommand("all", "every bench, and a report with tables and charts")->fallthrough();
    all->add_option("--report", output.directory, "where report.json, report.md and the charts go");
    auto* rendered = app.add_subcommand("render", "report.md and the charts again from a report.json; needs no root");
    rendered->add_option("--report", output.directory, "where report.json is")->required();
    CLI11_PARSE(app, argc, argv);
    if (rendered->parsed()) return render(output);
    if (all->parsed()) choose_length(app, suite_length, settings);
    if (quick) choose_length(app, quick_length, settings);
    for (const auto& bench : benches)
        if (app.got_subcommand(bench.name)) return run(bench, settings, output.json);
    return run_all(settings, output);
}
