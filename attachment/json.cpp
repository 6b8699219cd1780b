// SPDX-License-Identifier: Apache-2.0
#include "attachment/json.hpp"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace xveth::attachment {
namespace {

bool same_ignoring_case(std::string_view a, std::string_view b) {
    return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

Result<Json> parse_json(std::string_view text) {
    try {
        return Json::parse(text);
    } catch (const Json::exception& e) {
        const std::string_view what = e.what();  // "[json.exception.parse_error.101] parse error at line …"
        const std::string_view sentence = what.substr(std::min(what.find("] ") + 2, what.size()));
        return Error{.code = 6, .errno_value = 0, .text = "no valid JSON: " + std::string(sentence), .hint = {}};
    }
}

std::string dump_json(const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

const Json* find_member(const Json& object, std::string_view key) {
    if (!object.is_object()) return nullptr;
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
}

const Json* find_member_any_case(const Json& object, std::string_view key) {
    if (const Json* exact = find_member(object, key)) return exact;
    if (!object.is_object()) return nullptr;
    for (auto it = object.begin(); it != object.end(); ++it)
        if (same_ignoring_case(it.key(), key) && !it->is_null()) return &*it;
    return nullptr;
}

std::optional<std::uint64_t> as_unsigned(const Json& value) {
    if (value.is_number_unsigned()) return value.get<std::uint64_t>();
    if (!value.is_number_float()) return std::nullopt;
    constexpr double exact_limit = 9007199254740992.0;  // 2^53: whole numbers are exact below
    const double number = value.get<double>();
    if (number < 0 || number > exact_limit || std::trunc(number) < number) return std::nullopt;
    return static_cast<std::uint64_t>(number);
}

std::optional<std::uint64_t> parse_digits(std::string_view digits) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
    return number;
}

std::optional<std::uint64_t> as_unsigned_or_digits(const Json& value) {
    if (value.is_string()) return parse_digits(value.get_ref<const std::string&>());
    return as_unsigned(value);
}

std::string describe(const Json& value) {
    constexpr std::size_t longest = 80;
    if (value.is_string() && value.get_ref<const std::string&>().size() > longest)
        return dump(value.get_ref<const std::string&>().substr(0, longest)) + "…";
    if (value.is_primitive()) return dump(value);
    // Writing recurses as deep as the value does, which may be too deep: only what is flat is shown.
    const bool flat = std::ranges::none_of(value, [](const Json& element) { return element.is_structured(); });
    const std::string text = flat ? dump(value) : std::string{};
    if (flat && text.size() <= longest) return text;
    return value.is_object() ? "{…}" : "[…]";
}

}  // namespace xveth::attachment
