// SPDX-License-Identifier: Apache-2.0
// What kind of port a container gets: its mode, who owns its XDP hook, its place in a chain, its VLANs.
// Private to the reading of the configuration.
#pragma once

#include <optional>
#include <string_view>

#include "attachment/json.hpp"
#include "attachment/net_conf.hpp"
#include "base/result.hpp"

namespace xveth::attachment {

// The operator's keys mode, containerXdp, containerProgram, chain, protectedBy, vlan, vlanTrunk, portIsolation.
[[nodiscard]] Result<void> read_port_keys(const Json& plugin, NetConf& conf);
// Values that exclude or need each other; after the container's requests have been applied.
[[nodiscard]] Result<void> check_port_keys(const NetConf& conf);

// The same values as a request writes them: "limit.o" or "limit.o:xdp_limit", and "edge:10" or "edge:10:bypass".
[[nodiscard]] std::optional<ContainerProgram> parse_container_program(std::string_view text);
[[nodiscard]] std::optional<ChainMembership> parse_chain_membership(std::string_view text);

inline constexpr std::size_t longest_chain_name = 31;
[[nodiscard]] bool is_valid_chain_name(const std::string& name);

}  // namespace xveth::attachment
