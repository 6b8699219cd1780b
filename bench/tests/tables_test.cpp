// SPDX-License-Identifier: Apache-2.0
// The form of the report: tables, charts, what is missing and what was refused.
#include "bench/tables.hpp"

#include <gmock/gmock.h>

#include "bench/chart.hpp"

namespace xveth::bench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

json result(const std::string& metric, const std::string& unit, double median, double min, double max) {
    return {{"metric", metric}, {"unit", unit}, {"median", median}, {"min", min}, {"max", max}, {"samples", 3}};
}

json report_of(json results, json refused = json::array()) {
    return {{"machine", {{"processor", "Z80"}, {"cpus", 1}}},
            {"version", "1.2.3"},
            {"day", "2026-01-31"},
            {"settings", {{"rounds", 3}, {"seconds", 0.5}}},
            {"benches", json::array({{{"bench", "sample"},
                                      {"results", std::move(results)},
                                      {"notes", {"a note"}},
                                      {"refused", std::move(refused)}}})}};
}

const Table sample{.id = "sample",
                   .title = "A sample",
                   .what = "What it is.",
                   .columns = {{"1 flow", ""}, {"2 flows", "_2_flows"}},
                   .rows = {{"xveth", "drop{}.xveth"},
                            {"share of the limit", "drop{}.vs_nic_drop", Show::percent},
                            {"xveth ÷ ptp", "drop{}.vs_ptp", Show::times},
                            {"ptp", "drop{}.ptp"},
                            {"never measured", "drop{}.nothing"}}};

const json measured =
    json::array({result("drop.xveth", "Mpps", 2.104, 2, 2.2), result("drop.ptp", "Mpps", 0.81, 0.8, 0.9),
                 result("drop.vs_ptp", "ratio", 2.6, 2.5, 2.7), result("drop.vs_nic_drop", "ratio", 0.713, 0.7, 0.72),
                 result("drop_2_flows.xveth", "Mpps", 4.1, 4, 4.3)});

TEST(MarkdownTable, HasARowForEachThingMeasuredAndAColumnForEachKey) {
    EXPECT_EQ(markdown_table(sample, Findings(report_of(measured))),
              "<!-- xvbench: sample -->\n"
              "What it is.\n"
              "\n"
              "| | 1 flow | 2 flows |\n"
              "|---|---:|---:|\n"
              "| xveth | 2.10 Mpps (2.00–2.20) | 4.10 Mpps (4.00–4.30) |\n"
              "| share of the limit | **71 %** (70–72) | – |\n"
              "| xveth ÷ ptp | **2.60 ×** (2.50–2.70) | – |\n"
              "| ptp | 0.81 Mpps (0.80–0.90) | – |\n"
              "<!-- end of sample -->\n");
}

TEST(MarkdownTable, SaysWhatWasRefusedAndWhy) {
    const auto findings =
        Findings(report_of(json::array(), {"drop.xveth: unequal work: 1 of 2 frames arrived",
                                           "drop.vs_ptp: no ratio, because drop.xveth could not be measured"}));
    const auto text = markdown_table(sample, findings);
    EXPECT_THAT(text, HasSubstr("| xveth | refused | – |\n"));
    EXPECT_THAT(text, HasSubstr("| xveth ÷ ptp | refused | – |\n"));
    EXPECT_THAT(text, HasSubstr("\n- refused: drop.xveth: unequal work: 1 of 2 frames arrived\n"));
}

TEST(MarkdownTable, IsEmptyWhenNothingOfItWasMeasured) {
    EXPECT_EQ(markdown_table(sample, Findings(report_of(json::array()))), "");
    EXPECT_EQ(chart_of(sample, Findings(report_of(json::array()))), "");
}

TEST(Chart, HasTheAbsoluteValuesOnly) {
    const auto chart = chart_of(sample, Findings(report_of(measured)));
    EXPECT_THAT(chart, HasSubstr(">A sample, Mpps</text>"));
    EXPECT_THAT(chart, HasSubstr(">2.10</text>"));
    EXPECT_THAT(chart, HasSubstr(">0.81</text>"));
    EXPECT_THAT(chart, HasSubstr(">4.10</text>"));
    EXPECT_THAT(chart, Not(HasSubstr(">2.60</text>")));
}

TEST(Chart, DrawsTheGreatestSpreadOverTheWholeWidthAndEscapesText) {
    const auto chart = bar_chart("a < b", "Mpps", {{"", {{"x & y", 2, 1, 4, true}}}});
    EXPECT_THAT(chart, HasSubstr(">a &lt; b, Mpps</text>"));
    EXPECT_THAT(chart, HasSubstr(">x &amp; y</text>"));
    EXPECT_THAT(chart, HasSubstr("<rect class=\"ours\" x=\"250\" y=\"40\" width=\"200\""));
    EXPECT_THAT(chart, HasSubstr("x1=\"350\" y1=\"47\" x2=\"650\""));
}

TEST(ShortNumber, HasThreeDigits) {
    EXPECT_EQ(short_number(0.4567), "0.46");
    EXPECT_EQ(short_number(12.345), "12.3");
    EXPECT_EQ(short_number(20729.4), "20729");
}

TEST(MarkdownPage, NamesTheMachineTheRunTheNotesAndEveryMetric) {
    const auto page = markdown_page(report_of(measured, {"drop.xveth: it was not measured"}));
    EXPECT_THAT(page, HasSubstr("| processor | Z80 |\n"));
    EXPECT_THAT(page, HasSubstr("| xveth | 1.2.3 |\n"));
    EXPECT_THAT(page, HasSubstr("| rounds | 3 of 0.5 s, interleaved; shown: median (min–max) |\n"));
    EXPECT_THAT(page, HasSubstr("- sample: a note\n"));
    EXPECT_THAT(page, HasSubstr("- sample, refused: drop.xveth: it was not measured\n"));
    EXPECT_THAT(page, HasSubstr("| drop_2_flows.xveth | 4.10 | 4.00 | 4.30 | Mpps |\n"));
}

TEST(MarkdownPage, SaysWhichBenchFailed) {
    auto report = report_of(json::array());
    report["benches"].push_back({{"bench", "tx"}, {"failed", "no plugin"}});
    EXPECT_THAT(markdown_page(report), HasSubstr("- tx failed: no plugin\n"));
}

TEST(Tables, HaveIdsOfTheirOwn) {
    std::set<std::string> ids;
    for (const auto& table : tables()) EXPECT_TRUE(ids.insert(table.id).second) << table.id;
}

}  // namespace
}  // namespace xveth::bench
