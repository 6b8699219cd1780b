// SPDX-License-Identifier: Apache-2.0
// The tables of a report, in the form of those that the kernel series of veth XDP, AF_XDP and cpumap GRO were sent with.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace xveth::bench {

enum class Show {
    value,    // with its unit and spread
    times,    // a ratio: "2.6 ×"
    percent,  // a share of the limit: "71 %"
};

struct Row {
    std::string label;
    std::string metric;  // {} stands for the column's key
    Show show = Show::value;
};

struct Column {
    std::string label;
    std::string key;
};

struct Table {
    std::string id;  // of its chart's file, and of its markers
    std::string title;
    std::string what;  // a sentence: what is measured
    std::vector<Column> columns;
    std::vector<Row> rows;
};

[[nodiscard]] const std::vector<Table>& tables();

// What a run of all benches wrote, by metric.
class Findings {
public:
    // Of the object that report.json holds.
    explicit Findings(const nlohmann::json& report);

    [[nodiscard]] const nlohmann::json* find(const std::string& metric) const;
    // Why a metric has no value; nullptr if nobody refused it.
    [[nodiscard]] const std::string* refusal(const std::string& metric) const;

private:
    std::map<std::string, nlohmann::json> results_;
    std::map<std::string, std::string> refusals_;
};

// The table as Markdown, between the markers that scripts/performance-page looks for; empty if nothing of it was measured.
[[nodiscard]] std::string markdown_table(const Table& table, const Findings& findings);
// Its absolute values as bars; empty if there are none.
[[nodiscard]] std::string chart_of(const Table& table, const Findings& findings);
// The machine and the run, between markers of their own.
[[nodiscard]] std::string markdown_run(const nlohmann::json& report);
// The whole page: the run, the tables with their charts, notes and refusals, and every metric.
[[nodiscard]] std::string markdown_page(const nlohmann::json& report);

}  // namespace xveth::bench
