// SPDX-License-Identifier: Apache-2.0
// The programs of the operating system that build the lab: ip, ethtool, nft. Nowhere else does xvbench start any, but
// for the CNI plugins under test.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/netns.hpp"
#include "base/result.hpp"

namespace xveth::bench {

struct ProcessResult {
    int status = 0;  // exit status; 128 + signal for a killed one
    std::string out;
    std::string err;
    rusage usage{};
};

// Runs a program in the calling thread's namespaces to its end and collects what it prints. `environment` is the whole
// environment ("NAME=value"), `command` begins with a path. An error only if it cannot be run at all.
[[nodiscard]] Result<ProcessResult> run_process(const std::vector<std::string>& command,
                                                const std::vector<std::string>& environment, std::string_view input);

// `ip ARGUMENTS` and its like inside `ns`; arguments are separated by blanks. An error carries what the program said.
[[nodiscard]] Result<std::string> run_tool(const Netns& ns, const std::string& command, std::string_view input = {});
// Several `ip` commands, one a line, by one process.
[[nodiscard]] Result<void> run_ip_batch(const Netns& ns, const std::string& lines);
// Sum of the driver's statistics whose name has this beginning and this end (`ethtool -S`).
[[nodiscard]] Result<std::uint64_t> sum_driver_statistics(const Netns& ns, const std::string& device,
                                                          std::string_view beginning, std::string_view end);

}  // namespace xveth::bench
