// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace xveth::bpf {

struct NamedReason {
    std::uint32_t reason;
    std::string_view name;
};

// Every reason that the programs count, in the order of their numbers.
[[nodiscard]] std::span<const NamedReason> all_reasons();

}  // namespace xveth::bpf
