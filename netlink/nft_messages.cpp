// SPDX-License-Identifier: Apache-2.0
#include "netlink/nft_messages.hpp"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>

namespace xveth::netlink {
namespace {

Message batch_edge(int type) {
    Message message(type, NLM_F_REQUEST);
    message.header(nfgenmsg{.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)});
    return message;
}

template <class Fill>
void put_expression(Message& rule, const std::string& name, Fill fill) {
    rule.nest(NFTA_LIST_ELEM, [&](Message& element) {
        element.put_text(NFTA_EXPR_NAME, name);
        element.nest(NFTA_EXPR_DATA, fill);
    });
}

// The bytes of an address that its family uses.
std::span<const std::uint8_t> used_bytes(const IpAddress& address) {
    return std::span<const std::uint8_t>(address.bytes).first(address.size());
}

void put_value(Message& message, int type, std::span<const std::uint8_t> value) {
    message.nest(type, [&](Message& data) { data.put_bytes(NFTA_DATA_VALUE, value); });
}

void put_compare(Message& rule, std::span<const std::uint8_t> value) {
    put_expression(rule, "cmp", [&](Message& data) {
        data.put_be32(NFTA_CMP_SREG, NFT_REG_1).put_be32(NFTA_CMP_OP, NFT_CMP_EQ);
        put_value(data, NFTA_CMP_DATA, value);
    });
}

void put_mask(Message& rule, std::span<const std::uint8_t> mask) {
    const std::vector<std::uint8_t> zeros(mask.size());
    put_expression(rule, "bitwise", [&](Message& data) {
        data.put_be32(NFTA_BITWISE_SREG, NFT_REG_1)
            .put_be32(NFTA_BITWISE_DREG, NFT_REG_1)
            .put_be32(NFTA_BITWISE_LEN, static_cast<std::uint32_t>(mask.size()));
        put_value(data, NFTA_BITWISE_MASK, mask);
        put_value(data, NFTA_BITWISE_XOR, zeros);
    });
}

}  // namespace

Message nft_message(int type, int flags, std::uint8_t family) {
    Message message((NFNL_SUBSYS_NFTABLES << 8) | type, flags);
    message.header(nfgenmsg{.nfgen_family = family, .version = NFNETLINK_V0, .res_id = 0});
    return message;
}

NftBatch::NftBatch() { messages_.push_back(batch_edge(NFNL_MSG_BATCH_BEGIN)); }

Message& NftBatch::add(int type, int flags, std::uint8_t family) {
    messages_.push_back(nft_message(type, NLM_F_REQUEST | NLM_F_ACK | flags, family));
    return messages_.back();
}

std::vector<Message>& NftBatch::finish() {
    messages_.push_back(batch_edge(NFNL_MSG_BATCH_END));
    return messages_;
}

void put_meta_nfproto_is(Message& rule, std::uint8_t nfproto) {
    put_expression(rule, "meta", [](Message& data) {
        data.put_be32(NFTA_META_DREG, NFT_REG_1).put_be32(NFTA_META_KEY, NFT_META_NFPROTO);
    });
    put_compare(rule, {&nfproto, 1});
}

void put_payload_load(Message& rule, std::uint32_t offset, std::uint32_t size) {
    put_expression(rule, "payload", [&](Message& data) {
        data.put_be32(NFTA_PAYLOAD_DREG, NFT_REG_1)
            .put_be32(NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER)
            .put_be32(NFTA_PAYLOAD_OFFSET, offset)
            .put_be32(NFTA_PAYLOAD_LEN, size);
    });
}

void put_prefix_compare(Message& rule, const IpPrefix& prefix) {
    if (prefix.length < prefix.address.bits()) {
        IpPrefix ones{.address = {.family = prefix.address.family, .bytes = {}}, .length = prefix.length};
        ones.address.bytes.fill(0xff);
        const IpAddress mask = ones.network().address;
        put_mask(rule, used_bytes(mask));
    }
    const IpAddress network = prefix.network().address;
    put_compare(rule, used_bytes(network));
}

void put_verdict_lookup(Message& rule, const std::string& set) {
    put_expression(rule, "lookup", [&](Message& data) {
        data.put_text(NFTA_LOOKUP_SET, set)
            .put_be32(NFTA_LOOKUP_SREG, NFT_REG_1)
            .put_be32(NFTA_LOOKUP_DREG, NFT_REG_VERDICT);
    });
}

void put_verdict_code(Message& message, std::int32_t verdict, const std::string& chain) {
    message.put_be32(NFTA_VERDICT_CODE, static_cast<std::uint32_t>(verdict));
    if (!chain.empty()) message.put_text(NFTA_VERDICT_CHAIN, chain);
}

void put_verdict(Message& rule, std::int32_t verdict) {
    put_expression(rule, "immediate", [&](Message& data) {
        data.put_be32(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
        data.nest(NFTA_IMMEDIATE_DATA, [&](Message& value) {
            value.nest(NFTA_DATA_VERDICT, [&](Message& code) { put_verdict_code(code, verdict, {}); });
        });
    });
}

void put_masquerade(Message& rule) {
    put_expression(rule, "masq", [](Message&) {});
}

void put_ct_state_load(Message& rule) {
    put_expression(rule, "ct",
                   [](Message& data) { data.put_be32(NFTA_CT_DREG, NFT_REG_1).put_be32(NFTA_CT_KEY, NFT_CT_STATE); });
}

std::string jump_target(const Attributes& data) {
    const auto verdict = data.nested(NFTA_DATA_VERDICT);
    const auto code = static_cast<std::int32_t>(verdict.be32(NFTA_VERDICT_CODE));
    return code == NFT_JUMP ? verdict.text(NFTA_VERDICT_CHAIN) : std::string{};
}

}  // namespace xveth::netlink
