// SPDX-License-Identifier: Apache-2.0
// The CNI_* variables: which verb needs which, and what is a value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "attachment/net_conf.hpp"
#include "base/result.hpp"

namespace xveth::cni {

enum class Verb : std::uint8_t { add, del, check, gc, status, version };

// A variable's value; nothing when it is not set, which means the same as empty.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

[[nodiscard]] std::string value_of(const Lookup& environment, const char* name);

// Reads and checks what `verb` needs. Code 4 names every variable that is missing, or the first wrong one.
[[nodiscard]] Result<attachment::Request> read_request(const Lookup& environment, Verb verb);

}  // namespace xveth::cni
