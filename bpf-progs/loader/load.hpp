// SPDX-License-Identifier: Apache-2.0
// Loading a node's programs and maps: once per node, by the holder of the node lock.
#pragma once

#include "base/result.hpp"
#include "bpf-progs/loader/bpffs.hpp"

namespace xveth::bpf {

// Verifies and pins everything in a directory of its own, then renames that to paths.node(). When somebody else has
// published meanwhile, theirs counts and ours is discarded. The error's text ends with libbpf's and the verifier's words.
// `conntrack`: the variant that asks conntrack, which needs the kernel's functions.
[[nodiscard]] Result<void> load_and_publish(const PinPaths& paths, bool conntrack);

// Whether this kernel lets XDP programs look up and insert conntrack entries, now: nf_conntrack may be a module.
[[nodiscard]] bool kernel_has_conntrack_functions();

}  // namespace xveth::bpf
