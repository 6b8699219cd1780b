// SPDX-License-Identifier: Apache-2.0
// Running one plugin as a child process. Private to ipam.cpp.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "attachment/net_conf.hpp"
#include "base/result.hpp"

namespace xveth::attachment {

struct DelegateCall {
    std::string path;
    std::string input;                     // its stdin
    std::vector<std::string> environment;  // "NAME=value"
    std::chrono::steady_clock::time_point deadline;
};

struct DelegateExit {
    int status = 0;
    int signal = 0;  // that killed it, or 0
    std::string output;
};

// Our environment with the CNI_* variables of this call; XVETH_* keys are taken out of CNI_ARGS.
[[nodiscard]] std::vector<std::string> delegate_environment(const std::string& verb, const Request& request);

// Runs it to its end. It leads a process group of its own, which is killed when it ended (nothing that it left behind may
// hold the runtime's pipes), at the deadline, and with too much output; it is killed when we die.
[[nodiscard]] Result<DelegateExit> run_delegate(const DelegateCall& call);

}  // namespace xveth::attachment
