// SPDX-License-Identifier: Apache-2.0
// xsk-l2fwd: sends every frame back to where it came from.
#include "xsk/examples/program.hpp"

using namespace example;
using xveth::xsk::Frame;
using xveth::xsk::Verdict;

int main(int argc, char** argv) {
    return run(
        {.name = "xsk-l2fwd",
         .description = "Sends frames back with their MAC addresses exchanged; answers ARP and neighbour discovery.",
         .work = [](const Identity&, Frame& frame) { return swap_macs(frame) ? Verdict::send : Verdict::drop; },
         .extra = "--ip",
         .extra_description =
             "exchange IP addresses and ports, too (xveth's source check drops frames from other addresses)",
         .extra_work = [](const Identity&,
                          Frame& frame) { return swap_macs(frame) && swap_ip(frame) ? Verdict::send : Verdict::drop; }},
        argc, argv);
}
