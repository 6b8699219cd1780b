// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.hpp"

namespace xveth::bpf {

// The content of an object file. What is loaded into the kernel in root's name must be root's: the directory and the file
// have to be root's and nobody else's to write, the file regular and reached without leaving the directory.
[[nodiscard]] Result<std::string> read_operator_file(const std::string& directory, const std::string& name);

}  // namespace xveth::bpf
