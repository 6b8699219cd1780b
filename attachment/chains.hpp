// SPDX-License-Identifier: Apache-2.0
// What ties an attachment to chains: as a function, or as a container that one protects.
#pragma once

#include <cstdint>
#include <string>

#include "attachment/lifecycle.hpp"
#include "attachment/state_store.hpp"
#include "attachment/verbs.hpp"
#include "base/result.hpp"
#include "datapath/chain.hpp"
#include "datapath/port.hpp"
#include "datapath/veth_pair.hpp"

namespace xveth::attachment {

[[nodiscard]] bool is_in_chain(const NetConf& conf);
// What goes on record; nothing for an attachment that is in no chain.
[[nodiscard]] std::optional<ChainRecord> chain_record(const NetConf& conf);

// `mtu`, or for a protected container the smallest of its chain. An error (code 7) where a function of this MTU has no place
// in its chain. No promise: publishing looks again.
[[nodiscard]] Result<std::uint32_t> mtu_in_chain(Node& node, const NetConf& conf, std::uint32_t mtu);

// The port's place in its chain, which is there from now on. Nothing is in force before the port is published.
[[nodiscard]] Result<datapath::ChainPlace> prepare_place(Node& node, const datapath::NodeLock& lock,
                                                         const NetConf& conf, const datapath::VethPair& pair,
                                                         const AttachmentRecord& record);

// The last step of a function's ADD: frames pass through it from now on.
[[nodiscard]] Result<void> enter_chain(Node& node, const AttachmentRecord& record, Notes& notes);

// The program of the host end.
[[nodiscard]] bpf::Program host_program(const AttachmentRecord& record);

// CHECK: the member is where ADD put it.
[[nodiscard]] Result<void> check_chain(Node& node, const AttachmentRecord& record, const netlink::Link& host_end);

// Names a port's attachment from the records; empty when none has it.
[[nodiscard]] datapath::PortHolder port_holder(Node& node);

[[nodiscard]] Result<bool> agent_runs(const Node& node);

}  // namespace xveth::attachment
