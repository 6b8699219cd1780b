// SPDX-License-Identifier: Apache-2.0
// xsk-drop: counts what comes, and drops it.
#include "xsk/examples/program.hpp"

using namespace example;

int main(int argc, char** argv) {
    return run({.name = "xsk-drop",
                .description = "Counts the frames of an interface and drops them; answers ARP and neighbour discovery.",
                .work = [](const Identity&, xveth::xsk::Frame&) { return xveth::xsk::Verdict::drop; }},
               argc, argv);
}
