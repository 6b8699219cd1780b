// SPDX-License-Identifier: Apache-2.0
#include "bench/traffic.hpp"

#include <sched.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "bench/host_tools.hpp"

namespace xveth::bench {
namespace {

// A burst may end with frames in a ring; more lost than this share of them is unequal work.
constexpr double tolerated_loss = 0.001;

// What the NIC's statistics say about redirects.
struct Redirects {
    std::uint64_t in = 0;   // by the NIC's own program
    std::uint64_t out = 0;  // frames sent out through it
};

Result<Redirects> redirects_of(const Lab& lab) {
    auto in = sum_driver_statistics(lab.node(), nic_device, "rx_queue_", "_xdp_redirect");
    if (!in) return std::move(in.error());
    auto out = sum_driver_statistics(lab.node(), nic_device, "tx_queue_", "_xdp_xmit");
    if (!out) return std::move(out.error());
    return Redirects{.in = *in, .out = *out};
}

// The counter, once it has stopped to move.
Result<std::uint64_t> settled_count(const Receiver& counter) {
    auto last = counter.counted();
    for (int still = 0; last && still < 3;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        auto now = counter.counted();
        if (!now) return now;
        still = *now == *last ? still + 1 : 0;
        last = std::move(now);
    }
    return last;
}

Error unequal(const std::string& text) {
    return {.code = 0, .errno_value = 0, .text = "unequal work: " + text, .hint = {}};
}

// Whether as many frames were redirected as were sent (or none, for a way through the stack).
Result<void> check_share(const std::string& what, bool wanted, std::uint64_t redirected, std::uint64_t sent) {
    const auto share = static_cast<double>(redirected) / static_cast<double>(sent);
    if (wanted ? share >= 1 - tolerated_loss : share <= tolerated_loss) return ok();
    return unequal(std::to_string(redirected) + " of " + std::to_string(sent) + " frames were redirected " + what);
}

Result<void> check_way(Way way, const Redirects& before, const Redirects& after, std::uint64_t sent) {
    const bool in = way == Way::xdp || way == Way::xdp_and_back;
    if (auto checked = check_share("by the NIC", in, after.in - before.in, sent); !checked) return checked;
    return check_share("out through the NIC", way == Way::xdp_and_back, after.out - before.out, sent);
}

Result<double> measure_rate(Target& target, double seconds) {
    auto before = settled_count(target.counter);
    if (!before) return std::move(before.error());
    auto redirects_before = redirects_of(*target.lab);
    if (!redirects_before) return std::move(redirects_before.error());
    auto burst = target.generator.run(seconds);
    if (!burst) return std::move(burst.error());
    auto after = settled_count(target.counter);
    if (!after) return std::move(after.error());
    auto redirects_after = redirects_of(*target.lab);
    if (!redirects_after) return std::move(redirects_after.error());
    const auto received = static_cast<double>(*after - *before);
    if (received < static_cast<double>(burst->sent) * (1 - tolerated_loss))
        return unequal(std::to_string(*after - *before) + " of " + std::to_string(burst->sent) + " frames arrived");
    if (auto checked = check_way(target.way, *redirects_before, *redirects_after, burst->sent); !checked)
        return std::move(checked.error());
    return received / burst->seconds / 1e6;
}

}  // namespace

Series rate_series(const std::string& metric, Target& target, double seconds) {
    return {.metric = metric, .unit = "Mpps", .measure = [&target, seconds] { return measure_rate(target, seconds); }};
}

Result<void> warm_up(Generator& generator) {
    constexpr int bursts = 3;
    for (int i = 0; i < bursts; ++i) {
        if (auto sent = generator.run(0.02); !sent) return std::move(sent.error());
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return ok();
}

Result<void> pin_to_last_cpu() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return errno_error(errno, "read the CPU affinity");
    std::size_t last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &allowed)) --last;
    CPU_ZERO(&allowed);
    CPU_SET(last, &allowed);
    if (::sched_setaffinity(0, sizeof(allowed), &allowed) != 0) return errno_error(errno, "pin the generator to a CPU");
    return ok();
}

}  // namespace xveth::bench
