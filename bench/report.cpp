// SPDX-License-Identifier: Apache-2.0
#include "bench/report.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace xveth::bench {
namespace {

constexpr auto ratio_unit = "ratio";

std::string processor_name() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.starts_with("model name"))
            if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
    return "unknown";
}

nlohmann::json machine() {
    utsname name{};
    ::uname(&name);
    const auto pages = ::sysconf(_SC_PHYS_PAGES);
    return {{"kernel", name.release},
            {"architecture", name.machine},
            {"processor", processor_name()},
            {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
            {"memory_mib", pages / 1024 * ::sysconf(_SC_PAGESIZE) / 1024}};
}

std::string line_of(const std::string& metric, const std::string& unit, const Samples& samples) {
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%-34s %10.3f  %10.3f  %10.3f  %s\n", metric.c_str(), samples.median(),
                  samples.min(), samples.max(), unit.c_str());
    return line.data();
}

}  // namespace

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

std::string Report::json() const {
    nlohmann::json results = nlohmann::json::array();
    for (const auto& row : ratios_first(rows_))
        results.push_back({{"metric", row.metric},
                           {"unit", row.unit},
                           {"median", row.samples.median()},
                           {"min", row.samples.min()},
                           {"max", row.samples.max()},
                           {"samples", row.samples.values.size()}});
    const nlohmann::json object = {
        {"bench", bench_}, {"machine", machine()}, {"results", results}, {"notes", notes_}, {"refused", refusals_}};
    return object.dump(2) + "\n";
}

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
