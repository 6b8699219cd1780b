// SPDX-License-Identifier: Apache-2.0
// xsk-ping: answers pings in user space.
#include "xsk/examples/program.hpp"

using namespace example;

int main(int argc, char** argv) {
    return run(
        {.name = "xsk-ping",
         .description = "Answers ICMP and ICMPv6 echo requests, ARP and neighbour discovery; drops everything else.",
         .work =
             [](const Identity& me, xveth::xsk::Frame& frame) {
                 return answer_echo(me, frame) ? xveth::xsk::Verdict::send : xveth::xsk::Verdict::drop;
             }},
        argc, argv);
}
