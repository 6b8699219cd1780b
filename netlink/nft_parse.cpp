// SPDX-License-Identifier: Apache-2.0
// Chains, rules and expressions as the kernel tells them.
#include <netinet/in.h>  // before the kernel's netfilter headers, which else define in_addr again

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/xt_conntrack.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "netlink/nft_messages.hpp"

namespace xveth::netlink {
namespace {

// Names by the kernel's numbers (NFT_META_*, NFT_CT_*, NFT_PAYLOAD_*, NFT_CMP_*, NFT_NAT_*), as `nft` says them.
constexpr std::array<std::string_view, 35> meta_keys{
    "len",     "protocol", "priority",  "mark",     "iif",       "oif",     "iifname", "oifname", "iiftype",
    "oiftype", "skuid",    "skgid",     "nftrace",  "rtclassid", "secmark", "nfproto", "l4proto", "ibrname",
    "obrname", "pkttype",  "cpu",       "iifgroup", "oifgroup",  "cgroup",  "random",  "ipsec",   "iifkind",
    "oifkind", "ibrpvid",  "ibrvproto", "time",     "day",       "hour",    "sdif",    "sdifname"};
constexpr std::array<std::string_view, 25> ct_keys{
    "state", "direction", "status",    "mark",      "secmark", "expiration", "helper", "l3proto", "saddr",
    "daddr", "protocol",  "proto-src", "proto-dst", "label",   "packets",    "bytes",  "avgpkt",  "zone",
    "event", "saddr",     "daddr",     "saddr",     "daddr",   "timeout",    "id"};
constexpr std::array<std::string_view, 5> payload_bases{"link", "network", "transport", "inner", "tunnel"};
constexpr std::array<std::string_view, 6> compare_operators{"eq", "neq", "lt", "lte", "gt", "gte"};
constexpr std::array<std::string_view, 2> nat_types{"snat", "dnat"};
constexpr std::array<std::string_view, 4> fib_results{"", "oif", "oifname", "type"};

struct FamilyName {
    std::uint8_t number;
    std::string_view name;
};
constexpr std::array<FamilyName, 6> families{{{NFPROTO_INET, "inet"},
                                              {NFPROTO_IPV4, "ip"},
                                              {NFPROTO_IPV6, "ip6"},
                                              {NFPROTO_ARP, "arp"},
                                              {NFPROTO_NETDEV, "netdev"},
                                              {NFPROTO_BRIDGE, "bridge"}}};

template <std::size_t N>
std::string name_of(const std::array<std::string_view, N>& names, std::uint32_t number) {
    return number < N ? std::string(names.at(number)) : std::to_string(number);
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const auto byte : bytes) {
        text += digits[byte >> 4U];
        text += digits[byte & 0xfU];
    }
    return text;
}

std::string value_hex(const Attributes& data, int type) { return to_hex(data.nested(type).bytes(NFTA_DATA_VALUE)); }

// What loads a value into a register looks; what takes one from a register changes the packet or its entry.
std::string load_or_set(bool sets, std::string what) { return (sets ? "set " : "") + std::move(what); }

std::string verdict_text(const Attributes& verdict) {
    const std::string chain = verdict.text(NFTA_VERDICT_CHAIN);
    switch (static_cast<std::int32_t>(verdict.be32(NFTA_VERDICT_CODE))) {
        case NF_DROP:
            return "drop";
        case NF_ACCEPT:
            return "accept";
        case NFT_CONTINUE:
            return "continue";
        case NFT_BREAK:
            return "break";
        case NFT_JUMP:
            return "jump " + chain;
        case NFT_GOTO:
            return "goto " + chain;
        case NFT_RETURN:
            return "return";
        default:
            return "queue";
    }
}

std::string immediate_text(const Attributes& data) {
    const auto value = data.nested(NFTA_IMMEDIATE_DATA);
    if (value.has(NFTA_DATA_VERDICT)) return verdict_text(value.nested(NFTA_DATA_VERDICT));
    return "data " + to_hex(value.bytes(NFTA_DATA_VALUE));
}

std::string payload_text(const Attributes& data) {
    return load_or_set(data.has(NFTA_PAYLOAD_SREG), "payload " + name_of(payload_bases, data.be32(NFTA_PAYLOAD_BASE)) +
                                                        " " + std::to_string(data.be32(NFTA_PAYLOAD_OFFSET)) + " " +
                                                        std::to_string(data.be32(NFTA_PAYLOAD_LEN)));
}

std::string bitwise_text(const Attributes& data) {
    if (data.be32(NFTA_BITWISE_OP) != NFT_BITWISE_BOOL)
        return "shift " + to_hex(data.nested(NFTA_BITWISE_DATA).bytes(NFTA_DATA_VALUE));
    return "& " + value_hex(data, NFTA_BITWISE_MASK) + " ^ " + value_hex(data, NFTA_BITWISE_XOR);
}

// A map whose values are verdicts decides; any other is only looked at.
std::string lookup_text(const Attributes& data) {
    const bool verdicts = data.has(NFTA_LOOKUP_DREG) && data.be32(NFTA_LOOKUP_DREG) == NFT_REG_VERDICT;
    return (verdicts ? "vmap " : "@") + data.text(NFTA_LOOKUP_SET);
}

// iptables' matches come with their own binary form; of conntrack's only `--ctstate INVALID` alone is told apart, also where
// it was written as `-m state --state INVALID`.
std::string match_text(const Attributes& data) {
    const std::string name = data.text(NFTA_MATCH_NAME);
    const auto info = data.bytes(NFTA_MATCH_INFO);
    xt_conntrack_mtinfo3 conntrack{};
    if (name != "conntrack" || data.be32(NFTA_MATCH_REV) != 3 || info.size() < sizeof conntrack) return name;
    std::memcpy(&conntrack, info.data(), sizeof conntrack);
    const unsigned asked = conntrack.match_flags & ~static_cast<unsigned>(XT_CONNTRACK_STATE_ALIAS);
    const bool invalid_alone = asked == XT_CONNTRACK_STATE && conntrack.invert_flags == 0 &&
                               conntrack.state_mask == XT_CONNTRACK_STATE_INVALID;
    return invalid_alone ? "conntrack invalid" : name;
}

// NFTNL_UDATA_RULE_COMMENT: type 0 among triples of type, length, value.
std::string comment_of(std::span<const std::uint8_t> userdata) {
    while (userdata.size() >= 2) {
        const std::size_t size = userdata[1];
        if (userdata.size() < 2 + size) break;
        const auto value = userdata.subspan(2, size);
        if (userdata[0] == 0) return {value.begin(), value.end() - (size > 0 && value.back() == 0 ? 1 : 0)};
        userdata = userdata.subspan(2 + size);
    }
    return {};
}

std::string hook_name(std::uint8_t family, std::uint32_t hook) {
    constexpr std::array<std::string_view, 6> inet{"prerouting", "input",       "forward",
                                                   "output",     "postrouting", "ingress"};
    constexpr std::array<std::string_view, 3> arp{"input", "output", "forward"};
    constexpr std::array<std::string_view, 2> netdev{"ingress", "egress"};
    if (family == NFPROTO_NETDEV) return name_of(netdev, hook);
    if (family == NFPROTO_ARP) return name_of(arp, hook);
    return name_of(inet, hook);
}

std::string device_names(const Attributes& hook) {
    std::string names = hook.text(NFTA_HOOK_DEV);
    if (!names.empty()) return names;
    hook.nested(NFTA_HOOK_DEVS).for_each_text([&](const std::string& name) {
        names += (names.empty() ? "" : ",") + name;
    });
    return names;
}

}  // namespace

