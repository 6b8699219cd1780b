// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace xveth::ctl {

// Lines of cells for people: columns as wide as their widest cell, two spaces between, nothing at a line's end. The first
// line is the heading.
[[nodiscard]] std::string format_table(const std::vector<std::vector<std::string>>& lines);

}  // namespace xveth::ctl
