// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cctype>
#include <map>
#include <string_view>

#include "attachment/json.hpp"
#include "ctl/commands.hpp"
#include "ctl/ports.hpp"
#include "ctl/table.hpp"

namespace xveth::ctl {
namespace {

using attachment::OrderedJson;

using DriverCounters = std::map<std::string, std::uint64_t>;

// "rx_queue_0_xdp_drops" -> "xdp_drops"
std::string without_queue(const std::string& name) {
    for (const std::string_view prefix : {"rx_queue_", "tx_queue_"}) {
        if (!name.starts_with(prefix)) continue;
        std::size_t end = prefix.size();
        while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
        if (end > prefix.size() && end + 1 < name.size() && name[end] == '_') return name.substr(end + 1);
    }
    return name;
}

// What the driver counts of XDP and of losses, all queues added up: a frame that a redirect lost in the target's device
// is seen there alone.
DriverCounters driver_counters(attachment::Node& node, const Port& port) {
    DriverCounters sums;
    if (!port.link) return sums;
    const auto statistics = node.path.rtnl.driver_statistics(port.link->index);
    if (!statistics) return sums;
    for (const auto& [name, value] : *statistics) {
        const std::string kind = without_queue(name);
        if (kind.find("xdp") != std::string::npos || kind.find("drops") != std::string::npos) sums[kind] += value;
    }
    return sums;
}

struct Row {
    Port port;
    bpf::PortStats stats;
    DriverCounters driver;
};

Result<std::vector<Row>> collect(attachment::Node& node) {
    auto ports = list_ports(node);
    if (!ports) return std::move(ports.error());
    std::vector<Row> rows;
    for (Port& port : *ports) {
        auto stats = node.path.bpf.stats(port.id);
        if (!stats) return std::move(stats.error());
        DriverCounters driver = driver_counters(node, port);
        rows.push_back({.port = std::move(port), .stats = std::move(*stats), .driver = std::move(driver)});
    }
    return rows;
}

OrderedJson counter_to_json(const bpf::FastCounter& counter) {
    OrderedJson out;
    out["frames"] = counter.frames;
    out["bytes"] = counter.bytes;
    return out;
}

OrderedJson row_to_json(const Row& row) {
    OrderedJson out;
    out["id"] = static_cast<std::uint32_t>(row.port.id);
    out["ifindex"] = row.port.entry.ifindex;
    out["name"] = row.port.name();
    out["attachment"] = row.port.record ? OrderedJson(attachment_name(row.port.record->key)) : OrderedJson(nullptr);
    out["to_port"] = counter_to_json(row.stats.to_port);
    out["from_port"] = counter_to_json(row.stats.from_port);
    out["reasons"] = OrderedJson::object();
    for (const auto& [reason, frames] : row.stats.reasons) out["reasons"][bpf::reason_name(reason)] = frames;
    out["driver"] = row.driver;
    return out;
}

// Program ids by name; empty where nothing is loaded.
OrderedJson programs_to_json(bpf::Objects& objects) {
    constexpr std::array<std::pair<const char*, bpf::Program>, 4> programs{{{"xv_nic", bpf::Program::nic},
                                                                            {"xv_host", bpf::Program::host},
                                                                            {"xv_pod", bpf::Program::pod},
                                                                            {"xv_bridge", bpf::Program::bridge}}};
    OrderedJson out = OrderedJson::object();
    for (const auto& [name, program] : programs)
        if (const auto id = objects.program_id(program)) out[name] = *id;
    return out;
}

std::string format_json(attachment::Node& node, const std::vector<Row>& rows, bool loaded) {
    OrderedJson out;
    out["ports"] = OrderedJson::array();
    for (const Row& row : rows) out["ports"].push_back(row_to_json(row));
    out["conntrack"] = loaded && node.path.bpf.has_conntrack();
    out["programs"] = loaded ? programs_to_json(node.path.bpf) : OrderedJson::object();
    return attachment::dump_json(out) + "\n";
}

std::string format_people(const std::vector<Row>& rows) {
    std::vector<std::vector<std::string>> lines{{"PORT", "DEVICE", "TO PORT", "FROM PORT", "ATTACHMENT"}};
    for (const Row& row : rows) {
        const std::string who = row.port.is_nic()                      ? "(NIC)"
                                : row.port.name().starts_with("xvbp-") ? "(host's port of a bridge)"
                                                                       : "(unknown)";
        lines.push_back({row.port.number(), row.port.name(), std::to_string(row.stats.to_port.frames),
                         std::to_string(row.stats.from_port.frames),
                         row.port.record ? attachment_name(row.port.record->key) : who});
    }
    std::string text = format_table(lines);
    for (const Row& row : rows) {
        for (const auto& [reason, frames] : row.stats.reasons)
            text += row.port.name() + ": " + bpf::reason_name(reason) + " " + std::to_string(frames) + "\n";
        for (const auto& [name, count] : row.driver)
            if (count != 0) text += row.port.name() + ": driver " + name + " " + std::to_string(count) + "\n";
    }
    return text;
}

}  // namespace

Result<Output> show_stats(attachment::Node& node, Form form) {
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    auto rows = collect(node);
    if (!rows) return std::move(rows.error());
    return Output{.text = form == Form::json ? format_json(node, *rows, *loaded) : format_people(*rows)};
}

}  // namespace xveth::ctl
