// SPDX-License-Identifier: Apache-2.0
// Which rulesets keep a port on the stack under policy "auto". What is not understood counts as a reason.
#include "datapath/policy.hpp"

#include <gtest/gtest.h>

namespace xveth::datapath {
namespace {

using netlink::NftChain;
using netlink::NftExpression;
using netlink::NftRule;

NftRule rule(std::vector<NftExpression> expressions) {
    NftRule made;
    made.expressions = std::move(expressions);
    return made;
}

NftExpression verdict(std::string what) { return {.name = "immediate", .argument = std::move(what)}; }

// A base chain of table `inet fw`.
NftChain base_chain(const std::string& hook, std::vector<NftRule> rules) {
    NftChain chain;
    chain.family = "inet";
    chain.table = "fw";
    chain.name = hook;
    chain.type = "filter";
    chain.hook = hook;
    chain.rules = std::move(rules);
    return chain;
}

NftChain regular_chain(const std::string& name, std::vector<NftRule> rules) {
    NftChain chain = base_chain("", std::move(rules));
    chain.name = name;
    chain.type.clear();
    return chain;
}

// `ct state` masked with `mask` and compared with 0, then dropped.
NftRule drop_by_state(const std::string& mask) {
    return rule({{.name = "ct", .argument = "ct state"},
                 {.name = "bitwise", .argument = mask},
                 {.name = "cmp", .argument = "00000000"},
                 {.name = "counter", .argument = ""},
                 verdict("drop")});
}

bool may_bypass(const std::vector<NftChain>& ruleset) { return !find_objection(ruleset); }

TEST(Policy, AnEmptyRulesetDoesNotObject) { EXPECT_TRUE(may_bypass({})); }

TEST(Policy, AcceptingAndCountingDoNotObject) {
    const NftChain forward = base_chain(
        "forward", {rule({{.name = "counter", .argument = ""}}),
                    rule({{.name = "meta", .argument = "meta iifname"},
                          {.name = "cmp", .argument = "65746830"},
                          verdict("accept")}),
                    rule({{.name = "match", .argument = "comment"}, {.name = "target", .argument = "ACCEPT"}}),
                    rule({verdict("return")})});
    EXPECT_TRUE(may_bypass({forward}));
}

TEST(Policy, ADropObjectsAndNamesItsPlace) {
    const auto objection = find_objection(
        {base_chain("forward", {rule({{.name = "payload", .argument = "payload network 16 4"}, verdict("drop")})})});
    ASSERT_TRUE(objection);
    EXPECT_EQ(*objection, "rule in chain forward of table inet fw (immediate drop)");
}

TEST(Policy, APolicyOfDropObjects) {
    NftChain forward = base_chain("forward", {});
    forward.policy_drop = true;
    EXPECT_EQ(find_objection({forward}), "policy drop of chain forward in table inet fw");
}

TEST(Policy, ChainsThatARedirectedFrameNeverMeetDoNotObject) {
    NftChain input = base_chain("input", {rule({verdict("drop")})});
    input.policy_drop = true;
    NftChain arp = base_chain("forward", {rule({verdict("drop")})});
    arp.family = "arp";
    EXPECT_TRUE(may_bypass({input, base_chain("output", {rule({verdict("drop")})}), arp}));
}

TEST(Policy, EveryHookOfTheWayThroughObjects) {
    for (const char* hook : {"prerouting", "forward", "postrouting", "ingress", "egress"})
        EXPECT_FALSE(may_bypass({base_chain(hook, {rule({verdict("drop")})})})) << hook;
}

TEST(Policy, WhatChangesOrDivertsAFrameObjects) {
    const std::vector<NftExpression> changes{
        {.name = "masq", .argument = ""},
        {.name = "nat", .argument = "dnat"},
        {.name = "redir", .argument = ""},
        {.name = "queue", .argument = ""},
        {.name = "meta", .argument = "set meta mark"},
        {.name = "ct", .argument = "set ct mark"},
        {.name = "payload", .argument = "set payload network 8 1"},
        {.name = "notrack", .argument = ""},
        {.name = "tproxy", .argument = ""},
        {.name = "limit", .argument = ""},
        {.name = "target", .argument = "MASQUERADE"},
        {.name = "target", .argument = "DROP"},
        {.name = "target", .argument = "MARK"},
        {.name = "something new", .argument = ""},
        {.name = "immediate", .argument = "queue"},
        {.name = "immediate", .argument = "jump nowhere"},
    };
    for (const auto& change : changes)
        EXPECT_FALSE(may_bypass({base_chain("postrouting", {rule({change})})}))
            << change.name << " " << change.argument;
}

TEST(Policy, DroppingWhatIsInvalidDoesNotObject) {
    EXPECT_TRUE(may_bypass({base_chain("forward", {drop_by_state("01000000")})}));
}

TEST(Policy, DroppingAnotherStateObjects) {
    EXPECT_FALSE(may_bypass({base_chain("forward", {drop_by_state("08000000")})})) << "new";
    EXPECT_FALSE(may_bypass({base_chain("forward", {drop_by_state("09000000")})})) << "invalid, new";
    const NftRule in_set =
        rule({{.name = "ct", .argument = "ct state"}, {.name = "lookup", .argument = "__set0"}, verdict("drop")});
    EXPECT_FALSE(may_bypass({base_chain("forward", {in_set})})) << "states of a set, which is not read";
    const NftRule exactly =
        rule({{.name = "ct", .argument = "ct state"}, {.name = "cmp", .argument = "08000000"}, verdict("drop")});
    EXPECT_FALSE(may_bypass({base_chain("forward", {exactly})})) << "a state that is compared without a mask";
}

TEST(Policy, JumpsAreFollowed) {
    const NftChain jumping = base_chain("forward", {rule({verdict("jump pods")}), rule({verdict("goto more")})});
    const NftChain pods = regular_chain("pods", {rule({verdict("accept")})});
    EXPECT_TRUE(may_bypass({jumping, pods, regular_chain("more", {rule({verdict("return")})})}));
    const auto objection = find_objection({jumping, pods, regular_chain("more", {rule({verdict("drop")})})});
    EXPECT_EQ(objection, "rule in chain more of table inet fw (immediate drop)");
}

TEST(Policy, AChainThatNobodyJumpsToDoesNotObject) {
    EXPECT_TRUE(may_bypass({base_chain("forward", {}), regular_chain("unused", {rule({verdict("drop")})})}));
}

TEST(Policy, AJumpLeadsToTheChainOfItsOwnTable) {
    NftChain elsewhere = regular_chain("pods", {rule({verdict("drop")})});
    elsewhere.table = "other";
    EXPECT_TRUE(may_bypass({base_chain("forward", {rule({verdict("jump pods")})}),
                            regular_chain("pods", {rule({verdict("accept")})}), elsewhere}));
}

TEST(Policy, KubeProxysNftablesFormDoesNotObject) {
    NftChain filter = base_chain("forward", {rule({{.name = "lookup", .argument = ""}, verdict("drop")})});
    filter.table = "kube-proxy";
    NftChain nat = base_chain("postrouting", {rule({{.name = "masq", .argument = ""}})});
    nat.table = "kube-proxy";
    EXPECT_TRUE(may_bypass({filter, nat}));
}

TEST(Policy, KubeProxysIptablesFormDoesNotObject) {
    NftChain forward =
        base_chain("forward", {rule({{.name = "match", .argument = "conntrack"},
                                     {.name = "match", .argument = "comment"},
                                     {.name = "counter", .argument = ""},
                                     verdict("jump KUBE-PROXY-FIREWALL")}),
                               rule({verdict("jump KUBE-FORWARD")}), rule({verdict("jump CNI-HOSTPORT-DNAT")})});
    forward.table = "filter";
    forward.family = "ip";
    NftChain kube = regular_chain("KUBE-FORWARD", {drop_by_state("08000000")});
    kube.table = "filter";
    kube.family = "ip";
    EXPECT_TRUE(may_bypass({forward, kube}));
}

TEST(Policy, OurOwnTableDoesNotObject) {
    NftChain ours = base_chain("postrouting", {rule({{.name = "masq", .argument = ""}})});
    ours.table = "xveth";
    EXPECT_TRUE(may_bypass({ours}));
}

TEST(Policy, QdiscsThatOnlyQueueAreHarmless) {
    for (const char* kind : {"noqueue", "mq", "pfifo_fast", "fq", "fq_codel", "clsact", "ingress"})
        EXPECT_TRUE(is_harmless_qdisc(kind)) << kind;
    for (const char* kind : {"tbf", "htb", "netem", "cake", "hfsc", ""}) EXPECT_FALSE(is_harmless_qdisc(kind)) << kind;
}

}  // namespace
}  // namespace xveth::datapath
