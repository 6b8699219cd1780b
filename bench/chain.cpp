// SPDX-License-Identifier: Apache-2.0
// chain: 64-byte frames from the client pass through 1, 2 or 4 containers, each with an XDP program, before another
// container's program drops them. The functions are linked by xveth's chain (redirects through their veths), by kernel
// routing in every function and policy routing in the node (ptp), or by MAC addresses over a Linux bridge.
#include <array>
#include <deque>

#include "base/sysctl.hpp"
#include "bench/benches.hpp"
#include "bench/host_tools.hpp"
#include "bench/traffic.hpp"

namespace xveth::bench {
namespace {

constexpr std::array<unsigned, 3> lengths{1, 2, 4};

// The stack's queue of a CPU, one for all of the node's devices, takes 64 frames a round: 16 of each function.
constexpr unsigned at_once = 16;

struct Built {
    std::vector<Container*> functions;  // in the order of the way
    Container* target = nullptr;
};

Result<Built> add_containers(Lab& lab, unsigned length, bool chained) {
    Built built;
    for (unsigned i = 1; i <= length; ++i) {
        const nlohmann::json keys = {{"chain", {{"name", "bench"}, {"position", 10 * i}}}};
        auto function = lab.add_container(chained ? keys : nlohmann::json::object());
        if (!function) return std::move(function.error());
        built.functions.push_back(*function);
    }
    const nlohmann::json keys = {{"protectedBy", "bench"}};
    auto target = lab.add_container(chained ? keys : nlohmann::json::object());
    if (!target) return std::move(target.error());
    built.target = *target;
    return built;
}

Result<void> attach(std::vector<Receiver>& helpers, const Netns& ns, const std::string& device, Role role,
                    const std::optional<Mac>& next = {}) {
    auto receiver = Receiver::attach(ns, device, role, next);
    if (!receiver) return std::move(receiver.error());
    helpers.push_back(std::move(*receiver));
    return ok();
}

// xveth: the chain does the rest.
Result<void> link_by_chain(const Lab& /*lab*/, const Built& built, std::vector<Receiver>& helpers) {
    for (const auto* function : built.functions)
        if (auto attached = attach(helpers, function->ns, container_device, Role::hand_on); !attached) return attached;
    return ok();
}

// What the node's device `device` gives the node goes on to `next`, whatever its destination.
Result<void> route_from(const Lab& lab, const std::string& device, const Container& next, unsigned table) {
    const std::string number = std::to_string(table);
    return run_ip_batch(lab.node(), "route add default via " + next.address + " dev " + next.host_end + " table " +
                                        number + " onlink\nrule add iif " + device + " lookup " + number + " pref " +
                                        number + "\n");
}

// Each function's stack routes what its program passes.
Result<void> link_by_routing(const Lab& lab, const Built& built, std::vector<Receiver>& helpers) {
    std::string from = nic_device;
    unsigned table = 100;
    for (const auto* function : built.functions) {
        if (auto attached = attach(helpers, function->ns, container_device, Role::pass); !attached) return attached;
        if (auto on = run_tool(function->ns,
                               "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 "
                               "net.ipv4.conf.eth0.send_redirects=0");
            !on)
            return std::move(on.error());
        if (auto routed = route_from(lab, from, *function, table++); !routed) return routed;
        from = function->host_end;
    }
    return ok();
}

// The node's neighbour entry leads to the first function, each function's program to the next one's MAC.
Result<void> link_by_bridge(const Lab& lab, const Built& built, std::vector<Receiver>& helpers) {
    const auto& functions = built.functions;
    for (std::size_t i = 0; i < functions.size(); ++i) {
        const auto& next = i + 1 < functions.size() ? functions[i + 1]->mac : built.target->mac;
        if (auto attached = attach(helpers, functions[i]->ns, container_device, Role::hand_on, next); !attached)
            return attached;
        if (auto attached = attach(helpers, lab.node(), functions[i]->host_end, Role::pass); !attached) return attached;
    }
    return run_ip_batch(lab.node(), "neigh replace " + built.target->address + " lladdr " +
                                        functions.front()->mac.to_string() + " nud permanent dev xvbench0\n");
}

struct Kind {
    const char* name;
    Peer peer;
    Result<void> (*link)(const Lab&, const Built&, std::vector<Receiver>&);
};
constexpr std::array kinds{Kind{"xveth", Peer::xveth, link_by_chain}, Kind{"routed", Peer::ptp, link_by_routing},
                           Kind{"bridge", Peer::bridge, link_by_bridge}};

Result<Target> prepare(const Settings& settings, const std::string& metric, const Kind& kind, unsigned length) {
    const LabOptions options{.network = {.peer = kind.peer, .container_xdp = "free"}};
    auto lab = Lab::create(settings, "lab-" + metric, options);
    if (!lab) return std::move(lab.error());
    auto built = add_containers(**lab, length, kind.peer == Peer::xveth);
    if (!built) return std::move(built.error());
    auto counter = Receiver::attach(built->target->ns, container_device, Role::drop);
    if (!counter) return std::move(counter.error());
    auto receivers = only(std::move(*counter));
    if (auto linked = kind.link(**lab, *built, receivers.helpers); !linked) return std::move(linked.error());
    auto route = from_client(**lab, built->target->address);
    route.at_once = at_once;
    return make_target(std::move(*lab), route, settings.flows, std::move(receivers),
                       kind.peer == Peer::xveth ? Way::xdp : Way::stack);
}

// What one function more costs, in ns: from the shortest and the longest chain of a kind.
Series hop_of(const std::string& metric, const Series& shortest, const Series& longest) {
    Series hop{.metric = metric, .unit = "ns", .measure = {}};
    hop.refusal = shortest.refusal.empty() ? longest.refusal : shortest.refusal;
    if (!hop.refusal.empty()) return hop;
    constexpr double ns_of_mpps = 1000;
    for (std::size_t i = 0; i < shortest.samples.values.size(); ++i)
        hop.samples.values.push_back(
            (ns_of_mpps / longest.samples.values[i] - ns_of_mpps / shortest.samples.values[i]) /
            (lengths.back() - lengths.front()));
    return hop;
}

}  // namespace

Result<void> bench_chain(const Settings& settings, Report& report) {
    if (auto pinned = pin_to_last_cpu(); !pinned) return pinned;
    std::deque<Target> targets;
    std::vector<Series> series;  // by kind, then by length
    for (const auto& kind : kinds)
        for (const auto length : lengths) {
            const std::string metric = "chain_" + std::to_string(length) + "." + kind.name;
            auto target = prepare(settings, metric, kind, length);
            if (!target) return std::move(target.error()).in(metric);
            series.push_back(rate_series(metric, targets.emplace_back(std::move(*target)), settings.seconds));
        }
    interleave(series, settings.rounds);
    for (const auto& one : series) report.add(one);
    note_disturbed(targets, report);

    std::vector<Series> hops;
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        const auto* of_kind = &series[kind * lengths.size()];
        report.add(hops.emplace_back(
            hop_of(std::string("chain_hop.") + kinds[kind].name, of_kind[0], of_kind[lengths.size() - 1])));
    }
    for (std::size_t kind = 1; kind < kinds.size(); ++kind) {
        report.add_ratio(std::string("chain_hop.vs_") + kinds[kind].name, hops[0], hops[kind]);
        for (std::size_t i = 0; i < lengths.size(); ++i)
            report.add_ratio("chain_" + std::to_string(lengths[i]) + ".vs_" + kinds[kind].name, series[i],
                             series[kind * lengths.size() + i]);
    }
    return ok();
}

}  // namespace xveth::bench
