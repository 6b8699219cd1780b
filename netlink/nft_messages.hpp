// SPDX-License-Identifier: Apache-2.0
// nf_tables messages: building blocks of batches, and reading expressions. Private to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/message.hpp"
#include "netlink/nftables.hpp"

namespace xveth::netlink {

// A request of nf_tables; `type` is an NFT_MSG_*, `family` an NFPROTO_*.
[[nodiscard]] Message nft_message(int type, int flags, std::uint8_t family);

// Several requests that take effect together or not at all.
class NftBatch {
public:
    NftBatch();
    // A request of the batch, to be filled; valid until the next one.
    Message& add(int type, int flags, std::uint8_t family);
    // Closes the batch: what Socket::execute_batch() takes.
    [[nodiscard]] std::vector<Message>& finish();
    [[nodiscard]] bool empty() const { return messages_.size() == 1; }

private:
    std::vector<Message> messages_;
};

// -- expressions of a rule under construction: within its NFTA_RULE_EXPRESSIONS
void put_meta_nfproto_is(Message& rule, std::uint8_t nfproto);
void put_payload_load(Message& rule, std::uint32_t offset, std::uint32_t size);  // of the network header
void put_prefix_compare(Message& rule, const IpPrefix& prefix);                  // what was loaded lies in `prefix`
void put_verdict_lookup(Message& rule, const std::string& set);
void put_verdict(Message& rule, std::int32_t verdict);
void put_masquerade(Message& rule);
void put_ct_state_load(Message& rule);

// A verdict's attributes: NFTA_VERDICT_CODE, and the chain of a jump.
void put_verdict_code(Message& message, std::int32_t verdict, const std::string& chain);

// The chain of a jump verdict in a set element's or expression's data; empty for another verdict.
[[nodiscard]] std::string jump_target(const Attributes& data);

[[nodiscard]] NftChain parse_chain(const Received& message);
[[nodiscard]] NftRule parse_rule(const Received& message);
[[nodiscard]] NftExpression parse_expression(const std::string& name, const Attributes& data);
[[nodiscard]] std::string nft_family_name(std::uint8_t family);
[[nodiscard]] std::optional<std::uint8_t> nft_family_number(std::string_view name);

}  // namespace xveth::netlink
