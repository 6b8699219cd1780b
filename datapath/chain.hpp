// SPDX-License-Identifier: Apache-2.0
// Chains of functions: containers through whose programs the frames for a protected container pass, by position.
//
// A chain is there as long as it has a member: a port that is a function of it or protected by it. Whoever changes one
// holds the node lock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bpf-progs/loader/objects.hpp"
#include "datapath/node.hpp"
#include "netlink/types.hpp"

namespace xveth::datapath {

struct FunctionSpec {
    std::string chain;
    std::uint16_t position = 0;
    bool bypass_on_failure = false;  // else what would pass through it is dropped while it is gone or disarmed
};

// Says whose port it is: "network/container/ifname", empty when unknown.
using PortHolder = std::function<std::string(const bpf::xv_port&)>;

enum class FunctionState : std::uint8_t {
    live,
    disarmed,  // it runs no XDP program
    gone,      // its container is
};

struct FunctionSlot {
    std::uint32_t index = 0;  // in the chain
    std::uint16_t position = 0;
    FunctionState state = FunctionState::gone;
    bool bypass_on_failure = false;
    bpf::PortId port = bpf::PortId::none;  // none = gone
};

struct ChainView {
    std::uint16_t id = 0;
    std::string name;
    std::vector<FunctionSlot> functions;  // by position
    std::vector<bpf::PortId> protects;
    std::uint32_t functions_mtu = 0;  // the smallest of its functions, 0 without any
    std::uint32_t protected_mtu = 0;  // the largest of the containers that it protects, 0 without any
};

// Every chain of the node, by name; a function whose device is gone counts as gone.
[[nodiscard]] Result<std::vector<ChainView>> list_chains(Node& node);
[[nodiscard]] Result<std::optional<ChainView>> find_chain(Node& node, const std::string& name);

// The chain's id, a new one where it has no member yet. Until its first member is published it may be freed again: within
// one hold of the lock it is not.
[[nodiscard]] Result<std::uint16_t> ensure_chain(Node& node, const NodeLock& lock, const std::string& name);

// Code 7, saying why, when a function cannot take this place: another one holds it, the chain is full, or the chain
// protects a container with a larger MTU than `mtu`.
[[nodiscard]] Result<void> refuse_place(Node& node, const FunctionSpec& spec, std::uint32_t mtu,
                                        const PortHolder& holder);

// From now on frames go through the function behind `port`, whose programs, target and port are ready. `state`: live, or
// disarmed. It takes the place of one at its position that is gone.
[[nodiscard]] Result<void> enter_chain(Node& node, const NodeLock& lock, const FunctionSpec& spec, bpf::PortId port,
                                       FunctionState state, const PortHolder& holder);

// Frees the chains that have no member any more.
[[nodiscard]] Result<void> free_chains_without_members(Node& node, const NodeLock& lock);

// Takes a port, member of a chain or not, out of the maps, and frees its chain if it was the last member. Of a function first
// the place: frames go round it from then on, or are dropped, as it asked for its failure; those that were on their way
// through it have passed when the rest goes. Nobody else waits for them: the node lock is held before and after.
[[nodiscard]] Result<void> retire_port(Node& node, bpf::PortId port, const std::vector<IpAddress>& addresses);
// The same for a port whose device is gone, and with it what was on its way.
[[nodiscard]] Result<void> retire_dead_port(Node& node, const NodeLock& lock, bpf::PortId port,
                                            const std::vector<IpAddress>& addresses);

// Takes the place of a function that is gone out of its chain; false when it is not gone.
[[nodiscard]] Result<bool> forget_function(Node& node, const NodeLock& lock, const ChainView& chain,
                                           const FunctionSlot& slot);

// Whether a program runs at the other end of a veth: while one does, the kernel limits this end's MTU.
[[nodiscard]] bool is_armed(const netlink::Link& host_end);

// Writes down of each function, or of those at `devices` where some are given, whether it is armed. Returns what changed, in words.
[[nodiscard]] Result<std::vector<std::string>> note_armed_functions(Node& node, const NodeLock& lock,
                                                                    const std::set<netlink::IfIndex>& devices);

}  // namespace xveth::datapath
