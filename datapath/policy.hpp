// SPDX-License-Identifier: Apache-2.0
// May redirected frames bypass netfilter, tc and xfrm here? Policy "auto" asks; whatever cannot be read counts as a reason
// against it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "datapath/node.hpp"
#include "netlink/nftables.hpp"
#include "netlink/types.hpp"

namespace xveth::datapath {

// Why frames of a port must not bypass the stack, in words for the log; nothing when they may.
using PolicyObjection = std::optional<std::string>;

// Everything: ruleset, xfrm policies, rules by mark, and qdiscs and tc filters of `devices` (host end and NICs).
[[nodiscard]] PolicyObjection find_objection(Node& node, const std::vector<netlink::IfIndex>& devices);

// The same for the frames of bridge ports: rules for IP count only while br_netfilter shows bridged frames to them.
[[nodiscard]] PolicyObjection find_bridge_objection(Node& node, const std::vector<netlink::IfIndex>& devices);

// The ruleset alone. No objection to: chains that a redirected frame would not meet (input, output); rules that let pass
// (accept, return, jumps to such rules); `ct state invalid drop`; the tables and chains of kube-proxy and portmap, and our
// own. Any other rule has a say, one that only counts too: passed by, it would count wrong.
[[nodiscard]] PolicyObjection find_objection(netlink::Nftables& nft);

// A qdisc that only queues, without shaping.
[[nodiscard]] bool is_harmless_qdisc(const std::string& kind);

}  // namespace xveth::datapath
