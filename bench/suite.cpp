// SPDX-License-Identifier: Apache-2.0
#include "bench/suite.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>
#include <iostream>

#include "base/files.hpp"
#include "base/unique_fd.hpp"
#include "bench/tables.hpp"
#include "bench/topology.hpp"

namespace xveth::bench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

json failure(const Bench& bench, const std::string& why) { return {{"bench", bench.name}, {"failed", why}}; }

json run_here(const Bench& bench, const Settings& settings) {
    Report report(bench.name);
    auto done = enter_sandbox();
    if (done) done = bench.run(settings, report);
    return done ? report.object() : failure(bench, done.error().text);
}

[[noreturn]] void child(const Bench& bench, const Settings& settings, pid_t parent, int answer) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it died before it could be watched
    const auto written = write_all(answer, run_here(bench, settings).dump(), "report");
    ::_exit(written ? 0 : 1);
}

json run_apart(const Bench& bench, const Settings& settings) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return failure(bench, errno_error(errno, "make a pipe").text);
    const UniqueFd read{pipe[0]};
    UniqueFd write{pipe[1]};
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) return failure(bench, errno_error(errno, "fork").text);
    if (pid == 0) child(bench, settings, parent, write.get());
    write.reset();
    const auto answer = read_all(read.get(), "report");
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    auto object = answer ? json::parse(*answer, nullptr, false) : json();
    if (object.is_object()) return object;
    return failure(bench, WIFSIGNALED(status) ? "ended by signal " + std::to_string(WTERMSIG(status)) : "no report");
}

std::string today() {
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::array<char, 16> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d", std::gmtime(&now));
    return text.data();
}

}  // namespace

json run_suite(std::span<const Bench> benches, const Settings& settings) {
    const auto start = Clock::now();
    json report = {{"machine", machine_facts()},
                   {"version", XVETH_VERSION},
                   {"day", today()},
                   {"settings", {{"rounds", settings.rounds}, {"seconds", settings.seconds}}},
                   {"benches", json::array()}};
    for (const auto& bench : benches) {
        std::cerr << "xvbench: " << bench.name << ": " << bench.what << " …" << std::flush;
        const auto began = Clock::now();
        auto object = run_apart(bench, settings);
        object.erase("machine");
        object["took_seconds"] = std::lround(seconds_since(began));
        std::cerr << ' ' << object["took_seconds"] << " s" << (object.contains("failed") ? ", FAILED" : "") << '\n';
        report["benches"].push_back(std::move(object));
    }
    report["took_seconds"] = std::lround(seconds_since(start));
    return report;
}

bool complete(const json& report) {
    return std::ranges::none_of(report["benches"], [](const json& bench) {
        return bench.contains("failed") || !bench.value("refused", json::array()).empty();
    });
}

Result<void> write_pages(const json& report, const std::string& directory) {
    const Findings findings(report);
    for (const auto& table : tables()) {
        const auto chart = chart_of(table, findings);
        if (chart.empty()) continue;
        if (auto written = write_file_atomically(directory + "/" + table.id + ".svg", chart, 0644); !written)
            return written;
    }
    return write_file_atomically(directory + "/report.md", markdown_page(report), 0644);
}

Result<void> write_report(const json& report, const std::string& directory) {
    if (auto written = write_file_atomically(directory + "/report.json", report.dump(2) + "\n", 0644); !written)
        return written;
    return write_pages(report, directory);
}

Result<json> read_report(const std::string& directory) {
    const auto path = directory + "/report.json";
    const auto text = read_file(path);
    if (!text) return text.error();
    auto report = json::parse(*text, nullptr, false);
    if (!report.is_object() || !report.contains("benches") || !report.contains("machine"))
        return Error{.code = 0, .errno_value = 0, .text = path + ": not a report of xvbench all", .hint = {}};
    return report;
}

}  // namespace xveth::bench
