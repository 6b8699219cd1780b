// SPDX-License-Identifier: Apache-2.0
// The XDP programs that receive the generator's frames, loaded once an attachment and attached natively.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

struct bpf_program;
struct xvb_counting;

namespace xveth::bench {

enum class Role : std::uint8_t {
    drop,     // count datagrams and drop them
    answer,   // count datagrams and send them back by XDP_TX
    pass,     // leave frames to the stack
    hand_on,  // count datagrams and hand them on by XDP_TX, as a function of a chain does
};

// Attaches in native mode; the program goes with the link. Asks for the mode in so many words: with none in the flags, a
// device that has no native mode would get the generic one.
[[nodiscard]] Result<UniqueFd> attach_natively(const Netns& ns, const std::string& device, const bpf_program* program);

// A program on a device until the end of its life.
class Receiver {
public:
    // `next`: of Role::hand_on, whose MAC the datagrams get as destination; nothing: unchanged.
    [[nodiscard]] static Result<Receiver> attach(const Netns& ns, const std::string& device, Role role,
                                                 const std::optional<Mac>& next = {});
    // Datagrams counted since the start, by CPU.
    [[nodiscard]] Result<std::vector<std::uint64_t>> counted() const;

private:
    struct Unload {
        void operator()(xvb_counting* object) const;
    };
    std::unique_ptr<xvb_counting, Unload> object_;
    UniqueFd link_;
};

}  // namespace xveth::bench
