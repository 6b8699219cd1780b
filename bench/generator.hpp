// SPDX-License-Identifier: Apache-2.0
// The frame generator: 64-byte UDP frames, sent through the client's end of the wire into the node's NIC.
//
// BPF_PROG_TEST_RUN on live frames makes them from page_pool pages and a redirect puts them into the ring of the NIC's
// end, so to the node they are frames of a NIC: not copied before XDP, and with an skb only where the stack wants one.
// The NIC's NAPI, and what follows it, runs in the generator's own softirq: one CPU does all the work of a measurement.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "bench/topology.hpp"

struct xvb_generator;

namespace xveth::bench {

class Generator {
public:
    // Frames from the lab's client to `container`, over `flows` source ports.
    [[nodiscard]] static Result<Generator> create(const Lab& lab, const Container& container, unsigned flows);

    struct Burst {
        std::uint64_t sent = 0;
        double seconds = 0;
    };
    // Sends as fast as the receiving side takes them; the calling thread should be pinned to a CPU.
    [[nodiscard]] Result<Burst> run(double seconds);

private:
    explicit Generator(const Lab& lab) : lab_(&lab) {}
    struct Unload {
        void operator()(xvb_generator* object) const;
    };
    const Lab* lab_;
    double frames_a_second_ = 0;  // of the latest run
    std::unique_ptr<xvb_generator, Unload> object_;
};

}  // namespace xveth::bench
