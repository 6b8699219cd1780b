// SPDX-License-Identifier: Apache-2.0
#include "ctl/table.hpp"

#include <algorithm>

namespace xveth::ctl {

std::string format_table(const std::vector<std::vector<std::string>>& lines) {
    std::vector<std::size_t> widths;
    for (const auto& line : lines) {
        widths.resize(std::max(widths.size(), line.size()));
        for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    }
    std::string text;
    for (const auto& line : lines) {
        for (std::size_t i = 0; i < line.size(); ++i)
            text += line[i] + std::string(widths[i] - line[i].size() + 2, ' ');
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n';
    }
    return text;
}

}  // namespace xveth::ctl
