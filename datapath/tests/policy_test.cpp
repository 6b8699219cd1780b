// SPDX-License-Identifier: Apache-2.0
// Which rulesets keep a port on the stack under policy "auto". What is not understood counts as a reason.
#include "datapath/policy.hpp"

#include <gtest/gtest.h>

#include "netlink/fake/fake_nftables.hpp"

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

NftExpression load_state() { return {.name = "ct", .argument = "ct state"}; }
NftExpression mask(std::string hex) { return {.name = "bitwise", .argument = "& " + hex + " ^ 00000000"}; }
NftExpression compare(std::string what) { return {.name = "cmp", .argument = std::move(what)}; }
NftExpression counter() { return {.name = "counter", .argument = ""}; }
NftExpression match(std::string what) { return {.name = "match", .argument = std::move(what)}; }

// `ct state STATES counter drop`, as nft makes it of states with one or several bits.
NftRule drop_by_state(const std::string& bits) {
    return rule({load_state(), mask(bits), compare("neq 00000000"), counter(), verdict("drop")});
}

PolicyObjection objection_to(const std::vector<NftChain>& ruleset) {
    FaultInjector faults;
    netlink::World world(faults);
    world.ruleset = ruleset;
    netlink::FakeNftables nft(world);
    return find_objection(nft);
}

bool may_bypass(const std::vector<NftChain>& ruleset) { return !objection_to(ruleset); }
bool may_bypass_in_forward(const NftRule& forwarding) { return may_bypass({base_chain("forward", {forwarding})}); }

TEST(Policy, AnEmptyRulesetDoesNotObject) { EXPECT_TRUE(may_bypass({})); }

TEST(Policy, LettingPassDoesNotObject) {
    const NftRule by_device =
        rule({{.name = "meta", .argument = "meta iifname"}, compare("eq 65746830"), counter(), verdict("accept")});
    const NftRule in_set = rule({{.name = "payload", .argument = "payload network 16 4"},
                                 {.name = "lookup", .argument = "@pods"},
                                 verdict("accept")});
    const NftRule of_iptables = rule({match("comment"), counter(), verdict("accept")});
    for (const auto& passing : {by_device, in_set, of_iptables, rule({counter(), verdict("return")})})
        EXPECT_TRUE(may_bypass_in_forward(passing)) << passing.expressions.back().argument;
}

TEST(Policy, ARuleThatOnlyCountsObjects) {
    EXPECT_EQ(objection_to({base_chain("forward", {rule({counter()})})}),
              "rule in chain forward of table inet fw (counter)");
    EXPECT_FALSE(may_bypass_in_forward(
        rule({{.name = "payload", .argument = "payload network 12 3"}, compare("eq 0a0200"), counter()})));
}

TEST(Policy, ADropObjectsAndNamesItsPlace) {
    const auto objection = objection_to(
        {base_chain("forward", {rule({{.name = "payload", .argument = "payload network 16 4"}, verdict("drop")})})});
    ASSERT_TRUE(objection);
    EXPECT_EQ(*objection, "rule in chain forward of table inet fw (immediate drop)");
}

TEST(Policy, APolicyOfDropObjects) {
    NftChain forward = base_chain("forward", {});
    forward.policy_drop = true;
    EXPECT_EQ(objection_to({forward}), "policy drop of chain forward of table inet fw");
}

TEST(Policy, ChainsThatARedirectedFrameNeverMeetDoNotObject) {
    NftChain input = base_chain("input", {rule({verdict("drop")})});
    input.policy_drop = true;
    NftChain arp = base_chain("forward", {rule({verdict("drop")})});
    arp.family = "arp";
    EXPECT_TRUE(may_bypass({input, base_chain("output", {rule({verdict("drop")})}), arp}));
}

TEST(Policy, EveryHookOfTheWayThroughObjects) {
    for (const char* hook : {"prerouting", "forward", "postrouting", "ingress", "egress", "7"})
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
        {.name = "objref", .argument = ""},
        {.name = "dynset", .argument = "@flows"},
        {.name = "lookup", .argument = "vmap states"},
        {.name = "something new", .argument = ""},
        {.name = "immediate", .argument = "queue"},
        {.name = "immediate", .argument = "jump nowhere"},
    };
    for (const auto& change : changes)
        EXPECT_FALSE(may_bypass({base_chain("postrouting", {rule({change})})}))
            << change.name << " " << change.argument;
}

