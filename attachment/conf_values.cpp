// SPDX-License-Identifier: Apache-2.0
#include "attachment/conf_values.hpp"

#include "attachment/container_requests.hpp"

namespace xveth::attachment {

Error wrong_value(const std::string& key, const Json& value, const std::string& wanted) {
    return {.code = 7,
            .errno_value = 0,
            .text = "key \"" + key + "\": value " + describe(value) + " is not " + wanted,
            .hint = {}};
}

Error not_served(const std::string& key, const Json& value) {
    return {.code = 7,
            .errno_value = 0,
            .text = "key \"" + key + "\": value " + describe(value) + ": not served by this version of xveth",
            .hint = {}};
}

Result<std::optional<std::string>> read_text(const Json& object, const char* key, const std::string& wanted) {
    const Json* value = find_member(object, key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) return wrong_value(key, *value, wanted);
    return value->get<std::string>();
}

Result<void> read_flag(const Json& object, const char* key, bool& flag) {
    const Json* value = find_member(object, key);
    if (value == nullptr) return ok();
    if (*value == "true" || *value == "false")
        flag = *value == "true";
    else if (value->is_boolean())
        flag = value->get<bool>();
    else
        return wrong_value(key, *value, "true or false");
    return ok();
}

Result<std::optional<std::uint32_t>> read_mtu_key(const Json& object, const char* key) {
    const Json* value = find_member(object, key);
    if (value == nullptr) return std::nullopt;
    const auto mtu = as_unsigned_or_digits(*value);
    if (!mtu || !is_valid_mtu(*mtu)) return wrong_value(key, *value, mtu_values);
    return static_cast<std::uint32_t>(*mtu);
}

Result<std::vector<std::string>> read_texts(const Json& object, const std::string& path, const char* key) {
    std::vector<std::string> texts;
    const Json* list = find_member_any_case(object, key);
    if (list == nullptr) return texts;
    if (!list->is_array()) return wrong_value(path, *list, "a list of strings");
    for (const Json& element : *list) {
        if (!element.is_string()) return wrong_value(path, element, "a string");
        texts.push_back(element.get<std::string>());
    }
    return texts;
}

Result<void> read_prefixes(const Json& object, const char* key, std::vector<IpPrefix>& prefixes) {
    const Json* list = find_member(object, key);
    if (list == nullptr) return ok();
    const std::string wanted = "a list of CIDRs like [\"10.1.0.0/16\"]";
    if (!list->is_array()) return wrong_value(key, *list, wanted);
    for (const Json& element : *list) {
        const auto prefix = element.is_string() ? IpPrefix::parse(element.get_ref<const std::string&>()) : std::nullopt;
        if (!prefix) return wrong_value(key, element, wanted);
        prefixes.push_back(prefix->network());
    }
    return ok();
}

}  // namespace xveth::attachment
