// SPDX-License-Identifier: Apache-2.0
#include "netlink/nftables.hpp"

#include <netinet/in.h>  // before the kernel's netfilter headers, which else define in_addr again

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "netlink/nft_messages.hpp"
#include "netlink/socket.hpp"

namespace xveth::netlink {
namespace {

const std::string table_name = "xveth";
const std::string base_chain_name = "postrouting";
const std::string local_chain_prefix = "pods-";
const std::string conntrack_table_name = "xveth-conntrack";
constexpr int attempts = 32;
// return for `local`, return for multicast, masquerade
constexpr std::uint32_t local_chain_rules = 3;

// Where the two families differ. The type numbers are those by which nft prints keys.
struct FamilyFacts {
    std::string map;
    std::uint8_t nfproto;
    std::uint32_t key_type;
    std::uint32_t address_size;
    std::uint32_t source_offset;  // in the network header
    std::uint32_t destination_offset;
    IpPrefix multicast;
};

const FamilyFacts& facts_of(Family family) {
    static const FamilyFacts ipv4{"masquerade4", NFPROTO_IPV4, 7, 4, 12, 16, *IpPrefix::parse("224.0.0.0/4")};
    static const FamilyFacts ipv6{"masquerade6", NFPROTO_IPV6, 8, 16, 8, 24, *IpPrefix::parse("ff00::/8")};
    return family == Family::ipv4 ? ipv4 : ipv6;
}

// nft's grammar knows no colon in names.
std::string local_chain_name(const IpPrefix& local) {
    std::string name = local_chain_prefix + local.network().address.to_string() + "-" + std::to_string(local.length);
    std::ranges::replace(name, ':', '.');
    return name;
}

void add_table(NftBatch& batch, const std::string& table) {
    batch.add(NFT_MSG_NEWTABLE, NLM_F_CREATE, NFPROTO_INET).put_text(NFTA_TABLE_NAME, table);
}

void delete_table(NftBatch& batch, const std::string& table) {
    batch.add(NFT_MSG_DELTABLE, 0, NFPROTO_INET).put_text(NFTA_TABLE_NAME, table);
}

void delete_chain(NftBatch& batch, const std::string& chain) {
    batch.add(NFT_MSG_DELCHAIN, 0, NFPROTO_INET)
        .put_text(NFTA_CHAIN_TABLE, table_name)
        .put_text(NFTA_CHAIN_NAME, chain);
}

// Exclusively: who creates the chain also fills it, in the same batch.
Message& add_chain(NftBatch& batch, const std::string& table, const std::string& chain) {
    return batch.add(NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL, NFPROTO_INET)
        .put_text(NFTA_CHAIN_TABLE, table)
        .put_text(NFTA_CHAIN_NAME, chain);
}

template <class Fill>
void add_rule(NftBatch& batch, const std::string& table, const std::string& chain, Fill fill) {
    batch.add(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, NFPROTO_INET)
        .put_text(NFTA_RULE_TABLE, table)
        .put_text(NFTA_RULE_CHAIN, chain)
        .nest(NFTA_RULE_EXPRESSIONS, fill);
}

void add_map(NftBatch& batch, const FamilyFacts& facts, std::uint32_t id) {
    constexpr std::uint32_t verdict_type = NFT_DATA_VERDICT;
    batch.add(NFT_MSG_NEWSET, NLM_F_CREATE, NFPROTO_INET)
        .put_text(NFTA_SET_TABLE, table_name)
        .put_text(NFTA_SET_NAME, facts.map)
        .put_be32(NFTA_SET_FLAGS, NFT_SET_MAP)
        .put_be32(NFTA_SET_KEY_TYPE, facts.key_type)
        .put_be32(NFTA_SET_KEY_LEN, facts.address_size)
        .put_be32(NFTA_SET_DATA_TYPE, verdict_type)
        .put_be32(NFTA_SET_ID, id);
}

// A message about the element of `source`; with a `chain` it maps to a jump there.
void put_element(Message& message, const IpAddress& source, const std::string& chain) {
    message.put_text(NFTA_SET_ELEM_LIST_TABLE, table_name)
        .put_text(NFTA_SET_ELEM_LIST_SET, facts_of(source.family).map)
        .nest(NFTA_SET_ELEM_LIST_ELEMENTS, [&](Message& elements) {
            elements.nest(NFTA_LIST_ELEM, [&](Message& element) {
                element.nest(NFTA_SET_ELEM_KEY, [&](Message& key) { key.put_address(NFTA_DATA_VALUE, source); });
                if (chain.empty()) return;
                element.nest(NFTA_SET_ELEM_DATA, [&](Message& data) {
                    data.nest(NFTA_DATA_VERDICT, [&](Message& code) { put_verdict_code(code, NFT_JUMP, chain); });
                });
            });
        });
}

// The table, its base chain and the maps that this asks.
void add_base(NftBatch& batch) {
    add_table(batch, table_name);
    add_chain(batch, table_name, base_chain_name)
        .put_text(NFTA_CHAIN_TYPE, "nat")
        .nest(NFTA_CHAIN_HOOK, [](Message& hook) {
            hook.put_be32(NFTA_HOOK_HOOKNUM, NF_INET_POST_ROUTING).put_be32(NFTA_HOOK_PRIORITY, NF_IP_PRI_NAT_SRC);
        });
    std::uint32_t id = 0;
    for (const Family family : {Family::ipv4, Family::ipv6}) {
        const auto& facts = facts_of(family);
        add_map(batch, facts, ++id);
        add_rule(batch, table_name, base_chain_name, [&](Message& rule) {
            put_meta_nfproto_is(rule, facts.nfproto);
            put_payload_load(rule, facts.source_offset, facts.address_size);
            put_verdict_lookup(rule, facts.map);
        });
    }
}

void add_local_chain(NftBatch& batch, const IpPrefix& local) {
    const std::string chain = local_chain_name(local);
    const auto& facts = facts_of(local.address.family);
    add_chain(batch, table_name, chain);
    for (const IpPrefix& spared : {local, facts.multicast})
        add_rule(batch, table_name, chain, [&](Message& rule) {
            put_meta_nfproto_is(rule,
                                facts.nfproto);  // true here in any case: nft prints addresses as such only after it
            put_payload_load(rule, facts.destination_offset, facts.address_size);
            put_prefix_compare(rule, spared);
            put_verdict(rule, NFT_RETURN);
        });
    add_rule(batch, table_name, chain, [](Message& rule) { put_masquerade(rule); });
}

// Refused without elements, rules or chains of others being lost: with NONREC the kernel deletes only what is empty.
void delete_base(NftBatch& batch) {
    delete_chain(batch, base_chain_name);
    for (const Family family : {Family::ipv4, Family::ipv6})
        batch.add(NFT_MSG_DELSET, NLM_F_NONREC, NFPROTO_INET)
            .put_text(NFTA_SET_TABLE, table_name)
            .put_text(NFTA_SET_NAME, facts_of(family).map);
    batch.add(NFT_MSG_DELTABLE, NLM_F_NONREC, NFPROTO_INET).put_text(NFTA_TABLE_NAME, table_name);
}

NftChain own_chain(const std::string& name) {
    NftChain chain;
    chain.family = "inet";
    chain.table = table_name;
    chain.name = name;
    return chain;
}

// Somebody else changed the table between our look at it and our batch.
bool lost_a_race(const Result<void>& result) {
    if (result) return false;
    const int err = result.error().errno_value;
    return err == ENOENT || err == EEXIST || err == EBUSY;
}

bool has_no_nf_tables(const Error& error) { return error.errno_value == EPROTONOSUPPORT; }

class SystemNftables final : public Nftables {
public:
    explicit SystemNftables(Netns ns) : ns_(std::move(ns)) {}