TEST(Policy, DroppingWhatIsInvalidDoesNotObject) {
    EXPECT_TRUE(may_bypass_in_forward(drop_by_state("01000000")));
    EXPECT_TRUE(may_bypass_in_forward(rule({{.name = "meta", .argument = "meta iifname"},
                                            compare("eq 65746830"),
                                            load_state(),
                                            mask("01000000"),
                                            compare("neq 00000000"),
                                            verdict("drop")})))
        << "of one device";
    EXPECT_TRUE(may_bypass_in_forward(rule({match("conntrack invalid"), match("comment"), counter(), verdict("drop")})))
        << "by iptables";
}

TEST(Policy, DroppingAnotherStateObjects) {
    EXPECT_FALSE(may_bypass_in_forward(drop_by_state("08000000"))) << "new";
    EXPECT_FALSE(may_bypass_in_forward(drop_by_state("09000000"))) << "invalid,new";
    EXPECT_FALSE(may_bypass_in_forward(rule({load_state(), compare("neq 01000000"), verdict("drop")}))) << "!= invalid";
    EXPECT_FALSE(may_bypass_in_forward(
        rule({load_state(), mask("01000000"), compare("eq 00000000"), counter(), verdict("drop")})))
        << "the bit of invalid is not set";
    EXPECT_FALSE(may_bypass_in_forward(rule({load_state(),
                                             {.name = "bitwise", .argument = "& 01000000 ^ 01000000"},
                                             compare("neq 00000000"),
                                             verdict("drop")})))
        << "the bit of invalid is turned over";
    EXPECT_FALSE(may_bypass_in_forward(
        rule({{.name = "ct", .argument = "ct status"}, mask("01000000"), compare("neq 00000000"), verdict("drop")})))
        << "a bit of another word";
    EXPECT_FALSE(
        may_bypass_in_forward(rule({load_state(), {.name = "lookup", .argument = "@__set0"}, verdict("drop")})))
        << "states of a set, which is not read";
    EXPECT_FALSE(may_bypass_in_forward(rule({match("conntrack"), counter(), verdict("drop")}))) << "by iptables";
}

TEST(Policy, WhatElseARuleDoesWithInvalidFramesObjects) {
    const auto invalid_then = [](std::vector<NftExpression> rest) {
        NftRule made = drop_by_state("01000000");
        made.expressions.pop_back();
        made.expressions.insert(made.expressions.end(), rest.begin(), rest.end());
        return may_bypass_in_forward(made);
    };
    EXPECT_TRUE(invalid_then({verdict("drop")}));
    EXPECT_FALSE(invalid_then({{.name = "meta", .argument = "set meta mark"}, verdict("drop")}));
    EXPECT_FALSE(invalid_then({{.name = "log", .argument = ""}, verdict("drop")}));
    EXPECT_FALSE(invalid_then({{.name = "reject", .argument = ""}}));
    EXPECT_FALSE(invalid_then({verdict("queue")}));
    EXPECT_FALSE(
        may_bypass_in_forward(rule({verdict("drop"), load_state(), mask("01000000"), compare("neq 00000000")})))
        << "drops before it asks";
}

TEST(Policy, JumpsAreFollowed) {
    const NftChain jumping = base_chain("forward", {rule({verdict("jump pods")}), rule({verdict("goto more")})});
    const NftChain pods = regular_chain("pods", {rule({verdict("accept")})});
    EXPECT_TRUE(may_bypass({jumping, pods, regular_chain("more", {rule({verdict("return")})})}));
    const auto objection = objection_to({jumping, pods, regular_chain("more", {rule({verdict("drop")})})});
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
    NftChain filter = base_chain("forward", {rule({load_state(), {.name = "lookup", .argument = "vmap __map1"}})});
    filter.table = "kube-proxy";
    NftChain nat = base_chain("postrouting", {rule({{.name = "masq", .argument = ""}})});
    nat.table = "kube-proxy";
    EXPECT_TRUE(may_bypass({filter, nat}));
}

