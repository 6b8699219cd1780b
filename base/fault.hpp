// SPDX-License-Identifier: Apache-2.0
// For the fakes of the kernel interfaces: counts their calls and makes the n-th one fail.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace xveth {

// A fake calls step() at the head of each of its functions and returns at once when that fails. One injector may be
// shared by several fakes, so that "the n-th kernel call" counts over all of them.
class FaultInjector {
public:
    // The n-th step from now (1 = the next one) fails with `err`; 0 = none.
    void fail_nth(int n, int err) {
        calls_ = 0;
        fail_at_ = n;
        err_ = err;
        names_.clear();
    }
    // Steps since the last fail_nth(), the failed one included, and their names in order.
    [[nodiscard]] int calls() const { return calls_; }
    [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

    [[nodiscard]] Result<void> step(std::string_view name) {
        ++calls_;
        names_.emplace_back(name);
        if (calls_ == fail_at_) return errno_error(err_, std::string(name) + " (injected)");
        return ok();
    }

private:
    int calls_ = 0;
    int fail_at_ = 0;
    int err_ = 0;
    std::vector<std::string> names_;
};

}  // namespace xveth