std::string nft_family_name(std::uint8_t family) {
    const auto* at = std::ranges::find(families, family, &FamilyName::number);
    return at == families.end() ? std::to_string(family) : std::string(at->name);
}

std::optional<std::uint8_t> nft_family_number(std::string_view name) {
    const auto* at = std::ranges::find(families, name, &FamilyName::name);
    return at == families.end() ? std::nullopt : std::optional(at->number);
}

NftExpression parse_expression(const std::string& name, const Attributes& data) {
    NftExpression expression{.name = name, .argument = {}};
    std::string& argument = expression.argument;
    if (name == "meta")
        argument = load_or_set(data.has(NFTA_META_SREG), "meta " + name_of(meta_keys, data.be32(NFTA_META_KEY)));
    else if (name == "ct")
        argument = load_or_set(data.has(NFTA_CT_SREG), "ct " + name_of(ct_keys, data.be32(NFTA_CT_KEY)));
    else if (name == "payload")
        argument = payload_text(data);
    else if (name == "cmp")
        argument = name_of(compare_operators, data.be32(NFTA_CMP_OP)) + " " + value_hex(data, NFTA_CMP_DATA);
    else if (name == "bitwise")
        argument = bitwise_text(data);
    else if (name == "immediate")
        argument = immediate_text(data);
    else if (name == "lookup")
        argument = lookup_text(data);
    else if (name == "dynset")
        argument = "@" + data.text(NFTA_DYNSET_SET_NAME);
    else if (name == "match")
        argument = match_text(data);
    else if (name == "target")
        argument = data.text(NFTA_TARGET_NAME);
    else if (name == "nat")
        argument = name_of(nat_types, data.be32(NFTA_NAT_TYPE));
    else if (name == "fib")
        argument = name_of(fib_results, data.be32(NFTA_FIB_RESULT));
    else if (name == "exthdr")
        argument = load_or_set(data.has(NFTA_EXTHDR_SREG), "exthdr " + std::to_string(data.u8(NFTA_EXTHDR_TYPE)));
    return expression;
}

