// SPDX-License-Identifier: Apache-2.0
// Loading the bridge's program and maps beside a node's: by the holder of the node lock.
#pragma once

#include "base/result.hpp"
#include "bpf-progs/loader/bpffs.hpp"

namespace xveth::bpf {

// Verifies and pins them; the program xv_bridge comes last, so that it stands for all. What an attempt that was cut off
// left is used.
[[nodiscard]] Result<void> load_bridge(const PinPaths& paths);

}  // namespace xveth::bpf
