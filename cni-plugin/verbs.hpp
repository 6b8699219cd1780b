// SPDX-License-Identifier: Apache-2.0
// The verbs of the CNI specification: what each makes of the request, and what it asks of the functions that do the work.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "attachment/cni_result.hpp"
#include "attachment/log.hpp"
#include "attachment/net_conf.hpp"
#include "base/result.hpp"

namespace xveth::cni {

// What does the work. Injected, so that the protocol is tested without a kernel.
struct Verbs {
    std::function<Result<attachment::CniResult>(const attachment::NetConf&, const attachment::Request&)> add;
    std::function<Result<void>(const attachment::NetConf&, const attachment::Request&)> del, check, gc, status;
    std::function<void(std::string_view level, std::string_view message, const attachment::LogFields&)> log;
};

// One invocation: the checked environment, and stdin.
struct Call {
    attachment::Request request;
    std::string input;
};

// Each returns what goes to stdout.
[[nodiscard]] Result<std::string> run_add(const Call& call, const Verbs& verbs);
[[nodiscard]] Result<std::string> run_del(const Call& call, const Verbs& verbs);
[[nodiscard]] Result<std::string> run_check(const Call& call, const Verbs& verbs);   // code 1 below 0.4.0
[[nodiscard]] Result<std::string> run_gc(const Call& call, const Verbs& verbs);      // code 1 below 1.1.0
[[nodiscard]] Result<std::string> run_status(const Call& call, const Verbs& verbs);  // code 1 below 1.1.0
// Answers whatever stdin holds, also nothing.
[[nodiscard]] Result<std::string> run_version(const Call& call, const Verbs& verbs);

// Code 1 when the configuration is older than `oldest`, where `verb` appeared.
[[nodiscard]] Result<void> require_version(const attachment::NetConf& conf, const std::string& oldest,
                                           const char* verb);

}  // namespace xveth::cni
