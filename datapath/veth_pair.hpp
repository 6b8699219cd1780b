// SPDX-License-Identifier: Apache-2.0
// The veth pair of a container: made in one message, found again, removed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/netns.hpp"
#include "base/result.hpp"
#include "datapath/node.hpp"
#include "netlink/rtnl.hpp"

namespace xveth::datapath {

struct VethPair {
    netlink::Link host;
    netlink::Link container;
};

struct VethPairSpec {
    std::string host_name;
    std::string alias;  // IFALIAS of the host end: how it is told from a stranger of the same name
    std::string container_name;
    std::optional<Mac> container_mac;  // absent = a random one
    std::uint32_t mtu = 1500;          // of both ends
    std::uint32_t queues = 1;          // rx = tx at both ends
};

// Creates the pair, both ends down, the container's end where it is to stay (a move would empty the redirect maps), and
// reads both back. A host end of that name that an earlier attempt of ours left is replaced; somebody else's device is an
// error (EEXIST) that describes it.
[[nodiscard]] Result<VethPair> create_veth_pair(Node& node, const Netns& container_ns, netlink::Rtnl& container,
                                                const VethPairSpec& spec);

// Waits until both ends, which are up, can send. The kernel notices the carrier of a pair in the background, and until then
// drops in silence what is sent: the container's first packet would be lost.
[[nodiscard]] Result<void> await_carrier(Node& node, netlink::Rtnl& container, const VethPair& pair);

// Removes the host end `name`, and its peer with it, if it is ours: by its alias, or, where a creation was cut off before
// it had one, by its MAC. Success when there is none.
[[nodiscard]] Result<void> remove_veth_pair_if_present(Node& node, const std::string& name, const std::string& alias);

// The host end by name, if it is ours.
[[nodiscard]] Result<std::optional<netlink::Link>> find_host_end(Node& node, const std::string& name,
                                                                 const std::string& alias);

// Rx and tx queues for a pair: `wanted`, 0 = one a CPU, never more than the CPUs there can be.
[[nodiscard]] std::uint32_t queues_for(std::uint32_t wanted);

}  // namespace xveth::datapath
