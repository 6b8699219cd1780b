// SPDX-License-Identifier: Apache-2.0
// All benches, one after the other, and what is written about them.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/result.hpp"
#include "bench/benches.hpp"

namespace xveth::bench {

// Each bench in a process of its own: its labs go with it, however it ends, and it goes with this one. The object that
// report.json holds; a bench that could not run is named in it. Says on stderr how far it is.
[[nodiscard]] nlohmann::json run_suite(std::span<const Bench> benches, const Settings& settings);

// Nothing failed, nothing was refused.
[[nodiscard]] bool complete(const nlohmann::json& report);

// report.md and the charts into `directory`.
[[nodiscard]] Result<void> write_pages(const nlohmann::json& report, const std::string& directory);
// These and report.json.
[[nodiscard]] Result<void> write_report(const nlohmann::json& report, const std::string& directory);
// What write_report wrote.
[[nodiscard]] Result<nlohmann::json> read_report(const std::string& directory);

}  // namespace xveth::bench
