// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/reasons.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "bpf-progs/include/abi.h"
#include "bpf-progs/loader/objects.hpp"

namespace xveth::bpf {
namespace {

constexpr std::array reasons{
    NamedReason{XV_PASS_NOT_IP, "pass_not_ip"},
    NamedReason{XV_PASS_VLAN, "pass_vlan"},
    NamedReason{XV_PASS_OTHER_MAC, "pass_other_mac"},
    NamedReason{XV_PASS_MALFORMED, "pass_malformed"},
    NamedReason{XV_PASS_OPTIONS, "pass_options"},
    NamedReason{XV_PASS_FRAGMENT, "pass_fragment"},
    NamedReason{XV_PASS_TTL, "pass_ttl"},
    NamedReason{XV_PASS_PROTOCOL, "pass_protocol"},
    NamedReason{XV_PASS_UNKNOWN_DST, "pass_unknown_dst"},
    NamedReason{XV_PASS_TOO_BIG, "pass_too_big"},
    NamedReason{XV_PASS_POLICY, "pass_policy"},
    NamedReason{XV_PASS_NO_TARGET, "pass_no_target"},
    NamedReason{XV_PASS_CONNTRACK, "pass_conntrack"},
    NamedReason{XV_PASS_FLOW_STACK, "pass_flow_stack"},
    NamedReason{XV_PASS_MID_FLOW, "pass_mid_flow"},
    NamedReason{XV_PASS_NO_WAY_BACK, "pass_no_way_back"},
    NamedReason{XV_PASS_NEIGHBOUR, "pass_neighbour"},
    NamedReason{XV_PASS_TABLE_FULL, "pass_table_full"},
    NamedReason{XV_PASS_NO_CONNTRACK, "pass_no_conntrack"},
    NamedReason{XV_PASS_CACHED, "pass_cached"},
    NamedReason{XV_PASS_UNKNOWN_PORT, "pass_unknown_port"},
    NamedReason{XV_PASS_LINK_LOCAL, "pass_link_local"},
    NamedReason{XV_PASS_RESERVED_MAC, "pass_reserved_mac"},
    NamedReason{XV_PASS_FLOOD, "pass_flood"},
    NamedReason{XV_DROP_SPOOFED, "drop_spoofed"},
    NamedReason{XV_DROP_BAD_SOURCE, "drop_bad_source"},
    NamedReason{XV_DROP_MAC_TAKEN, "drop_mac_taken"},
    NamedReason{XV_DROP_OWN_PORT, "drop_own_port"},
    NamedReason{XV_DROP_ISOLATED, "drop_isolated"},
    NamedReason{XV_DROP_VLAN, "drop_vlan"},
    NamedReason{XV_DROP_CHAIN_EMPTY, "drop_chain_empty"},
    NamedReason{XV_DROP_CHAIN_GONE, "drop_chain_gone"},
    NamedReason{XV_DROP_CHAIN_TARGET, "drop_chain_target"},
    NamedReason{XV_DROP_CHAIN_TOO_BIG, "drop_chain_too_big"},
    NamedReason{XV_DROP_CHAIN_STACK, "drop_chain_stack"},
    NamedReason{XV_ERR_NO_XMIT, "error_no_xmit"},
    NamedReason{XV_ERR_DOWN, "error_down"},
    NamedReason{XV_ERR_TOO_BIG, "error_too_big"},
    NamedReason{XV_ERR_OTHER, "error_other"},
};

}  // namespace

std::span<const NamedReason> all_reasons() { return reasons; }

std::string reason_name(std::uint32_t reason) {
    const auto* found = std::ranges::find(reasons, reason, &NamedReason::reason);
    return found == reasons.end() ? "reason_" + std::to_string(reason) : std::string(found->name);
}

}  // namespace xveth::bpf
