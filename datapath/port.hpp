// SPDX-License-Identifier: Apache-2.0
// A container's XDP port in the node's maps: published last, withdrawn first.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/result.hpp"
#include "datapath/node.hpp"
#include "datapath/veth_pair.hpp"

namespace xveth::datapath {

// A port's place in a chain; all zero: in none.
struct ChainPlace {
    std::uint16_t chain = 0;         // its id
    std::uint16_t position = 0;      // of a function; 0 = a container that the chain protects
    bool stack_path_passes = false;  // of a protected container: what no chain carries is delivered
};

struct PortSpec {
    std::vector<IpAddress> addresses;
    std::vector<IpPrefix> fast_to;  // fastPathTo
    std::vector<IpPrefix> sources;  // allowedSources
    bool spoof_check = true;
    bool fast = true;  // policy: may bypass the stack
    ChainPlace place;
};

// Says who holds an address: "network/container/ifname", empty when unknown.
using AddressHolder = std::function<std::string(const IpAddress&)>;

// Code 7: an address that is another attachment's.
[[nodiscard]] Error address_is_held(const IpAddress& address, const std::string& holder);

// An error when a live port of the node holds one of the addresses: for a clear word before anything is made of them.
// Without the node lock it is no promise; publish_port() looks again.
[[nodiscard]] Result<void> refuse_held_addresses(Node& node, const std::vector<IpAddress>& addresses,
                                                 const AddressHolder& holder);

// Allocates a port id and enters the port into every map: redirect target, then prefixes, then addresses, so that a frame
// finds all of it or nothing. An address that a live port of the node holds is an error (code 7) that names the holder;
// nothing is entered then. After another error the caller withdraws what was entered.
[[nodiscard]] Result<bpf::PortId> publish_port(Node& node, const NodeLock& lock, const VethPair& pair,
                                               const PortSpec& spec, const AddressHolder& holder);

// Takes addresses and port out of the maps, in the reverse order. Idempotent: what another attachment holds by now stays.
[[nodiscard]] Result<void> withdraw_port(Node& node, bpf::PortId id, const std::vector<IpAddress>& addresses);

// Every address that leads to `id`; for an attachment whose record is lost.
[[nodiscard]] Result<std::vector<IpAddress>> addresses_of(Node& node, bpf::PortId id);

}  // namespace xveth::datapath
