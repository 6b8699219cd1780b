// SPDX-License-Identifier: Apache-2.0
#include "base/mounts.hpp"

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>

namespace xveth {

Result<void> enter_private_mounts() {
    if (::unshare(CLONE_NEWNS) != 0) return errno_error(errno, "make a mount namespace");
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        return errno_error(errno, "keep mounts from propagating");
    return ok();
}

}  // namespace xveth
