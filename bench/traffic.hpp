// SPDX-License-Identifier: Apache-2.0
// What the benches with 64-byte frames share: a rate by the receiver's counter, and proof of the way that the frames took.
#pragma once

#include <deque>
#include <functional>
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
    stack,         // the entry redirected none: the kernel forwarded them
    nic,           // they ended at the entry, the NIC
    xdp,           // the entry's program redirected every frame
    xdp_and_back,  // and a redirect sent every answer out through the NIC
};

// The programs that see the frames.
struct Receivers {
    std::vector<Receiver> counters = {};  // each counts every frame at the end of its way
    std::vector<Receiver> helpers = {};   // programs on the way
};

[[nodiscard]] Receivers only(Receiver counter);

// A lab that is ready to be measured.
struct Target {
    std::unique_ptr<Lab> lab;
    Generator generator;
    Receivers receivers;
    Way way = Way::stack;
    std::string entry;       // the node's device that the frames come in by
    unsigned disturbed = 0;  // bursts that were unequal work and measured again
};

// A target whose generator has sent for a moment, so that neighbours, flows and caches are there before anything is
// measured. The frames enter the node at `entry`.
[[nodiscard]] Result<Target> make_target(std::unique_ptr<Lab> lab, const FrameRoute& route, unsigned flows,
                                         Receivers receivers, Way way, const std::string& entry = nic_device);

// A series that runs the generator for `seconds` a time. The rate is that of the frames that the counters saw, in Mpps.
// A burst counts only if all frames arrived, on the generator's CPU, and the entry's own statistics say that they went
// the right way; the series is refused when that fails several times in a row.
// `target` must outlive it.
[[nodiscard]] Series rate_series(const std::string& metric, Target& target, double seconds);

// Says in the report how many bursts had to be repeated.
void note_disturbed(const std::deque<Target>& targets, Report& report);

// A measurement of `seconds` that is refused unless the program of the node's device `entry` redirected frames all the
// while.
[[nodiscard]] Result<double> measure_redirected(const Lab& lab, const std::string& entry, double seconds,
                                                const std::function<Result<double>()>& measure);

// Keeps the calling thread on the last CPU that it may use.
[[nodiscard]] Result<void> pin_to_last_cpu();

}  // namespace xveth::bench
