// SPDX-License-Identifier: Apache-2.0
// The log file: one JSON object a line. The library below does not log; the verbs' callers do.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xveth::attachment {

using LogFields = std::vector<std::pair<std::string, std::string>>;

// Appends to `path` (one write(2) a line, O_APPEND; the directory is made). A log that cannot be written is no error:
// networking goes on.
class Log {
public:
    explicit Log(std::string path) : path_(std::move(path)) {}
    void write(std::string_view level, std::string_view message, const LogFields& fields) const;

private:
    std::string path_;
};

}  // namespace xveth::attachment
