// SPDX-License-Identifier: Apache-2.0
// What libbpf and the verifier say while a scope lasts: kept for an error, never printed.
#pragma once

#include <bpf/libbpf.h>

#include <string>

namespace xveth::bpf {

class LogCapture {
public:
    LogCapture();
    LogCapture(const LogCapture&) = delete;
    LogCapture& operator=(const LogCapture&) = delete;
    ~LogCapture();
    // The last lines, in one line.
    [[nodiscard]] std::string tail() const;

private:
    std::string text_;
    libbpf_print_fn_t previous_;
};

}  // namespace xveth::bpf
