// SPDX-License-Identifier: Apache-2.0
// The CNI protocol as a function of environment and stdin: it reads no variable and writes no file by itself.
#pragma once

#include <functional>
#include <string>

#include "base/result.hpp"
#include "cni-plugin/environment.hpp"
#include "cni-plugin/verbs.hpp"

namespace xveth::cni {

// What the process writes, and how it ends.
struct Reply {
    std::string out;
    std::string err;
    int exit_code = 0;
};

// Called at most once, and not at all without CNI_COMMAND: somebody at a terminal is waited for by nobody.
using ReadInput = std::function<Result<std::string>()>;

[[nodiscard]] Reply answer(const Lookup& environment, const ReadInput& read_input, const Verbs& verbs);

// The error object of the specification, in `version`'s name; a code of 0 becomes 999.
[[nodiscard]] Reply refuse(const Error& error, const std::string& version);

}  // namespace xveth::cni
