// SPDX-License-Identifier: Apache-2.0
#include "bench/report.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace xveth::bench {
namespace {

constexpr auto ratio_unit = "ratio";

// The first line of /proc/cpuinfo with this name; nothing if there is none.
std::string processor_fact(const std::string& name) {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.starts_with(name))
            if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
    return {};
}

std::string first_line(const char* path) {
    std::string line;
    std::getline(std::ifstream(path), line);
    return line;
}

std::string or_unknown(std::string text) { return text.empty() ? "unknown" : std::move(text); }

std::string line_of(const std::string& metric, const std::string& unit, const Samples& samples) {
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%-34s %10.3f  %10.3f  %10.3f  %s\n", metric.c_str(), samples.median(),
                  samples.min(), samples.max(), unit.c_str());
    return line.data();
}

// Of the last minute: numbers that were measured on a busy machine are of little worth.
double load_average() {
    double load = 0;
    return ::getloadavg(&load, 1) == 1 ? load : -1;
}

}  // namespace

nlohmann::json machine_facts() {
    utsname name{};
    ::uname(&name);
    const auto pages = ::sysconf(_SC_PHYS_PAGES);
    return {{"kernel", name.release},
            {"architecture", name.machine},
            {"processor", or_unknown(processor_fact("model name"))},
            {"virtual", processor_fact("flags").find(" hypervisor") != std::string::npos},
            {"spectre_v2", or_unknown(first_line("/sys/devices/system/cpu/vulnerabilities/spectre_v2"))},
            {"load", load_average()},
            {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
            {"memory_mib", pages / 1024 * ::sysconf(_SC_PAGESIZE) / 1024}};
}

std::vector<Report::Row> Report::ratios_first(std::vector<Row> rows) {
    std::ranges::stable_partition(rows, [](const Row& row) { return row.unit == ratio_unit; });
    return rows;
}

void Report::add(const std::string& metric, const std::string& unit, const Samples& samples) {
    if (!samples.values.empty()) rows_.push_back({.metric = metric, .unit = unit, .samples = samples});
}

void Report::add(const Series& series) {
    if (series.refusal.empty())
        add(series.metric, series.unit, series.samples);
    else
        refusals_.push_back(series.metric + ": " + series.refusal);
}

void Report::add_ratio(const std::string& metric, const Series& a, const Series& b) {
    if (a.refusal.empty() && b.refusal.empty()) {
        add(metric, ratio_unit, ratios(a.samples, b.samples));
        return;
    }
    const auto& culprit = a.refusal.empty() ? b : a;
    refusals_.push_back(metric + ": no ratio, because " + culprit.metric + " could not be measured");
}

nlohmann::json Report::object() const {
    nlohmann::json results = nlohmann::json::array();
    for (const auto& row : ratios_first(rows_))
        results.push_back({{"metric", row.metric},
                           {"unit", row.unit},
                           {"median", row.samples.median()},
                           {"min", row.samples.min()},
                           {"max", row.samples.max()},
                           {"samples", row.samples.values.size()}});
    return {{"bench", bench_},
            {"machine", machine_facts()},
            {"results", results},
            {"notes", notes_},
            {"refused", refusals_}};
}

std::string Report::json() const { return object().dump(2) + "\n"; }

std::string Report::table() const {
    std::array<char, 160> head{};
    std::snprintf(head.data(), head.size(), "%-34s %10s  %10s  %10s  %s\n", bench_.c_str(), "median", "min", "max",
                  "unit");
    std::string text = head.data();
    for (const auto& row : ratios_first(rows_)) text += line_of(row.metric, row.unit, row.samples);
    for (const auto& note : notes_) text += "note: " + note + "\n";
    for (const auto& refusal : refusals_) text += "refused: " + refusal + "\n";
    return text;
}

}  // namespace xveth::bench
