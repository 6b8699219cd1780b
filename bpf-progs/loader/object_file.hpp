// SPDX-License-Identifier: Apache-2.0
// What loading one of our object files has in common with the others: its log, and the pins of its maps and programs.
#pragma once

#include <bpf/libbpf.h>

#include <string>

#include "base/result.hpp"
#include "bpf-progs/loader/log_capture.hpp"

namespace xveth::bpf {

// Why the kernel refused to load, with the log's last words and the cure where there is one.
[[nodiscard]] Error load_error(int err, const LogCapture& log);

[[nodiscard]] Result<void> pin(int fd, const std::string& path);
// Pins each map in `dir` under its name; those that are pinned there stay.
[[nodiscard]] Result<void> pin_maps(struct bpf_object* object, const std::string& dir);
// Pins each loaded program in `dir`.
[[nodiscard]] Result<void> pin_programs(struct bpf_object* object, const std::string& dir);
// Before the load: maps that are pinned in `dir` are used instead of new ones.
[[nodiscard]] Result<void> reuse_pinned_maps(struct bpf_object* object, const std::string& dir);

}  // namespace xveth::bpf
