// SPDX-License-Identifier: Apache-2.0
// XDP on one device of the calling thread's namespace.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "bpf-progs/loader/objects.hpp"

namespace xveth::bpf {

// The program that a device carries, whoever attached it.
[[nodiscard]] Result<std::optional<AttachedProgram>> query_program(std::uint32_t ifindex);
// Whether programs sit at its tcx hooks.
[[nodiscard]] Result<bool> query_tcx(std::uint32_t ifindex);
// Attaches natively by a link; its errors carry code 101 and, where the kernel's errno has one cause, a hint.
[[nodiscard]] Result<UniqueFd> create_native_link(int program_fd, std::uint32_t ifindex);
[[nodiscard]] Result<LinkInfo> describe_link(int link_fd);
[[nodiscard]] Result<std::uint32_t> id_of_program(int program_fd);

}  // namespace xveth::bpf
