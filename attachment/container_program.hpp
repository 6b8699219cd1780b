// SPDX-License-Identifier: Apache-2.0
// The operator's program at a container's end, as ADD needs it.
#pragma once

#include <optional>

#include "attachment/state_store.hpp"
#include "attachment/verbs.hpp"
#include "base/result.hpp"
#include "bpf-progs/loader/operator_programs.hpp"
#include "datapath/arming.hpp"

namespace xveth::attachment {

// What the record says of the program that the configuration asks for; nothing when it asks for none. Error 7: an id that
// names the maps' directory is none.
[[nodiscard]] Result<std::optional<ProgramRecord>> wanted_program(const NetConf& conf, const Request& request);

// Loads the record's program, and writes into the record what was found. Nothing where the record names none.
[[nodiscard]] Result<std::optional<bpf::ProgramInstance>> load_program(Node& node, AttachmentRecord& record);

[[nodiscard]] bpf::ProgramChoice choice_of(const ProgramRecord& program);
[[nodiscard]] bpf::InstancePlace place_of(const AttachmentRecord& record);

// How to arm this attachment's pair; `program`: its loaded program, which must outlive the answer.
[[nodiscard]] datapath::ArmSpec arm_spec(const NetConf& conf, const AttachmentRecord& record,
                                         const std::optional<bpf::ProgramInstance>& program);

}  // namespace xveth::attachment
