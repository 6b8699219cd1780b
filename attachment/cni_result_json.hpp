// SPDX-License-Identifier: Apache-2.0
// decode_result() for a document that is already parsed. Private to this folder's .cpp files.
#pragma once

#include <string>

#include "attachment/cni_result.hpp"
#include "attachment/json.hpp"

namespace xveth::attachment {

[[nodiscard]] Result<CniResult> decode_result(const Json& json, const std::string& assumed_version);

}  // namespace xveth::attachment
