// SPDX-License-Identifier: Apache-2.0
// JSON for the .cpp files of this folder and for the programs that print it; no header shows it to a verb.
// Values are looked at by pointer and never copied: copying a document that is nested a million deep would recurse.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace xveth::attachment {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // what we print: members in the order in which they were set

// Code 6, with the position, when `text` is no JSON document.
[[nodiscard]] Result<Json> parse_json(std::string_view text);
// One line. Bytes that are no UTF-8 are replaced, never an error.
[[nodiscard]] std::string dump_json(const OrderedJson& value);

// A member of an object; null pointer when it is absent, when it is null, and when `object` is no object.
[[nodiscard]] const Json* find_member(const Json& object, std::string_view key);
// The same, whatever the key's case: Go programs marshal structs without tags ("IngressRate"). An exact match wins.
[[nodiscard]] const Json* find_member_any_case(const Json& object, std::string_view key);

// A whole number that is not negative, as a JSON number (1500, 1.5e3).
[[nodiscard]] std::optional<std::uint64_t> as_unsigned(const Json& value);
// The same, or a string of decimal digits.
[[nodiscard]] std::optional<std::uint64_t> as_unsigned_or_digits(const Json& value);
[[nodiscard]] std::optional<std::uint64_t> parse_digits(std::string_view digits);

// A value for an error message: short, one line.
[[nodiscard]] std::string describe(const Json& value);

}  // namespace xveth::attachment
