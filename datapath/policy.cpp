// SPDX-License-Identifier: Apache-2.0
#include "datapath/policy.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string_view>

#include "base/files.hpp"

namespace xveth::datapath {
namespace {

using netlink::NftChain;
using netlink::NftExpression;
using netlink::NftRule;

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
    return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return text.starts_with(prefix); });
}

bool is_known_table(const NftChain& chain) { return chain.table == "kube-proxy" || chain.table == "xveth"; }

// Chains of kube-proxy's and portmap's iptables form. kube-proxy translates and marks only what is addressed to a
// service or a node port, which is never a container's own address.
bool is_known_chain(std::string_view name) {
    return starts_with_any(name, {"KUBE-", "CNI-HOSTPORT-", "CNI-DN-", "CNI-SN-"});
}

bool redirect_would_skip(const NftChain& chain) {
    return chain.hook == "prerouting" || chain.hook == "forward" || chain.hook == "postrouting" ||
           chain.hook == "ingress" || chain.hook == "egress";
}

// Judges one family's table of chains, following jumps.
class Judge {
public:
    explicit Judge(const std::vector<NftChain>& ruleset) : ruleset_(ruleset) {}

    PolicyObjection judge_chain(const NftChain& chain) {
        if (is_known_table(chain) || !visited_.insert(&chain).second) return std::nullopt;
        for (const auto& rule : chain.rules)
            if (auto objection = judge_rule(chain, rule)) return objection;
        return std::nullopt;
    }

private:
    PolicyObjection judge_rule(const NftChain& chain, const NftRule& rule) {
        if (is_invalid_drop(rule)) return std::nullopt;
        for (const auto& expression : rule.expressions) {
            if (only_looks(expression)) continue;
            const std::string_view verdict = expression.argument;
            if (expression.name == "immediate" && starts_with_any(verdict, {"accept", "return", "continue"})) continue;
            if (expression.name == "target" && (verdict == "ACCEPT" || verdict == "RETURN")) continue;
            if (expression.name == "immediate" && starts_with_any(verdict, {"jump ", "goto "})) {
                const std::string_view target = verdict.substr(5);
                if (is_known_chain(target)) continue;
                if (const NftChain* next = find(chain, target)) {
                    if (auto objection = judge_chain(*next)) return objection;
                    continue;
                }
            }
            return "rule in chain " + chain.name + " of table " + chain.family + " " + chain.table + " (" +
                   expression.name + (expression.argument.empty() ? "" : " " + expression.argument) + ")";
        }
        return std::nullopt;
    }

    // Loads and compares; changes neither the frame nor its way.
    static bool only_looks(const NftExpression& expression) {
        constexpr std::array names{"cmp",     "lookup", "bitwise", "byteorder", "range",  "match", "counter", "fib",
                                   "comment", "socket", "numgen",  "hash",      "exthdr", "rt",    "osf"};
        if (std::ranges::find(names, expression.name) != names.end())
            return expression.argument.find("set ") != 0 && expression.argument.find("drop") == std::string::npos;
        if (expression.name == "meta" || expression.name == "ct" || expression.name == "payload")
            return !expression.argument.starts_with("set ");
        return false;
    }

    // `ct state invalid` is: load, mask with the bit of INVALID (1), compare with 0. A set of states is not read here.
    static bool is_invalid_drop(const NftRule& rule) {
        const auto has = [&](std::string_view name, std::string_view argument) {
            return std::ranges::any_of(rule.expressions, [&](const NftExpression& expression) {
                return expression.name == name && expression.argument == argument;
            });
        };
        bool masked = false;
        for (const auto& expression : rule.expressions) {
            if (expression.name == "lookup") return false;
            if (expression.name == "bitwise") {
                if (expression.argument.find("01000000") == std::string::npos) return false;
                masked = true;
            }
            if (expression.name == "match" && expression.argument.find("conntrack") == std::string::npos &&
                expression.argument != "comment")
                return false;
        }
        return masked && has("ct", "ct state") && has("immediate", "drop");
    }

    const NftChain* find(const NftChain& from, std::string_view name) const {
        const auto at = std::ranges::find_if(ruleset_, [&](const NftChain& chain) {
            return chain.family == from.family && chain.table == from.table && chain.name == name;
        });
        return at == ruleset_.end() ? nullptr : &*at;
    }

    const std::vector<NftChain>& ruleset_;
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

PolicyObjection find_objection(const std::vector<NftChain>& ruleset) {
    Judge judge(ruleset);
    for (const auto& chain : ruleset) {
        if (!redirect_would_skip(chain) || chain.family == "arp") continue;
        if (chain.policy_drop)
            return "policy drop of chain " + chain.name + " in table " + chain.family + " " + chain.table;
        if (auto objection = judge.judge_chain(chain)) return objection;
    }
    return std::nullopt;
}

PolicyObjection find_objection(Node& node, const std::vector<netlink::IfIndex>& devices) {
    for (const auto device : devices)
        if (auto objection = find_tc_objection(node, device)) return objection;
    auto xfrm = node.rtnl.has_xfrm_policies();
    if (!xfrm || *xfrm) return xfrm ? "xfrm policies" : "xfrm policies cannot be read: " + xfrm.error().text;
    auto marks = node.rtnl.has_fwmark_rules();
    if (!marks || *marks) return marks ? "ip rules by fwmark" : "ip rules cannot be read: " + marks.error().text;
    if (auto legacy = find_legacy_tables(node)) return legacy;
    auto ruleset = node.nft.ruleset();
    if (ruleset) return find_objection(*ruleset);
    const int err = ruleset.error().errno_value;
    if (err == ENOENT || err == EPROTONOSUPPORT || err == EOPNOTSUPP) return std::nullopt;  // no nf_tables, no rules
    return "the ruleset cannot be read: " + ruleset.error().text;
}

}  // namespace xveth::datapath
