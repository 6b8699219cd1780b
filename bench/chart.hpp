// SPDX-License-Identifier: Apache-2.0
// Bar charts as SVG, drawn without a library: the report must be made wherever xvbench runs.
#pragma once

#include <string>
#include <vector>

namespace xveth::bench {

struct Bar {
    std::string label;
    double value = 0;
    double min = 0;  // the spread is drawn as a line from min to max
    double max = 0;
    bool ours = false;  // xveth's bars have the colour
};

struct BarGroup {
    std::string title;
    std::vector<Bar> bars;
};

// Groups of horizontal bars, all on one scale that begins at 0.
[[nodiscard]] std::string bar_chart(const std::string& title, const std::string& unit,
                                    const std::vector<BarGroup>& groups);

[[nodiscard]] std::string with_decimals(double value, int decimals);
// Three significant digits, as tables and charts show values.
[[nodiscard]] std::string short_number(double value);

}  // namespace xveth::bench
