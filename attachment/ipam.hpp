// SPDX-License-Identifier: Apache-2.0
// The delegated IPAM plugin: an executable of CNI_PATH that speaks the same protocol.
#pragma once

#include <chrono>
#include <string>

#include "attachment/cni_result.hpp"
#include "attachment/net_conf.hpp"
#include "base/result.hpp"

namespace xveth::attachment {

// An interface so that the verbs can be tested with a fake pool.
class Ipam {
public:
    virtual ~Ipam() = default;
    // Errors of the delegate come up unchanged (its code and text, with its name in front); ours: code 103 with the type
    // and the path searched. A failed add() is followed by the caller's del().
    virtual Result<CniResult> add(const NetConf& conf, const Request& request) = 0;
    virtual Result<void> del(const NetConf& conf, const Request& request) = 0;
    virtual Result<void> check(const NetConf& conf, const Request& request) = 0;
    // A delegate that does not know the verb or the version (VERSION probe; codes 1, 3, 4) counts as success.
    virtual Result<void> gc(const NetConf& conf, const Request& request) = 0;
    virtual Result<void> status(const NetConf& conf, const Request& request) = 0;
};

// Runs the executable with our environment less XVETH_* keys in CNI_ARGS, the same stdin bytes, its stdout captured and
// its stderr joined to ours. It dies with us (PR_SET_PDEATHSIG) and at the deadline (whole process group killed).
class ExecIpam final : public Ipam {
public:
    explicit ExecIpam(std::chrono::milliseconds deadline) : deadline_(deadline) {}
    Result<CniResult> add(const NetConf& conf, const Request& request) override;
    Result<void> del(const NetConf& conf, const Request& request) override;
    Result<void> check(const NetConf& conf, const Request& request) override;
    Result<void> gc(const NetConf& conf, const Request& request) override;
    Result<void> status(const NetConf& conf, const Request& request) override;

private:
    std::chrono::milliseconds deadline_;
};

}  // namespace xveth::attachment
