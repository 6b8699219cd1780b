// SPDX-License-Identifier: Apache-2.0
// The few words of nf_tables that xveth speaks, by nfnetlink: reading a ruleset well enough to tell whether a redirect
// may bypass it, and keeping its own table for ipMasq. Code 100 on errors, as in rtnl.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"

namespace xveth::netlink {

// One expression of a rule, reduced to what a judgement needs. What it loads, compares or does, by name:
//   meta, ct, payload, exthdr  "ct state", "payload network 12 4"; "set …" in front where it writes
//   bitwise                    "& MASK ^ XOR" in hex
//   cmp                        "eq HEX", "neq HEX", "lt HEX", …, in the bytes' order
//   immediate                  "drop", "accept", "jump CHAIN", "goto CHAIN", "return", "continue", "queue", or "data HEX"
//   lookup                     "@SET", or "vmap SET" where the set's values are verdicts
//   match, target              iptables' name of it: "comment", "MASQUERADE"; "conntrack invalid" for --ctstate INVALID
struct NftExpression {
    std::string name;
    std::string argument;
};

struct NftRule {
    std::uint64_t handle = 0;
    std::vector<NftExpression> expressions;
    std::string comment;  // NFTNL_UDATA_RULE_COMMENT, or the xt comment match's text
};

struct NftChain {
    std::string family;  // "ip", "ip6", "inet", "netdev", "arp", "bridge"
    std::string table;
    std::string name;
    // Base chains only:
    std::string type;  // "filter", "nat", "route"; empty = a regular chain
    std::string hook;  // "prerouting", "input", "forward", "output", "postrouting", "ingress", "egress"
    std::int32_t priority = 0;
    bool policy_drop = false;
    std::string device;          // netdev chains; several are joined by commas
    std::vector<NftRule> rules;  // as far as somebody has read them
};

class Nftables {
public:
    virtual ~Nftables() = default;

    // Reading: a node's kube-proxy may have 10,000 rules, so rules are read chain by chain. What was read belongs together
    // if the generation is the same before and after. errno EPROTONOSUPPORT: the kernel has no nf_tables.
    virtual Result<std::uint32_t> generation() = 0;
    // Every chain, without its rules.
    virtual Result<std::vector<NftChain>> chains() = 0;
    // The rules of `chain`; none when it is gone.
    virtual Result<std::vector<NftRule>> rules(const NftChain& chain) = 0;

    // ipMasq: packets from `source` that leave for anything but `local` (the pods' own range) and multicast are
    // masqueraded. Kept in table `inet xveth` (chain postrouting, srcnat), found again by `source` alone, cheap for any
    // number of sources (a verdict map, one chain a `local` prefix). Idempotent.
    virtual Result<void> ensure_masquerade(const IpAddress& source, const IpPrefix& local) = 0;
    // Whether ensure_masquerade() holds for `source`.
    virtual Result<bool> has_masquerade(const IpAddress& source) = 0;
    // Takes it away; drops chains, map and table that nothing uses any more. Success when there was nothing.
    virtual Result<void> remove_masquerade_if_present(const IpAddress& source) = 0;

    // Makes the kernel load nf_conntrack where it is a module: adds and removes a rule with a `ct` expression.
    virtual Result<void> load_conntrack() = 0;
};

[[nodiscard]] Result<std::unique_ptr<Nftables>> open_nftables(const Netns& ns);

}  // namespace xveth::netlink
