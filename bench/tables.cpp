// SPDX-License-Identifier: Apache-2.0
#include "bench/tables.hpp"

#include <algorithm>
#include <optional>

#include "bench/chart.hpp"

namespace xveth::bench {
namespace {

using nlohmann::json;

const std::vector<Column> by_flows{{"1 flow", ""}, {"2 flows", "_2_flows"}, {"100 flows", "_100_flows"}};
const std::vector<Column> only_one{{"", ""}};

// xveth, its share of the limit, its ratio to each peer, and then the peers and the limit themselves.
std::vector<Row> contest(const std::string& what, const std::vector<Column>& peers, const Column& limit) {
    std::vector<Row> rows{{"xveth", what + "{}.xveth"}};
    const bool limited = !limit.key.empty();
    if (limited) rows.push_back({"xveth, share of the limit", what + "{}.vs_" + limit.key, Show::percent});
    for (const auto& peer : peers) rows.push_back({"xveth ÷ " + peer.label, what + "{}.vs_" + peer.key, Show::times});
    for (const auto& peer : peers) rows.push_back({peer.label, what + "{}." + peer.key});
    if (limited) rows.push_back({"limit: " + limit.label, what + "{}." + limit.key});
    return rows;
}

std::vector<Table> all_tables() {
    const std::vector<Column> plugins{{"ptp", "ptp"}, {"bridge", "bridge"}, {"ptp, generic XDP", "generic"}};
    const Column nic{"dropped in the NIC's program", "nic"};
    const Column loopback{"loopback, no device", "loopback"};
    const auto table = [](const char* id, const char* title, const char* what, auto columns, auto rows) {
        return Table{.id = id, .title = title, .what = what, .columns = columns, .rows = rows};
    };
    return {
        table("drop", "DROP: frames that a container's XDP program drops",
              "64-byte frames from the wire to a container whose own XDP program counts and drops them.", by_flows,
              contest("drop", plugins, nic)),
        table("drop_ct", "DROP with conntrack active in the node",
              "The same on a node with a rule that needs connection tracking, as every Kubernetes node has one.",
              by_flows, contest("drop_ct", {{"ptp", "ptp"}}, {"", ""})),
        table("tx", "TX: frames that a container's XDP program sends back",
              "64-byte frames from the wire, answered by XDP_TX in the container, counted when they are back.",
              by_flows, contest("tx", plugins, nic)),
        table("tcp_pod_pod", "TCP between two containers of a node", "Bulk streams; what the receivers read.", by_flows,
              contest("tcp_pod_pod", plugins, loopback)),
        table("tcp_in", "TCP from the wire into a container", "Bulk streams; what the receivers read.", by_flows,
              contest("tcp_in", plugins, loopback)),
        table("tcp_out", "TCP out of a container to the wire", "Bulk streams; what the receivers read.", by_flows,
              contest("tcp_out", plugins, loopback)),
        table("tcp_rr", "TCP_RR: one byte there and one back", "Between two containers of a node.", only_one,
              contest("tcp_rr", plugins, loopback)),
        table("chain", "Chains: frames through the XDP programs of 1, 2 and 4 containers",
              "64-byte frames that pass 1, 2 or 4 functions before the last container drops them.",
              std::vector<Column>{{"1 function", "1"}, {"2 functions", "2"}, {"4 functions", "4"}},
              std::vector<Row>{{"xveth", "chain_{}.xveth"},
                               {"xveth ÷ routing in every function", "chain_{}.vs_routed", Show::times},
                               {"xveth ÷ bridge", "chain_{}.vs_bridge", Show::times},
                               {"routing in every function", "chain_{}.routed"},
                               {"bridge", "chain_{}.bridge"}}),
        table("bridge", "Bridge mode beside a Linux bridge",
              "64-byte frames from container to container and, as broadcast, to four; and one TCP stream.",
              std::vector<Column>{{"unicast", ""}, {"broadcast", "_broadcast"}, {"TCP", "_tcp"}},
              std::vector<Row>{{"xveth", "bridge{}.xveth"},
                               {"xveth ÷ bridge", "bridge{}.vs_linux_bridge", Show::times},
                               {"bridge", "bridge{}.linux_bridge"}}),
        table("add", "Time of the CNI verbs (smaller is better)",
              "From the start of the plugin's process to its end, with host-local IPAM.",
              std::vector<Column>{{"ADD", "add"}, {"DEL", "del"}},
              std::vector<Row>{{"xveth", "{}.xveth"}, {"xveth ÷ ptp", "{}.vs_ptp", Show::times}, {"ptp", "{}.ptp"}}),
    };
}

std::string metric_of(const Row& row, const Column& column) {
    auto metric = row.metric;
    if (const auto place = metric.find("{}"); place != std::string::npos) metric.replace(place, 2, column.key);
    return metric;
}

std::string shown(Show show, const json& result) {
    const auto text = [show](double value) {
        return show == Show::percent ? with_decimals(value * 100, 0) : short_number(value);
    };
    std::string median = text(result["median"]);
    if (show == Show::value) median += " " + result["unit"].get<std::string>();
    if (show == Show::times) median = "**" + median + " ×**";
    if (show == Show::percent) median = "**" + median + " %**";
    if (result["samples"] == 1) return median;
    return median + " (" + text(result["min"]) + "–" + text(result["max"]) + ")";
}

std::string cell(const Row& row, const Column& column, const Findings& findings) {
    const auto metric = metric_of(row, column);
    if (const auto* result = findings.find(metric)) return shown(row.show, *result);
    return findings.refusal(metric) != nullptr ? "refused" : "";
}

// Nothing if no cell of it was measured or refused.
std::optional<std::string> markdown_row(const Row& row, const Table& table, const Findings& findings) {
    std::string line = "| " + row.label + " |";
    bool any = false;
    for (const auto& column : table.columns) {
        const auto text = cell(row, column, findings);
        any = any || !text.empty();
        line += " " + (text.empty() ? "–" : text) + " |";
    }
    if (!any) return {};
    return line + "\n";
}

std::string header_row(const Table& table) {
    std::string names = "| |";
    std::string rule = "|---|";
    for (const auto& column : table.columns) {
        names += " " + column.label + " |";
        rule += "---:|";
    }
    return names + "\n" + rule + "\n";
}

std::string refusals_of(const Table& table, const Findings& findings) {
    std::string lines;
    for (const auto& row : table.rows)
        for (const auto& column : table.columns)
            if (const auto* why = findings.refusal(metric_of(row, column)))
                lines += "- refused: " + metric_of(row, column) + ": " + *why + "\n";
    return lines.empty() ? "" : "\n" + lines;
}

std::string between_markers(const std::string& id, const std::string& text) {
    return "<!-- xvbench: " + id + " -->\n" + text + "<!-- end of " + id + " -->\n";
}

// The unit of the chart: that of the table's first absolute value.
std::string unit_of(const Table& table, const Findings& findings) {
    for (const auto& row : table.rows)
        for (const auto& column : table.columns)
            if (const auto* result = findings.find(metric_of(row, column)); result && row.show == Show::value)
                return (*result)["unit"];
    return "";
}

// A chart has one scale: what has another unit is left to the table.
BarGroup bars_of(const Table& table, const Column& column, const std::string& unit, const Findings& findings) {
    BarGroup group{.title = column.label, .bars = {}};
    for (const auto& row : table.rows) {
        const auto* result = findings.find(metric_of(row, column));
        if (row.show != Show::value || result == nullptr || (*result)["unit"] != unit) continue;
        group.bars.push_back({.label = row.label,
                              .value = (*result)["median"],
                              .min = (*result)["min"],
                              .max = (*result)["max"],
                              .ours = row.label.starts_with("xveth")});
    }
    return group;
}

std::string every_metric(const json& report) {
    std::string text = "## Every metric\n\n| metric | median | min | max | unit |\n|---|---:|---:|---:|---|\n";
    for (const auto& bench : report["benches"])
        for (const auto& result : bench.value("results", json::array()))
            text += "| " + result["metric"].get<std::string>() + " | " + short_number(result["median"]) + " | " +
                    short_number(result["min"]) + " | " + short_number(result["max"]) + " | " +
                    result["unit"].get<std::string>() + " |\n";
    return text;
}

std::string remarks(const json& report) {
    std::string lines;
    for (const auto& bench : report["benches"]) {
        const std::string name = bench["bench"];
        if (bench.contains("failed")) lines += "- " + name + " failed: " + bench["failed"].get<std::string>() + "\n";
        for (const auto& note : bench.value("notes", json::array()))
            lines += "- " + name + ": " + note.get<std::string>() + "\n";
        for (const auto& refused : bench.value("refused", json::array()))
            lines += "- " + name + ", refused: " + refused.get<std::string>() + "\n";
    }
    return lines.empty() ? "" : "## Notes and refusals\n\n" + lines + "\n";
}

std::string fact(const char* name, const json& value) {
    if (value.is_null()) return "";
    return std::string("| ") + name + " | " + (value.is_string() ? value.get<std::string>() : value.dump()) + " |\n";
}

}  // namespace

const std::vector<Table>& tables() {
    static const std::vector<Table> all = all_tables();
    return all;
}

Findings::Findings(const json& report) {
    for (const auto& bench : report["benches"]) {
        for (const auto& result : bench.value("results", json::array())) results_[result["metric"]] = result;
        for (const auto& refused : bench.value("refused", json::array())) {
            const std::string text = refused;
            const auto colon = text.find(": ");
            if (colon != std::string::npos) refusals_[text.substr(0, colon)] = text.substr(colon + 2);
        }
    }
}

const json* Findings::find(const std::string& metric) const {
    const auto found = results_.find(metric);
    return found == results_.end() ? nullptr : &found->second;
}

const std::string* Findings::refusal(const std::string& metric) const {
    const auto found = refusals_.find(metric);
    return found == refusals_.end() ? nullptr : &found->second;
}

std::string markdown_table(const Table& table, const Findings& findings) {
    std::string rows;
    for (const auto& row : table.rows) rows += markdown_row(row, table, findings).value_or("");
    if (rows.empty()) return "";
    return between_markers(table.id, table.what + "\n\n" + header_row(table) + rows + refusals_of(table, findings));
}

std::string chart_of(const Table& table, const Findings& findings) {
    const auto unit = unit_of(table, findings);
    std::vector<BarGroup> groups;
    for (const auto& column : table.columns)
        if (auto group = bars_of(table, column, unit, findings); !group.bars.empty())
            groups.push_back(std::move(group));
    if (groups.empty()) return "";
    return bar_chart(table.title, unit, groups);
}

std::string markdown_run(const json& report) {
    const auto& machine = report["machine"];
    const auto settings = report.value("settings", json::object());
    std::string text = "| | |\n|---|---|\n";
    for (const auto& [name, key] : {std::pair{"processor", "processor"}, std::pair{"CPUs", "cpus"},
                                    std::pair{"virtual machine", "virtual"}, std::pair{"memory, MiB", "memory_mib"},
                                    std::pair{"kernel", "kernel"}, std::pair{"architecture", "architecture"},
                                    std::pair{"Spectre v2", "spectre_v2"}, std::pair{"load before the run", "load"}})
        text += fact(name, machine.value(key, json()));
    text += fact("xveth", report.value("version", json()));
    text += fact("day", report.value("day", json()));
    text += "| rounds | " + with_decimals(settings.value("rounds", 0), 0) + " of " +
            with_decimals(settings.value("seconds", 0.0), 1) + " s, interleaved; shown: median (min–max) |\n";
    return between_markers("run", text);
}

std::string markdown_page(const json& report) {
    const Findings findings(report);
    std::string page = "# xvbench\n\n" + markdown_run(report) + "\n";
    for (const auto& table : tables()) {
        const auto text = markdown_table(table, findings);
        if (text.empty()) continue;
        page += "## " + table.title + "\n\n" + text + "\n";
        if (!chart_of(table, findings).empty()) page += "![" + table.title + "](" + table.id + ".svg)\n\n";
    }
    return page + remarks(report) + every_metric(report);
}

}  // namespace xveth::bench
