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
#include <map>
#include <tuple>
#include <utility>

#include "netlink/nft_messages.hpp"
#include "netlink/socket.hpp"

namespace xveth::netlink {
namespace {

const std::string table_name = "xveth";
const std::string base_chain_name = "postrouting";
const std::string conntrack_table_name = "xveth-conntrack";
constexpr int attempts = 8;

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
    std::string name = "pods-" + local.network().address.to_string() + "-" + std::to_string(local.length);
    std::ranges::replace(name, ':', '.');
    return name;
}

void add_table(NftBatch& batch, const std::string& table) {
    batch.add(NFT_MSG_NEWTABLE, NLM_F_CREATE, NFPROTO_INET).put_text(NFTA_TABLE_NAME, table);
}

void delete_table(NftBatch& batch, const std::string& table) {
    batch.add(NFT_MSG_DELTABLE, 0, NFPROTO_INET).put_text(NFTA_TABLE_NAME, table);
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

bool failed_with(const Result<void>& result, int errno_value) {
    return !result && result.error().errno_value == errno_value;
}

class SystemNftables final : public Nftables {
public:
    explicit SystemNftables(Netns ns) : ns_(std::move(ns)) {}

    Result<std::vector<NftChain>> ruleset() override;
    Result<void> ensure_masquerade(const IpAddress& source, const IpPrefix& local) override;
    Result<bool> has_masquerade(const IpAddress& source) override;
    Result<void> remove_masquerade_if_present(const IpAddress& source) override;
    Result<void> load_conntrack() override;

private:
    // The socket, opened at its first use. errno EPROTONOSUPPORT: the kernel has no nfnetlink.
    Result<Socket*> socket();
    Result<void> execute(NftBatch& batch, std::string_view what);
    Result<std::vector<Received>> dump(int type, const std::string& table);
    Result<std::uint32_t> generation();

    Result<void> create_base();
    Result<void> create_local_chain(const IpPrefix& local);
    Result<void> map_source(const IpAddress& source, const std::string& chain);
    // The chain that `source` jumps to; empty when it has no element.
    Result<std::string> chain_of(const IpAddress& source);
    Result<bool> has_rule(const std::string& chain, std::string_view expression, std::string_view argument);
    Result<void> remove_chain_if_unused(const std::string& chain);
    Result<void> remove_table_if_unused();

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

// All objects of a kind, of every family, or of one of our own tables.
Result<std::vector<Received>> SystemNftables::dump(int type, const std::string& table) {
    auto opened = socket();
    if (!opened) return std::move(opened.error());
    Message message = nft_message(type, 0, table.empty() ? AF_UNSPEC : NFPROTO_INET);
    if (!table.empty()) message.put_text(NFTA_RULE_TABLE, table);
    auto answers = (*opened)->dump(message, "list nf_tables");
    // nfnetlink's word for a kernel without nf_tables.
    if (!answers && answers.error().errno_value == EINVAL) answers.error().errno_value = EPROTONOSUPPORT;
    return answers;
}

Result<std::vector<NftChain>> SystemNftables::ruleset() {
    auto chain_messages = dump(NFT_MSG_GETCHAIN, {});
    if (!chain_messages) return std::move(chain_messages.error());
    std::vector<NftChain> chains;
    std::map<std::tuple<std::string, std::string, std::string>, std::size_t> places;
    for (const auto& message : *chain_messages) {
        chains.push_back(parse_chain(message));
        const auto& chain = chains.back();
        places[{chain.family, chain.table, chain.name}] = chains.size() - 1;
    }
    auto rule_messages = dump(NFT_MSG_GETRULE, {});
    if (!rule_messages) return std::move(rule_messages.error());
    for (const auto& message : *rule_messages) {
        const auto attributes = message.attributes<nfgenmsg>();
        const auto place = places.find({nft_family_name(message.header<nfgenmsg>().nfgen_family),
                                        attributes.text(NFTA_RULE_TABLE), attributes.text(NFTA_RULE_CHAIN)});
        // A chain that came between the two lists: whoever adds rules then, adds them after our look.
        if (place != places.end()) chains[place->second].rules.push_back(parse_rule(message));
    }
    return chains;
}

Result<void> SystemNftables::create_base() {
    NftBatch batch;
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
    return execute(batch, "create table inet " + table_name);
}

Result<void> SystemNftables::create_local_chain(const IpPrefix& local) {
    const std::string chain = local_chain_name(local);
    const auto& facts = facts_of(local.address.family);
    NftBatch batch;
    add_chain(batch, table_name, chain);
    for (const IpPrefix& spared : {local, facts.multicast})
        add_rule(batch, table_name, chain, [&](Message& rule) {
            put_payload_load(rule, facts.destination_offset, facts.address_size);
            put_prefix_compare(rule, spared);
            put_verdict(rule, NFT_RETURN);
        });
    add_rule(batch, table_name, chain, [](Message& rule) { put_masquerade(rule); });
    return execute(batch, "create chain " + chain + " of table inet " + table_name);
}

Result<void> SystemNftables::map_source(const IpAddress& source, const std::string& chain) {
    auto mapped = chain_of(source);
    if (!mapped) return std::move(mapped.error());
    if (*mapped == chain) return ok();
    NftBatch batch;
    if (!mapped->empty()) put_element(batch.add(NFT_MSG_DELSETELEM, 0, NFPROTO_INET), source, {});
    put_element(batch.add(NFT_MSG_NEWSETELEM, NLM_F_CREATE, NFPROTO_INET), source, chain);
    return execute(batch, "masquerade " + source.to_string());
}

// Usually table and chain are there and one element is all that is added. Others come and go in between: then again.
Result<void> SystemNftables::ensure_masquerade(const IpAddress& source, const IpPrefix& local) {
    Result<void> mapped = ok();
    for (int attempt = 0; attempt < attempts; ++attempt) {
        mapped = map_source(source, local_chain_name(local));
        if (!failed_with(mapped, ENOENT)) return mapped;
        if (auto base = create_base(); !base && !failed_with(base, EEXIST)) return base;
        auto chain = create_local_chain(local);
        if (!chain && !failed_with(chain, EEXIST) && !failed_with(chain, ENOENT)) return chain;
    }
    return mapped;
}

Result<std::string> SystemNftables::chain_of(const IpAddress& source) {
    auto opened = socket();
    if (!opened) return std::move(opened.error());
    Message message = nft_message(NFT_MSG_GETSETELEM, 0, NFPROTO_INET);
    put_element(message, source, {});
    auto answer = (*opened)->get(message, "look up masquerading of " + source.to_string());
    if (!answer && answer.error().errno_value == ENOENT) return std::string{};
    if (!answer) return std::move(answer.error());
    std::string chain;
    answer->attributes<nfgenmsg>().nested(NFTA_SET_ELEM_LIST_ELEMENTS).for_each([&](int, const Attributes& element) {
        chain = jump_target(element.nested(NFTA_SET_ELEM_DATA));
    });
    return chain;
}

Result<bool> SystemNftables::has_rule(const std::string& chain, std::string_view expression,
                                      std::string_view argument) {
    auto messages = dump(NFT_MSG_GETRULE, table_name);
    if (!messages) return std::move(messages.error());
    return std::ranges::any_of(*messages, [&](const Received& message) {
        return message.attributes<nfgenmsg>().text(NFTA_RULE_CHAIN) == chain &&
               std::ranges::any_of(parse_rule(message).expressions, [&](const NftExpression& found) {
                   return found.name == expression && found.argument == argument;
               });
    });
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
    if (!chain) {
        const int err = chain.error().errno_value;
        if (err == EPROTONOSUPPORT || err == EINVAL) return ok();  // a kernel without nf_tables
        return std::move(chain.error());
    }
    if (chain->empty()) return ok();
    NftBatch batch;
    put_element(batch.add(NFT_MSG_DELSETELEM, 0, NFPROTO_INET), source, {});
    auto removed = execute(batch, "end masquerading of " + source.to_string());
    if (!removed && !failed_with(removed, ENOENT)) return removed;
    return remove_chain_if_unused(*chain);
}

// The kernel counts the elements that jump to a chain: EBUSY while there are any.
Result<void> SystemNftables::remove_chain_if_unused(const std::string& chain) {
    NftBatch batch;
    batch.add(NFT_MSG_DELCHAIN, 0, NFPROTO_INET)
        .put_text(NFTA_CHAIN_TABLE, table_name)
        .put_text(NFTA_CHAIN_NAME, chain);
    auto removed = execute(batch, "remove chain " + chain + " of table inet " + table_name);
    if (failed_with(removed, EBUSY)) return ok();
    if (!removed && !failed_with(removed, ENOENT)) return removed;
    return remove_table_if_unused();
}

// Looking and removing are two steps; the batch is refused with ERESTART if anyone changed anything in between.
Result<void> SystemNftables::remove_table_if_unused() {
    for (int attempt = 0; attempt < attempts; ++attempt) {
        auto seen = generation();
        if (!seen) return std::move(seen.error());
        auto chains = dump(NFT_MSG_GETCHAIN, {});
        if (!chains) return std::move(chains.error());
        const bool used = std::ranges::any_of(*chains, [](const Received& message) {
            const NftChain chain = parse_chain(message);
            return chain.family == "inet" && chain.table == table_name && chain.name != base_chain_name;
        });
        if (used) return ok();
        NftBatch batch(*seen);
        delete_table(batch, table_name);
        auto removed = execute(batch, "remove table inet " + table_name);
        if (failed_with(removed, ENOENT)) return ok();
        if (!failed_with(removed, ERESTART)) return removed;
    }
    return ok();  // a busy ruleset; an empty table does no harm, and the next removal takes it away
}

Result<std::uint32_t> SystemNftables::generation() {
    auto opened = socket();
    if (!opened) return std::move(opened.error());
    Message message = nft_message(NFT_MSG_GETGEN, 0, AF_UNSPEC);
    auto answer = (*opened)->get(message, "read the generation of nf_tables");
    if (!answer) return std::move(answer.error());
    return answer->attributes<nfgenmsg>().be32(NFTA_GEN_ID);
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
