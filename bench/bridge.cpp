// SPDX-License-Identifier: Apache-2.0
// bridge: xveth's bridge mode beside the reference plugin's Linux bridge. 64-byte frames from one container to another,
// whose XDP program drops them; broadcast to four; and a TCP stream between two containers.
#include <array>
#include <deque>

#include "bench/benches.hpp"
#include "bench/stream.hpp"
#include "bench/traffic.hpp"

namespace xveth::bench {
namespace {

constexpr std::array peers{Peer::xveth, Peer::bridge};
constexpr auto broadcast_mac = "ff:ff:ff:ff:ff:ff";
constexpr unsigned broadcast_receivers = 4;

LabOptions options_of(Peer peer, const std::string& container_xdp) {
    LabOptions options{.network = {.peer = peer, .container_xdp = container_xdp, .nic = "none"}};
    if (peer == Peer::xveth) options.network.keys = {{"mode", "bridge"}};
    return options;
}

std::string peer_metric(const std::string& metric, Peer peer) {
    return metric + (peer == Peer::xveth ? ".xveth" : ".linux_bridge");
}

// Frames from the lab's first container to the others, all of which count and drop them.
Result<Target> prepare_frames(const Settings& settings, const std::string& metric, Peer peer, unsigned receivers,
                              bool broadcast) {
    auto lab = Lab::create(settings, "lab-" + metric, options_of(peer, "free"));
    if (!lab) return std::move(lab.error());
    for (unsigned i = 0; i <= receivers; ++i)
        if (auto added = (*lab)->add_container(); !added) return std::move(added.error());
    Receivers programs;
    for (unsigned i = 1; i <= receivers; ++i) {
        auto counter = Receiver::attach((*lab)->container(i).ns, container_device, Role::drop);
        if (!counter) return std::move(counter.error());
        programs.counters.push_back(std::move(*counter));
    }
    const auto& sender = (*lab)->container(0);
    const auto& receiver = (*lab)->container(1);
    if (peer == Peer::bridge)
        if (auto armed = arm((*lab)->node(), sender.host_end); !armed) return std::move(armed.error());
    const FrameRoute route{.ns = &sender.ns,
                           .device = container_device,
                           .source_mac = sender.mac,
                           .destination_mac = broadcast ? Mac::parse(broadcast_mac).value_or(Mac{}) : receiver.mac,
                           .source = sender.address,
                           .destination = receiver.address};
    const auto entry = sender.host_end;
    return make_target(std::move(*lab), route, settings.flows, std::move(programs),
                       peer == Peer::xveth ? Way::xdp : Way::stack, entry);
}

Result<std::unique_ptr<Lab>> prepare_tcp(const Settings& settings, Peer peer) {
    auto options = options_of(peer, "managed");
    // As route mode has it by default: the bridge's plugin has offload where XDP at both ends takes it away.
    if (peer == Peer::xveth) options.network.keys["localMtu"] = 65000;
    auto lab = Lab::create(settings, "lab-" + peer_metric("bridge_tcp", peer), options);
    if (!lab) return lab;
    for (int i = 0; i < 2; ++i)
        if (auto container = (*lab)->add_container(); !container) return std::move(container.error());
    return lab;
}

Result<double> measure_tcp(Lab& lab, double seconds) {
    const Route route{
        .sender = &lab.container(0).ns, .receiver = &lab.container(1).ns, .address = lab.container(1).address};
    const auto once = [&] { return measure_stream(route, seconds); };
    return lab.peer() == Peer::xveth ? measure_redirected(lab, lab.container(0).host_end, seconds, once) : once();
}

Result<void> report_frames(const Settings& settings, Report& report) {
    if (auto pinned = pin_to_last_cpu(); !pinned) return pinned;
    std::deque<Target> targets;
    std::vector<Series> series;
    for (const bool broadcast : {false, true})
        for (const auto peer : peers) {
            const auto metric = peer_metric(broadcast ? "bridge_broadcast" : "bridge", peer);
            auto target = prepare_frames(settings, metric, peer, broadcast ? broadcast_receivers : 1, broadcast);
            if (!target) return std::move(target.error()).in(metric);
            series.push_back(rate_series(metric, targets.emplace_back(std::move(*target)), settings.seconds));
        }
    interleave(series, settings.rounds);
    for (const auto& one : series) report.add(one);
    note_disturbed(targets, report);
    report.add_ratio("bridge.vs_linux_bridge", series[0], series[1]);
    report.add_ratio("bridge_broadcast.vs_linux_bridge", series[2], series[3]);
    return ok();
}

Result<void> report_tcp(const Settings& settings, Report& report) {
    std::deque<std::unique_ptr<Lab>> labs;
    std::vector<Series> series;
    for (const auto peer : peers) {
        auto lab = prepare_tcp(settings, peer);
        if (!lab) return std::move(lab.error());
        labs.push_back(std::move(*lab));
        series.push_back({.metric = peer_metric("bridge_tcp", peer),
                          .unit = "Gbit/s",
                          .measure = [&lab = *labs.back(), &settings] { return measure_tcp(lab, settings.seconds); }});
    }
    interleave(series, settings.rounds);
    for (const auto& one : series) report.add(one);
    report.add_ratio("bridge_tcp.vs_linux_bridge", series[0], series[1]);
    return ok();
}

}  // namespace

// TCP first: what comes after it runs on one CPU only.
Result<void> bench_bridge(const Settings& settings, Report& report) {
    if (auto done = report_tcp(settings, report); !done) return done;
    return report_frames(settings, report);
}

}  // namespace xveth::bench