TEST(Policy, KubeProxysIptablesFormDoesNotObject) {
    NftChain forward = base_chain(
        "forward", {rule({match("conntrack"), match("comment"), counter(), verdict("jump KUBE-PROXY-FIREWALL")}),
                    rule({verdict("jump KUBE-FORWARD")}), rule({verdict("jump CNI-HOSTPORT-DNAT")})});
    forward.table = "filter";
    forward.family = "ip";
    NftChain kube = regular_chain("KUBE-FORWARD", {drop_by_state("08000000")});
    kube.table = "filter";
    kube.family = "ip";
    EXPECT_TRUE(may_bypass({forward, kube}));
}

TEST(Policy, NetworkPoliciesInChainsThatBeginLikeKubeProxysObject) {
    const NftChain forward = base_chain("forward", {rule({verdict("jump KUBE-ROUTER-FORWARD")})});
    EXPECT_FALSE(may_bypass({forward, regular_chain("KUBE-ROUTER-FORWARD", {rule({verdict("drop")})})}));
}

TEST(Policy, PortmapsNftablesFormDoesNotObject) {
    NftChain nat = base_chain("prerouting", {rule({verdict("jump hostports")})});
    NftChain hostports = regular_chain("hostports", {rule({{.name = "nat", .argument = "dnat"}})});
    nat.table = hostports.table = "cni_hostport";
    EXPECT_TRUE(may_bypass({nat, hostports}));
}

TEST(Policy, OurOwnTableDoesNotObject) {
    NftChain ours = base_chain("postrouting", {rule({{.name = "masq", .argument = ""}})});
    ours.table = "xveth";
    EXPECT_TRUE(may_bypass({ours}));
}

TEST(Policy, WithoutNfTablesThereAreNoRules) {
    FaultInjector faults;
    netlink::World world(faults);
    world.has_nf_tables = false;
    netlink::FakeNftables nft(world);
    EXPECT_EQ(find_objection(nft), std::nullopt);
}

// A ruleset that changes at each of the first `changes` looks.
class ChangingNftables final : public netlink::FakeNftables {
public:
    ChangingNftables(netlink::World& world, std::uint32_t changes) : FakeNftables(world), changes_(changes) {}
    Result<std::uint32_t> generation() override { return asked_ < changes_ ? ++asked_ : asked_; }

private:
    std::uint32_t changes_;
    std::uint32_t asked_ = 0;
};

TEST(Policy, ARulesetThatChangesIsReadAgain) {
    FaultInjector faults;
    netlink::World world(faults);
    ChangingNftables settles(world, 3);
    EXPECT_EQ(find_objection(settles), std::nullopt);
    ChangingNftables never_settles(world, 1000);
    EXPECT_EQ(find_objection(never_settles), "the ruleset cannot be read: it changed all the time");
}

TEST(Policy, WhatCannotBeReadObjects) {
    FaultInjector faults;
    netlink::World world(faults);
    world.ruleset = {base_chain("forward", {})};
    netlink::FakeNftables nft(world);
    const auto read = [&](int failing) {
        faults.fail_nth(failing, EIO);
        return find_objection(nft).value_or("");
    };
    for (int n = 1; n <= 4; ++n) EXPECT_TRUE(read(n).starts_with("the ruleset cannot be read: ")) << n << read(n);
    EXPECT_EQ(read(5), "") << "the last call of a judgement is the fourth";
}

TEST(Policy, QdiscsThatOnlyQueueAreHarmless) {
    for (const char* kind : {"noqueue", "mq", "pfifo_fast", "fq", "fq_codel", "clsact", "ingress"})
        EXPECT_TRUE(is_harmless_qdisc(kind)) << kind;
    for (const char* kind : {"tbf", "htb", "netem", "cake", "hfsc", ""}) EXPECT_FALSE(is_harmless_qdisc(kind)) << kind;
}

}  // namespace
}  // namespace xveth::datapath
