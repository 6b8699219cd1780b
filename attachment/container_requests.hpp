// SPDX-License-Identifier: Apache-2.0
// What a pod asks for by annotation or CNI_ARGS. Pods are written by untrusted users: a request is honoured only as far
// as the network's "allow" says, and what protects others can be tightened, never loosened.
// Private to the reading of the configuration.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attachment/json.hpp"
#include "attachment/net_conf.hpp"
#include "base/result.hpp"

namespace xveth::attachment {

// The pairs of CNI_ARGS; what has no '=' is left out.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> parse_cni_args(std::string_view args);

// The network's key "allow", its defaults filled in.
struct Allowance {
    std::vector<std::string> container_xdp{"managed", "free", "afxdp"};
    std::vector<std::string> programs;        // "limit.o" (all of it) or "limit.o:xdp_limit"
    std::vector<std::string> chains_to_join;  // allow.chains.join
    std::vector<std::string> chains_to_use;   // allow.chains.use
    bool local_mtu = false;
};

[[nodiscard]] Result<Allowance> read_allowance(const Json& plugin, std::vector<std::string>& remarks);

// One request: where it stands (for messages) and what it asks for.
struct Ask {
    std::string origin;  // `annotation "xveth.dev/policy"`
    std::string value;
};
using Asks = std::map<std::string, Ask>;  // by key: "container-xdp"

// Collects the requests that concern `ifname`; the more specific one of two wins. Unknown keys become remarks.
[[nodiscard]] Asks collect_asks(const Json* annotations, std::string_view args, const std::string& ifname,
                                std::vector<std::string>& remarks);
// Applies them to `conf`, which already has the operator's values. Code 7 names origin, value and missing permission.
[[nodiscard]] Result<void> apply_asks(const Asks& asks, const Allowance& allowance, NetConf& conf);

// Words of the keys, for both the operator's and the pod's.
[[nodiscard]] std::optional<Policy> parse_policy(std::string_view word);

// A link MTU that veth can have, or 0.
[[nodiscard]] bool is_valid_mtu(std::uint64_t mtu);
inline constexpr const char* mtu_values = "0 or a whole number from 68 to 65535";

}  // namespace xveth::attachment
