// SPDX-License-Identifier: Apache-2.0
// ADD, DEL, CHECK, GC and STATUS as functions. They know neither environment nor stdin nor stdout: the CNI binary, the OCI
// hook and the tools call them with values. Each verb is one file; each takes what it works on from a Node.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "attachment/cni_result.hpp"
#include "attachment/ipam.hpp"
#include "attachment/net_conf.hpp"
#include "attachment/state_store.hpp"
#include "base/result.hpp"
#include "datapath/node.hpp"

namespace xveth::attachment {

// The node that a verb works on. Tests put fakes behind the references.
struct Node {
    datapath::Node& path;  // its namespace, netlink, BPF objects and sysctls
    StateStore& store;
    Ipam& ipam;
    std::chrono::milliseconds lock_patience{std::chrono::seconds(20)};  // for the attachment's lock
};

// What a verb wants its caller to log although it succeeded: a skipped NIC, a degraded path.
using Notes = std::vector<std::string>;

[[nodiscard]] Result<CniResult> add(Node& node, const NetConf& conf, const Request& request, Notes& notes);
[[nodiscard]] Result<void> del(Node& node, const NetConf& conf, const Request& request, Notes& notes);
[[nodiscard]] Result<void> check(Node& node, const NetConf& conf, const Request& request);
[[nodiscard]] Result<void> gc(Node& node, const NetConf& conf, const Request& request, Notes& notes);
// Takes no lock, loads nothing: whether an ADD with this configuration would fail now.
[[nodiscard]] Result<void> status(Node& node, const NetConf& conf, const Request& request);

}  // namespace xveth::attachment
