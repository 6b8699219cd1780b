// SPDX-License-Identifier: Apache-2.0
#include "datapath/policy.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/files.hpp"

namespace xveth::datapath {
namespace {

using netlink::NftChain;
using netlink::NftExpression;
using netlink::NftRule;

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
    return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return text.starts_with(prefix); });
}

// kube-proxy's and portmap's nftables forms, and our own. What kube-proxy and portmap translate, mark or drop is addressed
// to a service, a node port or a host port, which is never a container's own address.
bool is_known_table(const NftChain& chain) {
    return chain.table == "kube-proxy" || chain.table == "cni_hostport" || chain.table == "xveth";
}

// Their iptables forms: the chains by which one comes to all the others. Names of their own, since "KUBE-" begins also the
// chains of network policies (kube-router's KUBE-ROUTER-FORWARD).
bool is_known_chain(std::string_view name) {
    constexpr std::array names{"KUBE-SERVICES",     "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS",    "KUBE-NODE-PORT",
                               "KUBE-FORWARD",      "KUBE-PROXY-FIREWALL",    "KUBE-POSTROUTING",  "KUBE-IPVS-FILTER",
                               "CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-SETMARK",   "CNI-HOSTPORT-SNAT", "CNI-HOSTPORT-MASQ"};
    return std::ranges::find(names, name) != names.end();
}

// Every hook but those of the node's own traffic.
bool redirect_would_skip(const NftChain& chain) {
    return !chain.hook.empty() && chain.hook != "input" && chain.hook != "output" && chain.family != "arp";
}

bool is_verdict(const NftExpression& expression, std::initializer_list<std::string_view> verdicts) {
    return expression.name == "immediate" && starts_with_any(expression.argument, verdicts);
}

// Loads and compares; changes neither the frame nor its way.
bool only_looks(const NftExpression& expression) {
    constexpr std::array names{"meta",    "ct",        "payload", "exthdr", "cmp",     "lookup",
                               "bitwise", "byteorder", "range",   "match",  "counter", "fib",
                               "socket",  "rt",        "numgen",  "hash",   "osf"};
    return std::ranges::find(names, expression.name) != names.end() &&
           !starts_with_any(expression.argument, {"set ", "vmap "});
}

// `ct state invalid`: what follows it in a rule meets such frames alone.
std::size_t end_of_invalid_condition(const NftRule& rule) {
    // The state's bit for INVALID is the lowest, in the bytes of a little-endian machine.
    const std::array<NftExpression, 3> words{
        {{"ct", "ct state"}, {"bitwise", "& 01000000 ^ 00000000"}, {"cmp", "neq 00000000"}}};
    const auto same = [](const NftExpression& a, const NftExpression& b) {
        return a.name == b.name && a.argument == b.argument;
    };
    const auto& all = rule.expressions;
    if (const auto at = std::ranges::search(all, words, same); !at.empty())
        return static_cast<std::size_t>(at.end() - all.begin());
    const auto xt = std::ranges::find_if(
        all, [](const NftExpression& each) { return each.name == "match" && each.argument == "conntrack invalid"; });
    return static_cast<std::size_t>(xt - all.begin()) + (xt == all.end() ? 0 : 1);
}

// No fast flow has an invalid frame: conntrack does not see it, or knows the flow, which then is the stack's.
bool is_invalid_drop(const NftRule& rule) {
    const auto& all = rule.expressions;
    const auto drop = std::ranges::find_if_not(all, only_looks);
    return drop != all.end() && drop + 1 == all.end() && is_verdict(*drop, {"drop"}) &&
           end_of_invalid_condition(rule) < all.size();
}

// A rule that does nothing else would count wrong. Beside a verdict a counter is what iptables puts into every rule.
bool is_accounting(const NftRule& rule) {
    return std::ranges::any_of(rule.expressions, [](const auto& each) { return each.name == "counter"; }) &&
           std::ranges::all_of(rule.expressions, only_looks);
}

// Judges a ruleset, following jumps; reads no more of it than the judgement needs.
class Judge {
public:
    Judge(netlink::Nftables& nft, const std::vector<NftChain>& chains) : nft_(nft), chains_(chains) {
        for (const auto& chain : chains) by_name_.emplace(chain.name, &chain);
    }

    PolicyObjection judge() {
        for (const auto& chain : chains_) {
            if (!redirect_would_skip(chain)) continue;
            if (chain.policy_drop) return "policy drop of chain " + place(chain);
            if (auto objection = judge_chain(chain)) return objection;
        }
        return std::nullopt;
    }

private:
    PolicyObjection judge_chain(const NftChain& chain) {
        if (is_known_table(chain) || !visited_.insert(&chain).second) return std::nullopt;
        const auto rules = nft_.rules(chain);
        if (!rules) return "the ruleset cannot be read: " + rules.error().text;
        for (const auto& rule : *rules)
            if (auto objection = judge_rule(chain, rule)) return objection;
        return std::nullopt;
    }

    PolicyObjection judge_rule(const NftChain& chain, const NftRule& rule) {
        if (is_invalid_drop(rule)) return std::nullopt;
        if (is_accounting(rule)) return "rule in chain " + place(chain) + " (counter)";
        for (const auto& expression : rule.expressions) {
            if (only_looks(expression) || is_verdict(expression, {"accept", "return", "continue"})) continue;
            if (is_verdict(expression, {"jump ", "goto "})) {
                const std::string target = expression.argument.substr(5);
                if (is_known_chain(target)) continue;
                if (const NftChain* next = find(chain, target)) {
                    if (auto objection = judge_chain(*next)) return objection;
                    continue;
                }
            }
            return "rule in chain " + place(chain) + " (" + expression.name +
                   (expression.argument.empty() ? "" : " " + expression.argument) + ")";
        }
        return std::nullopt;
    }

