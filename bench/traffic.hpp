// SPDX-License-Identifier: Apache-2.0
// What drop and tx share: a rate by the receiver's counter, and proof of the way that the frames took.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bench/generator.hpp"
#include "bench/measure.hpp"
#include "bench/programs.hpp"
#include "bench/report.hpp"

namespace xveth::bench {

// The way that the frames of a measurement must have taken.
enum class Way {
    stack,         // the NIC redirected none: the kernel routed them
    nic,           // they ended at the NIC
    xdp,           // the NIC's program redirected every frame
    xdp_and_back,  // and a redirect sent every answer out through the NIC
};

// A lab that is ready to be measured.
struct Target {
    std::unique_ptr<Lab> lab;
    Generator generator;
    Receiver counter;               // what counts the frames at the end of their way
    std::vector<Receiver> helpers;  // programs on the way
    Way way = Way::stack;
    unsigned disturbed = 0;  // bursts that were unequal work and measured again
};

// Sends for a moment so that neighbours, flows and caches are there before anything is measured.
[[nodiscard]] Result<void> warm_up(Generator& generator);

// A series that runs the generator for `seconds` a time. The rate is that of the frames that the counter saw, in Mpps.
// A burst counts only if all frames arrived, on the generator's CPU, and the NIC's own statistics say that they went the
// right way; the series is refused when that fails several times in a row.
// `target` must outlive it.
[[nodiscard]] Series rate_series(const std::string& metric, Target& target, double seconds);

// Says in the report how many bursts had to be repeated.
void note_disturbed(const std::deque<Target>& targets, Report& report);

// Keeps the calling thread on the last CPU that it may use.
[[nodiscard]] Result<void> pin_to_last_cpu();

}  // namespace xveth::bench
