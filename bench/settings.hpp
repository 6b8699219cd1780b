// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace xveth::bench {

// What the command line chose.
struct Settings {
    unsigned rounds = 5;
    double seconds = 2.0;       // of one measurement
    unsigned flows = 1;         // UDP flows of the frame generator
    unsigned endpoints = 1000;  // of the crowded node in the scale metrics
    unsigned repeats = 20;      // ADD and DEL pairs a round
    std::string bin_dir;        // where xveth is
    std::string cni_path;       // where the reference plugins and host-local are
};

}  // namespace xveth::bench
