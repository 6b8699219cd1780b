// SPDX-License-Identifier: Apache-2.0
// add: time of the CNI verbs, from the start of the plugin's process to its end, with the same host-local IPAM.
#include <algorithm>
#include <ranges>
#include <tuple>

#include "bench/benches.hpp"
#include "bench/topology.hpp"

namespace xveth::bench {
namespace {

struct Contestant {
    std::string name;
    std::unique_ptr<Lab> lab;
    Series add;
    Series del;
    Samples rss;
};

Result<Contestant> prepare(const Settings& settings, const std::string& name, Peer peer, unsigned endpoints) {
    const LabOptions options{.network = {.peer = peer, .container_xdp = "managed", .nic = {}}, .conntrack = false};
    auto lab = Lab::create(settings, "lab-add." + name, options);
    if (!lab) return std::move(lab.error());
    if (auto crowded = (*lab)->crowd(endpoints); !crowded) return std::move(crowded.error());
    return Contestant{.name = name,
                      .lab = std::move(*lab),
                      .add = {.metric = "add." + name, .unit = "ms", .measure = {}},
                      .del = {.metric = "del." + name, .unit = "ms", .measure = {}},
                      .rss = {}};
}

void cycle(Contestant& contestant) {
    if (!contestant.add.refusal.empty()) return;
    auto done = contestant.lab->cycle_container();
    if (!done) {
        contestant.add.refusal = contestant.del.refusal = done.error().text;
        return;
    }
    constexpr double kib_a_mib = 1024;
    contestant.add.samples.values.push_back(done->add.milliseconds);
    contestant.del.samples.values.push_back(done->del.milliseconds);
    contestant.rss.values.push_back(static_cast<double>(done->add.max_rss_kib) / kib_a_mib);
}

}  // namespace

Result<void> bench_add(const Settings& settings, Report& report) {
    const std::string crowded = std::to_string(settings.endpoints);
    std::vector<Contestant> contestants;
    for (const auto& [name, peer, endpoints] :
         {std::tuple{std::string("xveth"), Peer::xveth, 1U}, std::tuple{std::string("ptp"), Peer::ptp, 1U},
          std::tuple{crowded, Peer::xveth, settings.endpoints}}) {
        auto contestant = prepare(settings, name, peer, endpoints);
        if (!contestant) return std::move(contestant.error());
        contestants.push_back(std::move(*contestant));
    }
    for (unsigned i = 0; i < settings.rounds * settings.repeats; ++i) {
        if (i % 2 == 0)
            std::ranges::for_each(contestants, cycle);
        else
            std::ranges::for_each(std::views::reverse(contestants), cycle);
    }

    for (const auto& contestant : contestants) {
        report.add(contestant.add);
        report.add(contestant.del);
        report.add("add_rss." + contestant.name, "MiB", contestant.rss);
    }
    report.add_ratio("add.vs_ptp", contestants[0].add, contestants[1].add);
    report.add_ratio("del.vs_ptp", contestants[0].del, contestants[1].del);
    report.add_ratio("add." + crowded + "_vs_1", contestants[2].add, contestants[0].add);
    report.note("add, del: smaller is better; add." + crowded + " is on a node that has " + crowded +
                " containers, whose addresses are in a host-local store of their own");
    return ok();
}

}  // namespace xveth::bench
