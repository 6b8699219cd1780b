// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.hpp"

namespace xveth {

// Puts the calling process into a mount namespace of its own, from which nothing propagates: what it mounts from here on
// is seen by its children alone and is gone with the last of them. Call it before any thread is started.
[[nodiscard]] Result<void> enter_private_mounts();

}  // namespace xveth