    // The chain that a jump from `from` leads to.
    const NftChain* find(const NftChain& from, std::string_view name) const {
        const auto [first, last] = by_name_.equal_range(name);
        for (auto at = first; at != last; ++at)
            if (at->second->family == from.family && at->second->table == from.table) return at->second;
        return nullptr;
    }

    static std::string place(const NftChain& chain) {
        return chain.name + " of table " + chain.family + " " + chain.table;
    }

    netlink::Nftables& nft_;
    const std::vector<NftChain>& chains_;
    std::unordered_multimap<std::string_view, const NftChain*> by_name_;
    std::set<const NftChain*> visited_;
};

// iptables-legacy keeps its rules outside nf_tables; the kernel only names its tables.
PolicyObjection find_legacy_tables(Node& node) {
    auto scope = NetnsScope::enter(node.ns);
    if (!scope) return "the node's namespace cannot be entered";
    for (const char* list : {"/proc/thread-self/net/ip_tables_names", "/proc/thread-self/net/ip6_tables_names"}) {
        const auto names = read_file(list);
        if (names && !names->empty()) return "iptables-legacy tables, which cannot be read";
    }
    return std::nullopt;
}

PolicyObjection find_tc_objection(Node& node, netlink::IfIndex device) {
    auto& rtnl = node.rtnl;
    auto qdiscs = rtnl.list_qdiscs(device);
    if (!qdiscs) return "queueing disciplines cannot be read: " + qdiscs.error().text;
    for (const auto& qdisc : *qdiscs)
        if (!is_harmless_qdisc(qdisc.kind)) return "qdisc " + qdisc.kind;
    auto filters = rtnl.list_tc_filters(device);
    if (!filters) return "tc filters cannot be read: " + filters.error().text;
    if (!filters->empty()) return "tc filter " + filters->front().kind;
    auto tcx = node.bpf.has_tcx_programs(node.ns, static_cast<std::uint32_t>(device));
    if (!tcx) return "tcx programs cannot be read: " + tcx.error().text;
    if (*tcx) return "a tcx program";
    return std::nullopt;
}

}  // namespace

bool is_harmless_qdisc(const std::string& kind) {
    constexpr std::array kinds{"noqueue", "mq", "pfifo_fast", "pfifo", "bfifo", "fq", "fq_codel", "clsact", "ingress"};
    return std::ranges::find(kinds, kind) != kinds.end();
}

namespace {

// Chains and rules are read one after the other: a judgement counts if nothing changed meanwhile. `bridged`: only the chains
// that bridged frames meet when br_netfilter shows them to nobody else.
PolicyObjection find_objection(netlink::Nftables& nft, bool bridged) {
    constexpr int attempts = 8;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        const auto before = nft.generation();
        if (!before && before.error().errno_value == EPROTONOSUPPORT) return std::nullopt;  // no nf_tables, no rules
        if (!before) return "the ruleset cannot be read: " + before.error().text;
        auto chains = nft.chains();
        if (!chains) return "the ruleset cannot be read: " + chains.error().text;
        if (bridged)
            std::erase_if(*chains,
                          [](const auto& chain) { return chain.family != "bridge" && chain.family != "netdev"; });
        auto objection = Judge(nft, *chains).judge();
        const auto after = nft.generation();
        if (!after) return "the ruleset cannot be read: " + after.error().text;
        if (*after == *before) return objection;
    }
    return "the ruleset cannot be read: it changed all the time";
}

// Whether bridged frames pass by the rules for IP too.
Result<bool> shows_frames_to_ip(Node& node) {
    for (const char* name : {"iptables", "ip6tables", "arptables"}) {
        auto on = node.sysctls.read(node.ns, std::string("net/bridge/bridge-nf-call-") + name);
        if (!on && on.error().errno_value != ENOENT) return std::move(on.error());
        if (on && *on != "0") return true;
    }
    return false;
}

}  // namespace

PolicyObjection find_objection(netlink::Nftables& nft) { return find_objection(nft, false); }

PolicyObjection find_bridge_objection(Node& node, const std::vector<netlink::IfIndex>& devices) {
    const auto ip = shows_frames_to_ip(node);
    if (!ip) return "br_netfilter's switches cannot be read: " + ip.error().text;
    if (*ip) return find_objection(node, devices);
    for (const auto device : devices)
        if (auto objection = find_tc_objection(node, device)) return objection;
    return find_objection(node.nft, true);
}

PolicyObjection find_objection(Node& node, const std::vector<netlink::IfIndex>& devices) {
    for (const auto device : devices)
        if (auto objection = find_tc_objection(node, device)) return objection;
    auto xfrm = node.rtnl.has_xfrm_policies();
    if (!xfrm || *xfrm) return xfrm ? "xfrm policies" : "xfrm policies cannot be read: " + xfrm.error().text;
    auto marks = node.rtnl.has_fwmark_rules();
    if (!marks || *marks) return marks ? "ip rules by fwmark" : "ip rules cannot be read: " + marks.error().text;
    if (auto legacy = find_legacy_tables(node)) return legacy;
    return find_objection(node.nft);
}

}  // namespace xveth::datapath
