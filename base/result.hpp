// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error; ignoring one is a compiler warning.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace xveth {

// What went wrong, in one sentence that grows as it travels up: each layer puts one noun phrase in front (`in()`).
struct Error {
    int code = 0;         // error code of the CNI answer; 0 until a layer that knows it sets it
    int errno_value = 0;  // the kernel's errno, 0 when there was none
    std::string text;     // "create veth xv12ab/eth0: Invalid argument (kernel: mtu greater than device maximum)"
    std::string hint;     // how to cure it; may be empty

    // The same error, seen from one layer up: "phrase: text".
    [[nodiscard]] Error in(std::string_view phrase) && {
        text.insert(0, std::string(phrase) + ": ");
        return std::move(*this);
    }
    [[nodiscard]] Error with_code(int new_code) && {
        code = new_code;
        return std::move(*this);
    }
    // Sets the code only where no inner layer has set one.
    [[nodiscard]] Error or_code(int new_code) && {
        if (code == 0) code = new_code;
        return std::move(*this);
    }
    [[nodiscard]] Error with_hint(std::string new_hint) && {
        hint = std::move(new_hint);
        return std::move(*this);
    }
};

// "phrase: strerror(err)", with errno_value set.
[[nodiscard]] Error errno_error(int err, std::string_view phrase);

// Deriving makes the compiler warn about an ignored result; a plain std::expected is ignored silently.
template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
    using base_type = std::expected<T, Error>;

public:
    using base_type::base_type;
    Result(Error e) : base_type(std::unexpected(std::move(e))) {}
};

inline Result<void> ok() { return {}; }

}  // namespace xveth
