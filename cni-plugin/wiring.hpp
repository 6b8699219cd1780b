// SPDX-License-Identifier: Apache-2.0
// The verbs over the real kernel.
#pragma once

#include "attachment/log.hpp"
#include "cni-plugin/verbs.hpp"

namespace xveth::cni {

// Opens the node that the process runs on anew for each call. `log` has to outlive the answer.
[[nodiscard]] Verbs system_verbs(const attachment::Log& log);

}  // namespace xveth::cni
