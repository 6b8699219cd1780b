// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <ranges>
#include <utility>
#include <vector>

namespace xveth {

// Runs a function at the end of the scope unless dismissed.
template <class F>
class [[nodiscard]] ScopeExit {
public:
    explicit ScopeExit(F f) : f_(std::move(f)) {}
    ScopeExit(const ScopeExit&) = delete;
    ScopeExit& operator=(const ScopeExit&) = delete;
    ~ScopeExit() {
        if (armed_) f_();
    }
    void dismiss() { armed_ = false; }

private:
    F f_;
    bool armed_ = true;
};

// The undo list of an operation of several steps: each finished step adds how to take it back; unless commit() is
// reached, the destructor undoes them in reverse order.
class Transaction {
public:
    Transaction() = default;
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    ~Transaction() {
        for (const auto& undo : std::views::reverse(undo_)) undo();
    }
    void on_failure(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
    void commit() { undo_.clear(); }

private:
    std::vector<std::function<void()>> undo_;
};

}  // namespace xveth
