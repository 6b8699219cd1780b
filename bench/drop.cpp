// SPDX-License-Identifier: Apache-2.0
// drop: a container's native XDP program counts and drops 64-byte frames; the same frames, the same program, by XDP
// redirect (xveth) and by kernel routing (ptp), with and without conntrack in the node, and dropped in the NIC itself.
#include <deque>
#include <utility>

#include "bench/benches.hpp"
#include "bench/traffic.hpp"

namespace xveth::bench {
namespace {

struct Wanted {
    std::string metric;
    Peer peer;
    bool conntrack;
    unsigned endpoints;
};

Result<Target> prepare(const Settings& settings, const Wanted& wanted) {
    const LabOptions options{.network = {.peer = wanted.peer, .container_xdp = "free", .nic = {}},
                             .conntrack = wanted.conntrack};
    auto lab = Lab::create(settings, "lab-" + wanted.metric, options);
    if (!lab) return std::move(lab.error());
    auto container = (*lab)->add_container();
    if (!container) return std::move(container.error());
    if (auto crowded = (*lab)->crowd(wanted.endpoints - 1); !crowded) return std::move(crowded.error());
    auto receiver = Receiver::attach((*container)->ns, container_device, Role::drop);
    if (!receiver) return std::move(receiver.error());
    const auto route = from_client(**lab, (*container)->address);
    return make_target(std::move(*lab), route, settings.flows, only(std::move(*receiver)),
                       wanted.peer == Peer::xveth ? Way::xdp : Way::stack);
}

// The upper bound: the same frames end in the NIC's own program, and no plugin has a part in it.
Result<Target> prepare_nic(const Settings& settings) {
    const LabOptions options{.network = {.peer = Peer::ptp, .container_xdp = {}, .nic = {}}, .conntrack = false};
    auto lab = Lab::create(settings, "lab-drop.nic", options);
    if (!lab) return std::move(lab.error());
    auto container = (*lab)->add_container();
    if (!container) return std::move(container.error());
    auto receiver = Receiver::attach((*lab)->node(), nic_device, Role::drop);
    if (!receiver) return std::move(receiver.error());
    const auto route = from_client(**lab, (*container)->address);
    return make_target(std::move(*lab), route, settings.flows, only(std::move(*receiver)), Way::nic);
}

}  // namespace

Result<void> bench_drop(const Settings& settings, Report& report) {
    if (auto pinned = pin_to_last_cpu(); !pinned) return pinned;
    const std::string crowded = "drop." + std::to_string(settings.endpoints);
    const std::vector<Wanted> wanted = {{"drop.xveth", Peer::xveth, false, 1},
                                        {"drop.ptp", Peer::ptp, false, 1},
                                        {"drop_ct.xveth", Peer::xveth, true, 1},
                                        {"drop_ct.ptp", Peer::ptp, true, 1},
                                        {crowded, Peer::xveth, false, settings.endpoints}};
    std::deque<Target> targets;
    std::vector<Series> series;
    for (const auto& one : wanted) {
        auto target = prepare(settings, one);
        if (!target) return std::move(target.error()).in(one.metric);
        series.push_back(rate_series(one.metric, targets.emplace_back(std::move(*target)), settings.seconds));
    }
    auto nic = prepare_nic(settings);
    if (!nic) return std::move(nic.error()).in("drop.nic");
    series.push_back(rate_series("drop.nic", targets.emplace_back(std::move(*nic)), settings.seconds));

    interleave(series, settings.rounds);
    for (const auto& one : series) report.add(one);
    note_disturbed(targets, report);
    report.add_ratio("drop.vs_ptp", series[0], series[1]);
    report.add_ratio("drop_ct.vs_ptp", series[2], series[3]);
    report.add_ratio("drop.vs_nic_drop", series[0], series[5]);
    report.add_ratio(crowded + "_vs_1", series[4], series[0]);
    return ok();
}

}  // namespace xveth::bench
