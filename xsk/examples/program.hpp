// SPDX-License-Identifier: Apache-2.0
// What the three examples share: options, a line a second, and an end by SIGTERM or SIGINT.
#pragma once

#include <cstdint>

#include "xsk/examples/packet.hpp"
#include "xsk/xveth_xsk.hpp"

namespace example {

// What a program does with a frame that is none of neighbour discovery's.
using Work = xveth::xsk::Verdict (*)(const Identity& me, xveth::xsk::Frame& frame);

// `extra`, if any, is a flag that selects the second work. Exit status: 0 told to end, 1 usage, 2 failed.
struct Program {
    const char* name;
    const char* description;
    Work work;
    const char* extra = nullptr;
    const char* extra_description = nullptr;
    Work extra_work = nullptr;
};
int run(const Program& program, int argc, char** argv);

}  // namespace example
