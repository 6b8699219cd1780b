// SPDX-License-Identifier: Apache-2.0
#include "bench/chart.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace xveth::bench {
namespace {

constexpr int width = 760;
constexpr int label_width = 250;
constexpr int value_width = 110;
constexpr int line_height = 22;
constexpr int bar_height = 14;
constexpr int head_height = 40;

constexpr auto style =
    "<style>text{font:13px sans-serif;fill:#24292f}.head{font-weight:bold}.ours{fill:#2f6f9f}.other{fill:#b6bcc2}"
    ".spread{stroke:#24292f;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#d0d7de}.ours{fill:#58a6d6}.other{fill:#6e7781}"
    ".spread{stroke:#d0d7de}}</style>\n";

std::string escaped(const std::string& text) {
    std::string safe;
    for (const char c : text) {
        if (c == '<')
            safe += "&lt;";
        else if (c == '&')
            safe += "&amp;";
        else
            safe += c;
    }
    return safe;
}

std::string attribute(const char* name, double value) {
    return std::string(" ") + name + "=\"" + with_decimals(value, 0) + "\"";
}

std::string text_at(int x, int y, const std::string& text, const char* more = "") {
    return "<text" + attribute("x", x) + attribute("y", y) + more + ">" + escaped(text) + "</text>\n";
}

double greatest(const std::vector<BarGroup>& groups) {
    double most = 0;
    for (const auto& group : groups)
        for (const auto& bar : group.bars) most = std::max({most, bar.value, bar.max});
    return most > 0 ? most : 1;
}

std::string draw(const Bar& bar, int y, double most) {
    const auto x_of = [most](double value) { return label_width + value / most * (width - label_width - value_width); };
    const double middle = y + bar_height / 2.0;
    return text_at(label_width - 8, y + 11, bar.label, " text-anchor=\"end\"") + "<rect class=\"" +
           (bar.ours ? "ours" : "other") + "\"" + attribute("x", label_width) + attribute("y", y) +
           attribute("width", x_of(bar.value) - label_width) + attribute("height", bar_height) + "/>\n" +
           "<line class=\"spread\"" + attribute("x1", x_of(bar.min)) + attribute("y1", middle) +
           attribute("x2", x_of(bar.max)) + attribute("y2", middle) + "/>\n" +
           text_at(static_cast<int>(x_of(bar.max)) + 8, y + 11, short_number(bar.value));
}

}  // namespace

std::string with_decimals(double value, int decimals) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
    return text.data();
}

std::string short_number(double value) {
    if (value >= 100) return with_decimals(value, 0);
    return with_decimals(value, value >= 10 ? 1 : 2);
}

std::string bar_chart(const std::string& title, const std::string& unit, const std::vector<BarGroup>& groups) {
    const double most = greatest(groups);
    std::string body = text_at(8, 22, title + ", " + unit, " class=\"head\"");
    int y = head_height;
    for (const auto& group : groups) {
        body += text_at(8, y + 11, group.title, " class=\"head\"");
        if (!group.title.empty()) y += line_height;
        for (const auto& bar : group.bars) {
            body += draw(bar, y, most);
            y += line_height;
        }
        y += line_height / 2;
    }
    const auto size = with_decimals(width, 0) + " " + with_decimals(y, 0);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) + attribute("height", y) +
           " viewBox=\"0 0 " + size + "\">\n" + style + body + "</svg>\n";
}

}  // namespace xveth::bench