    Result<std::uint32_t> generation() override;
    Result<std::vector<NftChain>> chains() override;
    Result<std::vector<NftRule>> rules(const NftChain& chain) override;
    Result<void> ensure_masquerade(const IpAddress& source, const IpPrefix& local) override;
    Result<bool> has_masquerade(const IpAddress& source) override;
    Result<void> remove_masquerade_if_present(const IpAddress& source) override;
    Result<void> load_conntrack() override;

private:
    // The socket, opened at its first use. errno EPROTONOSUPPORT: the kernel has no nfnetlink.
    Result<Socket*> socket();
    Result<void> execute(NftBatch& batch, std::string_view what);
    Result<Received> get(Message& message, std::string_view what);
    Result<std::vector<Received>> dump(Message& message, std::string_view what);

    // The chain that `source` jumps to; empty when it has no element.
    Result<std::string> chain_of(const IpAddress& source);
    Result<bool> has_chain(const std::string& chain);
    Result<bool> has_rule(const std::string& chain, std::string_view expression, std::string_view argument);
    // Maps `source`, which `mapped` (empty: nothing) is the chain of, to that of `local`; makes what is missing for it.
    Result<void> map_source(const IpAddress& source, const std::string& mapped, const IpPrefix& local);
    Result<void> remove_unused();
    // Puts into `batch` the end of everything of our table that nothing uses.
    Result<void> delete_unused(NftBatch& batch);

