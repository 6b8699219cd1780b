// SPDX-License-Identifier: Apache-2.0
// What a run found, as a table for people (ratios first) and as one JSON object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/measure.hpp"

namespace xveth::bench {

// What a reader of the numbers must know of the machine.
[[nodiscard]] nlohmann::json machine_facts();

class Report {
public:
    explicit Report(std::string bench) : bench_(std::move(bench)) {}

    // A measured series: its samples, or the reason why there are none.
    void add(const Series& series);
    void add(const std::string& metric, const std::string& unit, const Samples& samples);
    // metric = a / b round by round; refused (and said so) when one of the two was.
    void add_ratio(const std::string& metric, const Series& a, const Series& b);
    // A sentence that the reader of the numbers needs.
    void note(std::string sentence) { notes_.push_back(std::move(sentence)); }

    [[nodiscard]] bool complete() const { return refusals_.empty(); }
    [[nodiscard]] nlohmann::json object() const;
    [[nodiscard]] std::string json() const;
    [[nodiscard]] std::string table() const;

private:
    struct Row {
        std::string metric;
        std::string unit;
        Samples samples;
    };
    [[nodiscard]] static std::vector<Row> ratios_first(std::vector<Row> rows);

    std::string bench_;
    std::vector<Row> rows_;
    std::vector<std::string> notes_;
    std::vector<std::string> refusals_;
};

}  // namespace xveth::bench
