// SPDX-License-Identifier: Apache-2.0
// TCP between two namespaces, both ends in this process: a socket stays in the namespace where it was made.
#pragma once

#include <string>

#include "base/netns.hpp"
#include "base/result.hpp"

namespace xveth::bench {

// Where the two ends are; `address` is the receiver's.
struct Route {
    const Netns* sender;
    const Netns* receiver;
    std::string address;
};

// One bulk stream for `seconds`; what the receiver read, in Gbit/s. Its start (slow start, buffers growing) is left out.
[[nodiscard]] Result<double> measure_stream(const Route& route, double seconds);

// One byte there and one back, as often as it goes in `seconds`; transactions a second.
[[nodiscard]] Result<double> measure_request_response(const Route& route, double seconds);

}  // namespace xveth::bench