    Netns ns_;
    std::optional<Socket> socket_;
};

Result<Socket*> SystemNftables::socket() {
    if (!socket_) {
        auto opened = Socket::open(ns_, NETLINK_NETFILTER);
        if (!opened) return std::move(opened.error());
        socket_.emplace(std::move(*opened));
    }
    return &*socket_;
}

Result<void> SystemNftables::execute(NftBatch& batch, std::string_view what) {
    auto opened = socket();
    if (!opened) return std::move(opened.error());
    return (*opened)->execute_batch(batch.finish(), what);
}

// nfnetlink's word for a kernel without nf_tables is EINVAL.
template <class T>
Result<T> tell_absence(Result<T> answer) {
    if (!answer && answer.error().errno_value == EINVAL) answer.error().errno_value = EPROTONOSUPPORT;
    return answer;
}

Result<Received> SystemNftables::get(Message& message, std::string_view what) {
    auto opened = socket();
    if (!opened) return std::move(opened.error());
    return tell_absence((*opened)->get(message, what));
}

Result<std::vector<Received>> SystemNftables::dump(Message& message, std::string_view what) {
    auto opened = socket();
    if (!opened) return std::move(opened.error());
    return tell_absence((*opened)->dump(message, what));
}

Result<std::uint32_t> SystemNftables::generation() {
    Message message = nft_message(NFT_MSG_GETGEN, 0, AF_UNSPEC);
    auto answer = get(message, "read the generation of nf_tables");
    if (!answer) return std::move(answer.error());
    return answer->attributes<nfgenmsg>().be32(NFTA_GEN_ID);
}

Result<std::vector<NftChain>> SystemNftables::chains() {
    Message message = nft_message(NFT_MSG_GETCHAIN, 0, AF_UNSPEC);
    auto answers = dump(message, "list chains of nf_tables");
    if (!answers) return std::move(answers.error());
    std::vector<NftChain> chains;
    chains.reserve(answers->size());
    for (const auto& answer : *answers) chains.push_back(parse_chain(answer));
    return chains;
}

Result<std::vector<NftRule>> SystemNftables::rules(const NftChain& chain) {
    const std::string what = "list rules of chain " + chain.name + " in table " + chain.family + " " + chain.table;
    const auto family = nft_family_number(chain.family);
    if (!family) return errno_error(EAFNOSUPPORT, what).with_code(100);
    Message message = nft_message(NFT_MSG_GETRULE, 0, *family);
    message.put_text(NFTA_RULE_TABLE, chain.table).put_text(NFTA_RULE_CHAIN, chain.name);
    auto answers = dump(message, what);
    if (!answers) return std::move(answers.error());
    std::vector<NftRule> rules;
    rules.reserve(answers->size());
    for (const auto& answer : *answers) rules.push_back(parse_rule(answer));
    return rules;
}

Result<std::string> SystemNftables::chain_of(const IpAddress& source) {
    Message message = nft_message(NFT_MSG_GETSETELEM, 0, NFPROTO_INET);
    put_element(message, source, {});
    auto answer = get(message, "look up masquerading of " + source.to_string());
    if (!answer && answer.error().errno_value == ENOENT) return std::string{};
    if (!answer) return std::move(answer.error());
    std::string chain;
    answer->attributes<nfgenmsg>().nested(NFTA_SET_ELEM_LIST_ELEMENTS).for_each([&](int, const Attributes& element) {
        chain = jump_target(element.nested(NFTA_SET_ELEM_DATA));
    });
    return chain;
}

Result<bool> SystemNftables::has_chain(const std::string& chain) {
    Message message = nft_message(NFT_MSG_GETCHAIN, 0, NFPROTO_INET);
    message.put_text(NFTA_CHAIN_TABLE, table_name).put_text(NFTA_CHAIN_NAME, chain);
    auto answer = get(message, "look up chain " + chain + " of table inet " + table_name);
    if (!answer && answer.error().errno_value == ENOENT) return false;
    if (!answer) return std::move(answer.error());
    return true;
}

Result<bool> SystemNftables::has_rule(const std::string& chain, std::string_view expression,
                                      std::string_view argument) {
    auto found = rules(own_chain(chain));
    if (!found) return std::move(found.error());
    return std::ranges::any_of(*found, [&](const NftRule& rule) {
        return std::ranges::any_of(rule.expressions, [&](const NftExpression& each) {
            return each.name == expression && each.argument == argument;
        });
    });
}

Result<void> SystemNftables::map_source(const IpAddress& source, const std::string& mapped, const IpPrefix& local) {
    const std::string chain = local_chain_name(local);
    NftBatch batch;
    auto made = has_chain(chain);
    if (!made) return std::move(made.error());
    if (!*made) {
        auto base = has_chain(base_chain_name);
        if (!base) return std::move(base.error());
        if (!*base) add_base(batch);
        add_local_chain(batch, local);
    }
    if (!mapped.empty()) put_element(batch.add(NFT_MSG_DELSETELEM, 0, NFPROTO_INET), source, {});
    put_element(batch.add(NFT_MSG_NEWSETELEM, NLM_F_CREATE, NFPROTO_INET), source, chain);
    return execute(batch, "masquerade " + source.to_string());
}

// Look, then change in one batch. Where others changed the same in between, the kernel refuses ours as a whole: look again.
// A chain is never there without an element, so what has none is left over and may go.
Result<void> SystemNftables::ensure_masquerade(const IpAddress& source, const IpPrefix& local) {
    Result<void> done = ok();
    for (int attempt = 0; attempt < attempts; ++attempt) {
        auto mapped = chain_of(source);
        if (!mapped) return std::move(mapped.error());
        if (*mapped == local_chain_name(local)) return ok();
        done = map_source(source, *mapped, local);
        if (done && !mapped->empty()) return remove_unused();
        if (!lost_a_race(done)) return done;
    }
    return done;
}

Result<bool> SystemNftables::has_masquerade(const IpAddress& source) {
    auto chain = chain_of(source);
    if (!chain) return std::move(chain.error());
    if (chain->empty()) return false;
    auto asked = has_rule(base_chain_name, "lookup", "vmap " + facts_of(source.family).map);
    if (!asked || !*asked) return asked;
    return has_rule(*chain, "masq", {});
}

Result<void> SystemNftables::remove_masquerade_if_present(const IpAddress& source) {
    auto chain = chain_of(source);
    if (!chain) return has_no_nf_tables(chain.error()) ? ok() : std::move(chain.error());
    if (!chain->empty()) {
        NftBatch batch;
        put_element(batch.add(NFT_MSG_DELSETELEM, 0, NFPROTO_INET), source, {});
        auto removed = execute(batch, "end masquerading of " + source.to_string());
        if (!removed && removed.error().errno_value != ENOENT) return removed;
    }
    return remove_unused();
}

// Also where `source` was not there: an earlier removal may have been killed half-way. Of several removals at once the one
// that comes last sees everything unused.
Result<void> SystemNftables::remove_unused() {
    Result<void> done = ok();
    for (int attempt = 0; attempt < attempts; ++attempt) {
        NftBatch batch;
        if (auto looked = delete_unused(batch); !looked) return looked;
        if (batch.empty()) return ok();
        done = execute(batch, "remove what is unused of table inet " + table_name);
        if (!lost_a_race(done)) return done;
    }
    return done;
}

// The kernel counts what uses a chain: its rules, and the elements that jump to it.
Result<void> SystemNftables::delete_unused(NftBatch& batch) {
    Message message = nft_message(NFT_MSG_GETCHAIN, 0, NFPROTO_INET);
    auto answers = dump(message, "list chains of nf_tables");
    if (!answers) return std::move(answers.error());
    bool there = false;
    bool used = false;
    for (const auto& answer : *answers) {
        const auto attributes = answer.attributes<nfgenmsg>();
        if (attributes.text(NFTA_CHAIN_TABLE) != table_name) continue;
        there = true;
        const std::string chain = attributes.text(NFTA_CHAIN_NAME);
        if (chain == base_chain_name) continue;
        if (!chain.starts_with(local_chain_prefix) || attributes.be32(NFTA_CHAIN_USE) > local_chain_rules)
            used = true;
        else
            delete_chain(batch, chain);
    }
    if (there && !used) delete_base(batch);
    return ok();
}

Result<void> SystemNftables::load_conntrack() {
    const std::string chain = "once";
    NftBatch batch;
    add_table(batch, conntrack_table_name);
    add_chain(batch, conntrack_table_name, chain);
    add_rule(batch, conntrack_table_name, chain, [](Message& rule) { put_ct_state_load(rule); });
    delete_table(batch, conntrack_table_name);
    return execute(batch, "load connection tracking");
}

}  // namespace

Result<std::unique_ptr<Nftables>> open_nftables(const Netns& ns) {
    auto own = ns.duplicate();
    if (!own) return std::move(own.error()).with_code(100);
    return std::unique_ptr<Nftables>(new SystemNftables(std::move(*own)));
}

}  // namespace xveth::netlink
