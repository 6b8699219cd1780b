// SPDX-License-Identifier: Apache-2.0
#include "bench/report.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace xveth::bench {
namespace {

using testing::HasSubstr;

Series series(const std::string& metric, std::vector<double> values) {
    return {.metric = metric, .unit = "Mpps", .measure = {}, .samples = {std::move(values)}};
}

Series refused(const std::string& metric, const std::string& why) {
    return {.metric = metric, .unit = "Mpps", .measure = {}, .samples = {}, .refusal = why};
}

TEST(Report, WritesTheObjectOfTheContractWithRatiosFirst) {
    Report report("drop");
    report.add(series("drop.xveth", {2, 4, 6}));
    report.add(series("drop.ptp", {1, 2, 3}));
    report.add_ratio("drop.vs_ptp", series("drop.xveth", {2, 4, 6}), series("drop.ptp", {1, 2, 2}));
    const auto object = nlohmann::json::parse(report.json());
    EXPECT_EQ(object["bench"], "drop");
    EXPECT_GE(object["machine"]["cpus"].get<int>(), 1);
    ASSERT_EQ(object["results"].size(), 3U);
    EXPECT_EQ(object["results"][0]["metric"], "drop.vs_ptp");
    EXPECT_EQ(object["results"][0]["unit"], "ratio");
    EXPECT_DOUBLE_EQ(object["results"][0]["median"].get<double>(), 2);
    EXPECT_DOUBLE_EQ(object["results"][0]["max"].get<double>(), 3);
    EXPECT_EQ(object["results"][1]["metric"], "drop.xveth");
    EXPECT_EQ(object["results"][1]["unit"], "Mpps");
    EXPECT_DOUBLE_EQ(object["results"][1]["median"].get<double>(), 4);
    EXPECT_DOUBLE_EQ(object["results"][1]["min"].get<double>(), 2);
    EXPECT_TRUE(report.complete());
}

TEST(Report, RefusesARatioOfUnequalWork) {
    Report report("drop");
    const auto bad = refused("drop.xveth", "unequal work: 1 of 2 frames arrived");
    report.add(bad);
    report.add_ratio("drop.vs_ptp", bad, series("drop.ptp", {1}));
    const auto object = nlohmann::json::parse(report.json());
    EXPECT_TRUE(object["results"].empty());
    ASSERT_EQ(object["refused"].size(), 2U);
    EXPECT_EQ(object["refused"][0], "drop.xveth: unequal work: 1 of 2 frames arrived");
    EXPECT_EQ(object["refused"][1], "drop.vs_ptp: no ratio, because drop.xveth could not be measured");
    EXPECT_FALSE(report.complete());
}

TEST(Report, TableHasARowForEachMetricAndTheNotes) {
    Report report("add");
    report.add(series("add.ptp", {7.25}));
    report.note("smaller is better");
    EXPECT_THAT(report.table(), HasSubstr("add.ptp"));
    EXPECT_THAT(report.table(), HasSubstr("7.250"));
    EXPECT_THAT(report.table(), HasSubstr("note: smaller is better\n"));
}

}  // namespace
}  // namespace xveth::bench
