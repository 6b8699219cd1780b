// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/netns.hpp"
#include "base/result.hpp"

namespace xveth {

// Kernel parameters below /proc/sys, with slashes ("net/ipv4/ip_forward"); those below net/ are the calling thread's
// network namespace's. Where /proc is not mounted (a chroot) a private procfs is opened for the call.
// errno_value is ENOENT when the kernel has no such parameter (IPv6 compiled or booted out).
[[nodiscard]] Result<std::string> read_sysctl(const std::string& name);
// Writes only when the value differs, so that a read-only /proc/sys with the right value is no error.
[[nodiscard]] Result<void> ensure_sysctl(const std::string& name, std::string_view value);

// The same, in a namespace that is given: an interface so that callers can be tested with values that remember.
class Sysctls {
public:
    virtual ~Sysctls() = default;
    virtual Result<std::string> read(const Netns& ns, const std::string& name);
    virtual Result<void> ensure(const Netns& ns, const std::string& name, std::string_view value);
};

}  // namespace xveth
