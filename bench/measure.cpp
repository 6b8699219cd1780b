// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.hpp"

#include <algorithm>
#include <ranges>

namespace xveth::bench {
namespace {

void measure_once(Series& series) {
    if (!series.refusal.empty()) return;
    auto value = series.measure();
    if (value)
        series.samples.values.push_back(*value);
    else
        series.refusal = value.error().text;
}

}  // namespace

double Samples::median() const {
    auto sorted = values;
    std::ranges::sort(sorted);
    const std::size_t middle = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Samples::min() const { return *std::ranges::min_element(values); }

double Samples::max() const { return *std::ranges::max_element(values); }

void interleave(std::vector<Series>& series, unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round) {
        if (round % 2 == 0)
            std::ranges::for_each(series, measure_once);
        else
            std::ranges::for_each(std::views::reverse(series), measure_once);
    }
}

Samples ratios(const Samples& a, const Samples& b) {
    Samples result;
    for (std::size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i)
        result.values.push_back(a.values[i] / b.values[i]);
    return result;
}

}  // namespace xveth::bench
