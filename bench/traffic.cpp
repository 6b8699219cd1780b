// SPDX-License-Identifier: Apache-2.0
#include "bench/traffic.hpp"

#include <sched.h>

#include <cerrno>
#include <chrono>
#include <numeric>
#include <thread>

#include "bench/host_tools.hpp"

namespace xveth::bench {
namespace {

// A burst may end with frames in a ring; more lost than this share of them is unequal work.
constexpr double tolerated_loss = 0.001;

// What the drivers' statistics say about redirects.
struct Redirects {
    std::uint64_t in = 0;   // by the entry's own program
    std::uint64_t out = 0;  // frames sent out through the NIC
};

Result<std::uint64_t> redirected_at(const Lab& lab, const std::string& device) {
    return sum_driver_statistics(lab.node(), device, "rx_queue_", "_xdp_redirect");
}

Result<Redirects> redirects_of(const Target& target) {
    auto in = redirected_at(*target.lab, target.entry);
    if (!in) return std::move(in.error());
    auto out = sum_driver_statistics(target.lab->node(), nic_device, "tx_queue_", "_xdp_xmit");
    if (!out) return std::move(out.error());
    return Redirects{.in = *in, .out = *out};
}

using PerCpu = std::vector<std::uint64_t>;

// All counters together.
Result<PerCpu> count(const std::vector<Receiver>& counters) {
    PerCpu sum;
    for (const auto& counter : counters) {
        auto counted = counter.counted();
        if (!counted) return counted;
        sum.resize(counted->size());
        for (std::size_t cpu = 0; cpu < sum.size(); ++cpu) sum[cpu] += (*counted)[cpu];
    }
    return sum;
}

// The counters, once they have stopped to move.
Result<PerCpu> settled_count(const std::vector<Receiver>& counters) {
    auto last = count(counters);
    for (int still = 0; last && still < 3;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        auto now = count(counters);
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
    if (auto checked = check_share("at their entry", in, after.in - before.in, sent); !checked) return checked;
    return check_share("out through the NIC", way == Way::xdp_and_back, after.out - before.out, sent);
}

// Everything that is read before and after a burst.
struct Readings {
    PerCpu counted;
    Redirects redirects;
};

Result<Readings> read(const Target& target) {
    auto counted = settled_count(target.receivers.counters);
    if (!counted) return std::move(counted.error());
    auto redirects = redirects_of(target);
    if (!redirects) return std::move(redirects.error());
    return Readings{.counted = std::move(*counted), .redirects = *redirects};
}

// Every frame arrived, on the generator's CPU. A NAPI that something else scheduled on another CPU stays there as long as
// frames come: then two CPUs share the work, and the ring between them runs over.
Result<void> check_arrival(const PerCpu& before, const PerCpu& after, std::uint64_t sent) {
    const auto here = static_cast<std::size_t>(::sched_getcpu());
    const auto arrived = after[here] - before[here];
    if (static_cast<double>(arrived) >= static_cast<double>(sent) * (1 - tolerated_loss)) return ok();
    const auto all = std::accumulate(after.begin(), after.end(), std::uint64_t{0}) -
                     std::accumulate(before.begin(), before.end(), std::uint64_t{0});
    return unequal(std::to_string(all) + " of " + std::to_string(sent) + " frames arrived, " +
                   std::to_string(all - arrived) + " of them on another CPU");
}

Result<double> measure_once(Target& target, double seconds) {
    auto before = read(target);
    if (!before) return std::move(before.error());
    auto burst = target.generator.run(seconds);
    if (!burst) return std::move(burst.error());
    auto after = read(target);
    if (!after) return std::move(after.error());
    const auto expected = burst->sent * target.receivers.counters.size();
    if (auto checked = check_arrival(before->counted, after->counted, expected); !checked)
        return std::move(checked.error());
    if (auto checked = check_way(target.way, before->redirects, after->redirects, burst->sent); !checked)
        return std::move(checked.error());
    const auto here = static_cast<std::size_t>(::sched_getcpu());
    return static_cast<double>(after->counted[here] - before->counted[here]) / burst->seconds / 1e6;
}

// A disturbed burst is no measurement: it is repeated, a few times.
Result<double> measure_rate(Target& target, double seconds) {
    constexpr int attempts = 5;
    auto rate = measure_once(target, seconds);
    for (int i = 1; i < attempts && !rate; ++i) {
        ++target.disturbed;
        rate = measure_once(target, seconds);
    }
    return rate;
}

// So that neighbours, flows and caches are there before anything is measured.
Result<void> warm_up(Generator& generator) {
    constexpr int bursts = 3;
    for (int i = 0; i < bursts; ++i) {
        if (auto sent = generator.run(0.02); !sent) return std::move(sent.error());
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return ok();
}

}  // namespace

Receivers only(Receiver counter) {
    Receivers receivers;
    receivers.counters.push_back(std::move(counter));
    return receivers;
}

Result<Target> make_target(std::unique_ptr<Lab> lab, const FrameRoute& route, unsigned flows, Receivers receivers,
                           Way way, const std::string& entry) {
    auto generator = Generator::create(route, flows);
    if (!generator) return std::move(generator.error());
    if (auto warm = warm_up(*generator); !warm) return std::move(warm.error());
    return Target{.lab = std::move(lab),
                  .generator = std::move(*generator),
                  .receivers = std::move(receivers),
                  .way = way,
                  .entry = entry};
}

Series rate_series(const std::string& metric, Target& target, double seconds) {
    return {.metric = metric, .unit = "Mpps", .measure = [&target, seconds] { return measure_rate(target, seconds); }};
}

void note_disturbed(const std::deque<Target>& targets, Report& report) {
    const auto disturbed = std::accumulate(targets.begin(), targets.end(), 0U,
                                           [](unsigned sum, const Target& target) { return sum + target.disturbed; });
    if (disturbed > 0) report.note(std::to_string(disturbed) + " disturbed bursts were measured again");
}

Result<double> measure_redirected(const Lab& lab, const std::string& entry, double seconds,
                                  const std::function<Result<double>()>& measure) {
    auto before = redirected_at(lab, entry);
    if (!before) return std::move(before.error());
    auto value = measure();
    auto after = redirected_at(lab, entry);
    if (!after) return std::move(after.error());
    constexpr double frames_a_second = 1000;
    if (static_cast<double>(*after - *before) < frames_a_second * seconds)
        return unequal("the frames did not go by XDP");
    return value;
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
