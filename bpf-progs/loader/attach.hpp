// SPDX-License-Identifier: Apache-2.0
// XDP on one device of the calling thread's namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/netns.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "bpf-progs/loader/objects.hpp"

namespace xveth::bpf {

// The program that a device carries, whoever attached it.
[[nodiscard]] Result<std::optional<AttachedProgram>> query_program(std::uint32_t ifindex);
// Whether programs other than `own` sit at its tcx hooks.
[[nodiscard]] Result<bool> query_tcx(std::uint32_t ifindex, std::uint32_t own);
// Attaches natively by a link; its errors carry code 101 and, where the kernel's errno has one cause, a hint.
[[nodiscard]] Result<UniqueFd> create_native_link(int program_fd, std::uint32_t ifindex);
[[nodiscard]] Result<LinkInfo> describe_link(int link_fd);

// The same in namespace `ns`, pinned at `path`; a dead link that is pinned there gives way.
[[nodiscard]] Result<void> attach_and_pin(const Netns& ns, std::uint32_t ifindex, int program_fd,
                                          const std::string& path);
// A tc program at a device's tcx egress hook, likewise; code 106 where the kernel has none.
[[nodiscard]] Result<void> attach_egress_and_pin(const Netns& ns, std::uint32_t ifindex, int program_fd,
                                                 const std::string& path);
[[nodiscard]] Result<std::optional<LinkInfo>> find_pinned_link(const std::string& path);
[[nodiscard]] Result<void> detach_and_unpin(const std::string& path);
[[nodiscard]] Result<std::uint32_t> id_of_program(int program_fd);

}  // namespace xveth::bpf
