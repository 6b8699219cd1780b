// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/log_capture.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace xveth::bpf {
namespace {

constexpr std::size_t log_tail = 1200;  // bytes that an error carries

// libbpf's callback has no argument of ours, and loading is single-threaded.
thread_local std::string* captured_log = nullptr;

int capture(enum libbpf_print_level level, const char* format, va_list arguments) {
    if (level == LIBBPF_DEBUG || captured_log == nullptr) return 0;
    char* line = nullptr;
    if (::vasprintf(&line, format, arguments) < 0) return 0;
    captured_log->append(line);
    ::free(line);
    // A verifier log has megabytes; its end says what was wrong.
    if (captured_log->size() > 2 * log_tail) captured_log->erase(0, captured_log->size() - log_tail);
    return 0;
}

}  // namespace

LogCapture::LogCapture() : previous_(libbpf_set_print(capture)) { captured_log = &text_; }

LogCapture::~LogCapture() {
    captured_log = nullptr;
    libbpf_set_print(previous_);
}

std::string LogCapture::tail() const {
    std::string tail = text_.size() > log_tail ? text_.substr(text_.size() - log_tail) : text_;
    while (!tail.empty() && tail.back() == '\n') tail.pop_back();
    std::replace(tail.begin(), tail.end(), '\n', '|');
    return tail;
}

}  // namespace xveth::bpf
