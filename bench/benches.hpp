// SPDX-License-Identifier: Apache-2.0
// The benches by name. Each builds its labs, measures, and fills the report; an error means that it could not start.
#pragma once

#include "base/result.hpp"
#include "bench/report.hpp"
#include "bench/settings.hpp"

namespace xveth::bench {

struct Bench {
    const char* name;
    const char* what;
    Result<void> (*run)(const Settings&, Report&);
};

[[nodiscard]] Result<void> bench_drop(const Settings& settings, Report& report);
[[nodiscard]] Result<void> bench_tx(const Settings& settings, Report& report);
[[nodiscard]] Result<void> bench_tcp(const Settings& settings, Report& report);
[[nodiscard]] Result<void> bench_add(const Settings& settings, Report& report);
[[nodiscard]] Result<void> bench_chain(const Settings& settings, Report& report);
[[nodiscard]] Result<void> bench_bridge(const Settings& settings, Report& report);

}  // namespace xveth::bench
