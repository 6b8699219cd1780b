// SPDX-License-Identifier: Apache-2.0
// The frame generator: 64-byte UDP frames, sent out of a veth end as fast as the receiving side takes them.
//
// They come from a wheel (bpf/generator.bpf.c) in a namespace of its own and go through ndo_xdp_xmit into the ring of the
// device's other end, so there they are frames of a NIC: not copied before XDP, and with an skb only where the stack wants
// one. The wheel, the receiving NAPI and what follows it run in one CPU's softirq: one CPU does all the work of a
// measurement.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/address.hpp"
#include "base/result.hpp"
#include "bench/topology.hpp"

struct xvb_generator;

namespace xveth::bench {

// Which frames, and where they leave.
struct FrameRoute {
    const Netns* ns = nullptr;  // of the device; must outlive the generator
    std::string device;         // its other end must take frames by ndo_xdp_xmit
    Mac source_mac;
    Mac destination_mac;
    std::string source;  // IPv4 addresses
    std::string destination;
    unsigned at_once = 64;  // frames that arrive at once, a multiple of 16; a veth's ring holds 256
};

// From the lab's client to `destination`, an address behind the node.
[[nodiscard]] FrameRoute from_client(const Lab& lab, const std::string& destination);

class Generator {
public:
    // Frames of `flows` source ports.
    [[nodiscard]] static Result<Generator> create(const FrameRoute& route, unsigned flows);

    struct Burst {
        std::uint64_t sent = 0;
        double seconds = 0;
    };
    // Sends for about `seconds` on the CPU that the calling thread is pinned to.
    [[nodiscard]] Result<Burst> run(double seconds);

private:
    struct Unload {
        void operator()(xvb_generator* object) const;
    };
    Generator(Netns wheel, std::string frame, unsigned frames)
        : wheel_(std::move(wheel)), frame_(std::move(frame)), frames_(frames) {}
    [[nodiscard]] Result<void> build_wheel();
    [[nodiscard]] Result<void> lead_out(const FrameRoute& route);
    [[nodiscard]] Result<void> push() const;

    Netns wheel_;  // a namespace without a name: it and its devices go with this
    std::string frame_;
    unsigned frames_;  // that go round
    std::unique_ptr<xvb_generator, Unload> object_;
    UniqueFd generate_;
    UniqueFd return_;
};

}  // namespace xveth::bench