NftRule parse_rule(const Received& message) {
    const auto attributes = message.attributes<nfgenmsg>();
    NftRule rule;
    rule.handle = attributes.be64(NFTA_RULE_HANDLE);
    rule.comment = comment_of(attributes.bytes(NFTA_RULE_USERDATA));
    attributes.nested(NFTA_RULE_EXPRESSIONS).for_each([&](int, const Attributes& element) {
        const std::string name = element.text(NFTA_EXPR_NAME);
        const auto data = element.nested(NFTA_EXPR_DATA);
        rule.expressions.push_back(parse_expression(name, data));
        if (name == "match" && data.text(NFTA_MATCH_NAME) == "comment") rule.comment = data.text(NFTA_MATCH_INFO);
    });
    return rule;
}

NftChain parse_chain(const Received& message) {
    const std::uint8_t family = message.header<nfgenmsg>().nfgen_family;
    const auto attributes = message.attributes<nfgenmsg>();
    NftChain chain;
    chain.family = nft_family_name(family);
    chain.table = attributes.text(NFTA_CHAIN_TABLE);
    chain.name = attributes.text(NFTA_CHAIN_NAME);
    if (!attributes.has(NFTA_CHAIN_HOOK)) return chain;
    const auto hook = attributes.nested(NFTA_CHAIN_HOOK);
    chain.type = attributes.text(NFTA_CHAIN_TYPE);
    chain.hook = hook_name(family, hook.be32(NFTA_HOOK_HOOKNUM));
    chain.priority = static_cast<std::int32_t>(hook.be32(NFTA_HOOK_PRIORITY));
    chain.policy_drop = attributes.has(NFTA_CHAIN_POLICY) && attributes.be32(NFTA_CHAIN_POLICY) == NF_DROP;
    chain.device = device_names(hook);
    return chain;
}

}  // namespace xveth::netlink
