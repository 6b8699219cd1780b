// SPDX-License-Identifier: Apache-2.0
// Interleaved measurements: the machine's mood changes by the minute, so what is compared runs side by side.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace xveth::bench {

struct Samples {
    std::vector<double> values;

    [[nodiscard]] double median() const;  // of at least one value
    [[nodiscard]] double min() const;
    [[nodiscard]] double max() const;
};

// One thing that is measured once a round. When a measurement fails (also: the work was not what was asked for), the
// first reason is kept and the series is not measured again: there will be no number, and no ratio from it.
struct Series {
    std::string metric;
    std::string unit;
    std::function<Result<double>()> measure;
    Samples samples{};
    std::string refusal{};
};

// `rounds` times each series in turn, every other round in reverse order.
void interleave(std::vector<Series>& series, unsigned rounds);

// Round by round a / b.
[[nodiscard]] Samples ratios(const Samples& a, const Samples& b);

}  // namespace xveth::bench
