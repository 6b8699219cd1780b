// SPDX-License-Identifier: Apache-2.0
// tx: a container's native XDP program sends 64-byte frames back to the client by XDP_TX; the client's end counts what
// returns. A veth hands XDP_TX frames over only if the other end has a program; ptp's host end gets one that passes all.
#include <deque>
#include <utility>

#include "bench/benches.hpp"
#include "bench/traffic.hpp"

namespace xveth::bench {
namespace {

Result<std::vector<Receiver>> attach_helpers(const Lab& lab, const Container& container) {
    std::vector<Receiver> helpers;
    auto answer = Receiver::attach(container.ns, container_device, Role::answer);
    if (!answer) return std::move(answer.error());
    helpers.push_back(std::move(*answer));
    if (lab.peer() != Peer::xveth) {
        auto pass = Receiver::attach(lab.node(), container.host_end, Role::pass);
        if (!pass) return std::move(pass.error());
        helpers.push_back(std::move(*pass));
    }
    return helpers;
}

Result<Target> prepare(const Settings& settings, const std::string& metric, Peer peer) {
    const LabOptions options{.network = {.peer = peer, .container_xdp = "free", .nic = {}}, .conntrack = false};
    auto lab = Lab::create(settings, "lab-" + metric, options);
    if (!lab) return std::move(lab.error());
    auto container = (*lab)->add_container();
    if (!container) return std::move(container.error());
    auto helpers = attach_helpers(**lab, **container);
    if (!helpers) return std::move(helpers.error());
    auto counter = Receiver::attach((*lab)->client(), wire_device, Role::drop);
    if (!counter) return std::move(counter.error());
    auto receivers = only(std::move(*counter));
    receivers.helpers = std::move(*helpers);
    const auto route = from_client(**lab, (*container)->address);
    return make_target(std::move(*lab), route, settings.flows, std::move(receivers),
                       peer == Peer::xveth ? Way::xdp_and_back : Way::stack);
}

}  // namespace

Result<void> bench_tx(const Settings& settings, Report& report) {
    if (auto pinned = pin_to_last_cpu(); !pinned) return pinned;
    std::deque<Target> targets;
    std::vector<Series> series;
    for (const auto peer : {Peer::xveth, Peer::ptp}) {
        const std::string metric = "tx." + peer_name(peer);
        auto target = prepare(settings, metric, peer);
        if (!target) return std::move(target.error()).in(metric);
        series.push_back(rate_series(metric, targets.emplace_back(std::move(*target)), settings.seconds));
    }
    interleave(series, settings.rounds);
    for (const auto& one : series) report.add(one);
    note_disturbed(targets, report);
    report.add_ratio("tx.vs_ptp", series[0], series[1]);
    return ok();
}

}  // namespace xveth::bench
