// SPDX-License-Identifier: Apache-2.0
// The operator's programs of running containers, exchanged for what their files hold now.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attachment/state_store.hpp"
#include "attachment/verbs.hpp"
#include "base/result.hpp"

namespace xveth::attachment {

// Whose: of every choice that is not empty, one has to fit.
struct ProgramSelection {
    std::vector<std::string> objects;
    std::vector<std::string> containers;
    std::vector<std::string> networks;
    bool fresh_maps = false;  // all maps begin empty; else those go on that are defined as before
};

struct ReplacedProgram {
    AttachmentKey key;
    std::string file;  // "limit.o:xdp_limit"
    std::uint32_t from = 0;
    std::uint32_t to = 0;
};

// All of them or none: every one is loaded and verified before the first is exchanged, and an error takes back what was
// exchanged. No frame misses both programs. Refused: another kind of program (frags or plain), since a veth keeps the MTU
// limit of the first one; a map that is defined otherwise, unless `fresh_maps`; a link that somebody else updated.
// Holds the locks of all these attachments meanwhile.
[[nodiscard]] Result<std::vector<ReplacedProgram>> replace_programs(Node& node, const ProgramSelection& selection);

}  // namespace xveth::attachment
