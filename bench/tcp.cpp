// SPDX-License-Identifier: Apache-2.0
// tcp: one stream between two containers of a node (pod_pod), from a container to a client beyond the node (out) and
// back (in), and request/response between two containers (rr). The senders are stacks, so every frame that XDP touches
// is copied once before the program runs; frames from a NIC are not (the drop and tx benches have those).
#include <deque>

#include "bench/benches.hpp"
#include "bench/stream.hpp"
#include "bench/traffic.hpp"

namespace xveth::bench {
namespace {

constexpr std::array peers{Peer::xveth, Peer::ptp, Peer::bridge};

struct Kind {
    const char* metric;
    const char* unit;
    Result<double> (*measure)(const Route&, double);
    Route (*route)(Lab&);
    bool redirected;  // xveth carries it by XDP
};

Route between_pods(Lab& lab) {
    return {.sender = &lab.container(0).ns, .receiver = &lab.container(1).ns, .address = lab.container(1).address};
}

Route out(Lab& lab) { return {.sender = &lab.container(0).ns, .receiver = &lab.client(), .address = client_address}; }

Route in(Lab& lab) {
    return {.sender = &lab.client(), .receiver = &lab.container(0).ns, .address = lab.container(0).address};
}

constexpr std::array kinds{
    Kind{"tcp_pod_pod", "Gbit/s", measure_stream, between_pods, true},
    Kind{"tcp_out", "Gbit/s", measure_stream, out, false},
    Kind{"tcp_in", "Gbit/s", measure_stream, in, false},
    Kind{"tcp_rr", "transactions/s", measure_request_response, between_pods, true},
};

Result<std::unique_ptr<Lab>> prepare(const Settings& settings, Peer peer) {
    const LabOptions options{.network = {.peer = peer, .container_xdp = "managed", .nic = {}}, .conntrack = false};
    auto lab = Lab::create(settings, "lab-tcp." + peer_name(peer), options);
    if (!lab) return lab;
    for (int i = 0; i < 2; ++i)
        if (auto container = (*lab)->add_container(); !container) return std::move(container.error());
    return lab;
}

Result<double> measure(Lab& lab, const Kind& kind, double seconds) {
    const auto once = [&] { return kind.measure(kind.route(lab), seconds); };
    if (!kind.redirected || lab.peer() != Peer::xveth) return once();
    return measure_redirected(lab, lab.container(0).host_end, seconds, once);
}

void report_kind(const Kind& kind, const Series* series, Report& report) {
    const std::string metric = kind.metric;
    for (std::size_t i = 0; i < peers.size(); ++i) report.add(series[i]);
    for (std::size_t i = 1; i < peers.size(); ++i)
        report.add_ratio(metric + ".vs_" + peer_name(peers[i]), series[0], series[i]);
}

}  // namespace

Result<void> bench_tcp(const Settings& settings, Report& report) {
    std::deque<std::unique_ptr<Lab>> labs;
    for (const auto peer : peers) {
        auto lab = prepare(settings, peer);
        if (!lab) return std::move(lab.error());
        labs.push_back(std::move(*lab));
    }
    std::vector<Series> series;
    for (const auto& kind : kinds)
        for (const auto& lab : labs)
            series.push_back({.metric = std::string(kind.metric) + "." + peer_name(lab->peer()),
                              .unit = kind.unit,
                              .measure = [&kind, &lab, &settings] { return measure(*lab, kind, settings.seconds); }});
    interleave(series, settings.rounds);
    for (std::size_t i = 0; i < kinds.size(); ++i) report_kind(kinds[i], &series[i * peers.size()], report);
    return ok();
}

}  // namespace xveth::bench
