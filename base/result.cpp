// SPDX-License-Identifier: Apache-2.0
#include "base/result.hpp"

#include <system_error>

namespace xveth {

Error errno_error(int err, std::string_view phrase) {
    return {.code = 0,
            .errno_value = err,
            .text = std::string(phrase) + ": " + std::generic_category().message(err),
            .hint = {}};
}

}  // namespace xveth
