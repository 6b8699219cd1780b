// SPDX-License-Identifier: Apache-2.0
// Single values of a configuration, and what is said of wrong ones. Private to the reading of the configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attachment/json.hpp"
#include "base/address.hpp"
#include "base/result.hpp"

namespace xveth::attachment {

// Code 7: `wanted` says what the key takes.
[[nodiscard]] Error wrong_value(const std::string& key, const Json& value, const std::string& wanted);
// Code 7, for a value of the contract that a later version serves.
[[nodiscard]] Error not_served(const std::string& key, const Json& value);

// Each reads the member `key`, or nothing where it is absent or null.
[[nodiscard]] Result<std::optional<std::string>> read_text(const Json& object, const char* key,
                                                           const std::string& wanted);
// Absent and null leave `flag` as it is. Some installers write "true" as a string.
[[nodiscard]] Result<void> read_flag(const Json& object, const char* key, bool& flag);
[[nodiscard]] Result<std::optional<std::uint32_t>> read_mtu_key(const Json& object, const char* key);
// `path`: the key as messages show it. The key is found whatever its case.
[[nodiscard]] Result<std::vector<std::string>> read_texts(const Json& object, const std::string& path, const char* key);
[[nodiscard]] Result<void> read_prefixes(const Json& object, const char* key, std::vector<IpPrefix>& prefixes);

}  // namespace xveth::attachment
