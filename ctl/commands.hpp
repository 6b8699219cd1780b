// SPDX-License-Identifier: Apache-2.0
// What xvethctl can do, as functions of a node. None of them prints.
#pragma once

#include <cstdint>
#include <string>

#include "attachment/program_replace.hpp"
#include "attachment/verbs.hpp"
#include "base/result.hpp"

namespace xveth::ctl {

struct Output {
    std::string text;
    bool found_problems = false;
};

enum class Form : std::uint8_t { table, json };

// What went by XDP at each port and what did not, and why. A node where nothing is loaded has no ports.
[[nodiscard]] Result<Output> show_stats(attachment::Node& node, Form form);
// The attachments that the node remembers.
[[nodiscard]] Result<Output> show_attachments(attachment::Node& node, Form form);
// Where the MACs of the networks in bridge mode are; of all of them when `network` is empty.
[[nodiscard]] Result<Output> show_fdb(attachment::Node& node, const std::string& network, Form form);
// Everything that makes a path slow or dead, with its cure.
[[nodiscard]] Result<Output> examine(attachment::Node& node, Form form);
// Takes our program off a NIC and frees its port; its pods then talk to the outside through the stack.
[[nodiscard]] Result<Output> detach_nic(attachment::Node& node, const std::string& name);
// Chains with their functions, and what happened at each; all of them, or the one of that name.
[[nodiscard]] Result<Output> show_chains(attachment::Node& node, Form form, const std::string& name);
// Gives up the place of a function that is gone: frames no longer stop there.
[[nodiscard]] Result<Output> forget_function(attachment::Node& node, const std::string& name, std::uint16_t position);

// The operator's programs at containers' ends.
[[nodiscard]] Result<Output> list_programs(attachment::Node& node, Form form);
// Exchanges them, all or none, for what their files hold now.
[[nodiscard]] Result<Output> replace_programs(attachment::Node& node, const attachment::ProgramSelection& selection);

}  // namespace xveth::ctl
