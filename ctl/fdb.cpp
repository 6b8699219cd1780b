// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "attachment/json.hpp"
#include "ctl/commands.hpp"
#include "ctl/ports.hpp"
#include "ctl/table.hpp"

namespace xveth::ctl {
namespace {

using attachment::OrderedJson;

struct Row {
    std::string network;
    bpf::FdbEntry entry;
    const Port* port = nullptr;  // nothing: it went while we looked
};

std::string port_name(const Row& row) {
    return row.port != nullptr ? row.port->name()
                               : "port " + std::to_string(static_cast<std::uint32_t>(row.entry.port));
}

std::string who(const Row& row) {
    if (row.port == nullptr) return "-";
    if (row.port->record) return attachment_name(row.port->record->key);
    return row.port->is_nic() ? "(NIC)" : "(host)";
}

Result<std::vector<Row>> collect(attachment::Node& node, const std::string& network, const std::vector<Port>& ports) {
    std::vector<Row> rows;
    auto loaded = node.path.bridges.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (!*loaded) return rows;
    std::map<bpf::PortId, const Port*> by_id;
    for (const Port& port : ports) by_id[port.id] = &port;
    auto bridges = node.path.bridges.list_bridges();
    if (!bridges) return std::move(bridges.error());
    for (const auto& [id, bridge] : *bridges) {
        if (!network.empty() && bridge.network != network) continue;
        auto entries = node.path.bridges.list_fdb(id);
        if (!entries) return std::move(entries.error());
        for (const auto& entry : *entries) {
            const auto port = by_id.find(entry.port);
            rows.push_back(
                {.network = bridge.network, .entry = entry, .port = port == by_id.end() ? nullptr : port->second});
        }
    }
    return rows;
}

OrderedJson row_to_json(const Row& row) {
    const bool attached = row.port != nullptr && row.port->record.has_value();
    OrderedJson out;
    out["network"] = row.network;
    out["mac"] = row.entry.mac.to_string();
    out["vlan"] = row.entry.vlan;
    out["port"] = static_cast<std::uint32_t>(row.entry.port);
    out["device"] = port_name(row);
    out["attachment"] = attached ? OrderedJson(attachment_name(row.port->record->key)) : OrderedJson(nullptr);
    out["age"] = row.entry.age ? OrderedJson(row.entry.age->count()) : OrderedJson(nullptr);
    return out;
}

std::string format_people(const std::vector<Row>& rows) {
    std::vector<std::vector<std::string>> lines{{"NETWORK", "MAC", "VLAN", "DEVICE", "AGE", "ATTACHMENT"}};
    for (const Row& row : rows)
        lines.push_back({row.network, row.entry.mac.to_string(),
                         row.entry.vlan == 0 ? "-" : std::to_string(row.entry.vlan), port_name(row),
                         row.entry.age ? std::to_string(row.entry.age->count()) + " s" : "static", who(row)});
    return format_table(lines);
}

}  // namespace

Result<Output> show_fdb(attachment::Node& node, const std::string& network, Form form) {
    auto ports = list_ports(node);
    if (!ports) return std::move(ports.error());
    auto rows = collect(node, network, *ports);
    if (!rows) return std::move(rows.error());
    if (form == Form::table) return Output{.text = format_people(*rows)};
    OrderedJson out;
    out["entries"] = OrderedJson::array();
    for (const Row& row : *rows) out["entries"].push_back(row_to_json(row));
    return Output{.text = attachment::dump_json(out) + "\n"};
}

}  // namespace xveth::ctl
