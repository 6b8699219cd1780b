// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.hpp"

#include <gmock/gmock.h>

namespace xveth::bench {
namespace {

using testing::ElementsAre;

TEST(Samples, MedianOfAnOddNumberIsTheMiddleOne) { EXPECT_DOUBLE_EQ((Samples{{9, 1, 2}}.median()), 2); }

TEST(Samples, MedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo) { EXPECT_DOUBLE_EQ((Samples{{10, 1, 4, 2}}.median()), 3); }

TEST(Samples, KnowsItsExtremes) {
    const Samples samples{{3, -1, 7}};
    EXPECT_DOUBLE_EQ(samples.min(), -1);
    EXPECT_DOUBLE_EQ(samples.max(), 7);
}

TEST(Ratios, AreTakenRoundByRound) { EXPECT_THAT(ratios(Samples{{4, 9}}, Samples{{2, 3}}).values, ElementsAre(2, 3)); }

Series recorder(const std::string& name, std::vector<std::string>& order) {
    return {.metric = name, .unit = "x", .measure = [name, &order]() -> Result<double> {
                order.push_back(name);
                return static_cast<double>(order.size());
            }};
}

TEST(Interleave, GoesBackEverySecondRound) {
    std::vector<std::string> order;
    std::vector<Series> series{recorder("a", order), recorder("b", order)};
    interleave(series, 3);
    EXPECT_THAT(order, ElementsAre("a", "b", "b", "a", "a", "b"));
    EXPECT_THAT(series[0].samples.values, ElementsAre(1, 4, 5));
    EXPECT_THAT(series[1].samples.values, ElementsAre(2, 3, 6));
}

TEST(Interleave, KeepsTheFirstReasonAndStopsMeasuringThatSeries) {
    std::vector<std::string> order;
    int calls = 0;
    std::vector<Series> series{recorder("good", order),
                               {.metric = "bad", .unit = "x", .measure = [&calls]() -> Result<double> {
                                    ++calls;
                                    return Error{.code = 0, .errno_value = 0, .text = "frames are missing", .hint = {}};
                                }}};
    interleave(series, 3);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(series[1].refusal, "frames are missing");
    EXPECT_TRUE(series[1].samples.values.empty());
    EXPECT_EQ(series[0].samples.values.size(), 3U);
}

}  // namespace
}  // namespace xveth::bench
