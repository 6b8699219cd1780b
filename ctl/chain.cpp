// SPDX-License-Identifier: Apache-2.0
#include "datapath/chain.hpp"

#include <algorithm>

#include "attachment/json.hpp"
#include "ctl/commands.hpp"
#include "ctl/ports.hpp"
#include "ctl/table.hpp"

namespace xveth::ctl {
namespace {

using attachment::OrderedJson;
using datapath::ChainView;
using datapath::FunctionSlot;
using datapath::FunctionState;

Error not_found(const std::string& text) { return {.code = 0, .errno_value = 0, .text = text, .hint = {}}; }

std::string state_name(FunctionState state) {
    switch (state) {
        case FunctionState::live:
            return "live";
        case FunctionState::disarmed:
            return "disarmed";
        case FunctionState::gone:
            break;
    }
    return "gone";
}

std::string failure_name(const FunctionSlot& slot) { return slot.bypass_on_failure ? "bypass" : "drop"; }

// Attachments by port; what has no record is named by its device.
std::string name_of(const std::vector<Port>& ports, bpf::PortId id) {
    const auto port = std::ranges::find(ports, id, &Port::id);
    if (port == ports.end()) return "-";
    return port->record ? attachment_name(port->record->key) : port->name();
}

OrderedJson slot_to_json(const FunctionSlot& slot, const bpf::HopStats& hop, const std::vector<Port>& ports) {
    OrderedJson out;
    out["position"] = slot.position;
    out["state"] = state_name(slot.state);
    out["onFailure"] = failure_name(slot);
    const bool away = slot.state == FunctionState::gone;
    out["attachment"] = away ? OrderedJson(nullptr) : OrderedJson(name_of(ports, slot.port));
    out["in"] = hop.in;
    out["out"] = hop.out;
    out["dropped"] = hop.dropped;
    return out;
}

std::vector<std::string> slot_to_line(const ChainView& chain, const FunctionSlot& slot, const bpf::HopStats& hop,
                                      const std::vector<Port>& ports) {
    return {chain.name,
            std::to_string(slot.position),
            state_name(slot.state),
            failure_name(slot),
            std::to_string(hop.in),
            std::to_string(hop.out),
            std::to_string(hop.dropped),
            slot.state == FunctionState::gone ? "-" : name_of(ports, slot.port)};
}

// Every chain, or the one of that name.
Result<std::vector<ChainView>> select(attachment::Node& node, const std::string& name) {
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    std::vector<ChainView> chains;
    if (*loaded) {
        auto all = datapath::list_chains(node.path);
        if (!all) return std::move(all.error());
        chains = std::move(*all);
    }
    if (name.empty()) return chains;
    std::erase_if(chains, [&](const ChainView& chain) { return chain.name != name; });
    if (chains.empty()) return not_found("there is no chain " + name + ": xvethctl chain show lists them");
    return chains;
}

}  // namespace

Result<Output> show_chains(attachment::Node& node, Form form, const std::string& name) {
    auto chains = select(node, name);
    if (!chains) return std::move(chains.error());
    auto ports = list_ports(node);
    if (!ports) return std::move(ports.error());
    OrderedJson out;
    out["chains"] = OrderedJson::array();
    std::vector<std::vector<std::string>> lines{
        {"CHAIN", "POSITION", "STATE", "ON FAILURE", "IN", "OUT", "DROPPED", "ATTACHMENT"}};
    std::string protects;
    for (const ChainView& chain : *chains) {
        OrderedJson one;
        one["name"] = chain.name;
        one["functions"] = OrderedJson::array();
        for (const FunctionSlot& slot : chain.functions) {
            auto hop = node.path.bpf.hop_stats(bpf::ChainId{chain.id}, slot.index);
            if (!hop) return std::move(hop.error());
            one["functions"].push_back(slot_to_json(slot, *hop, *ports));
            lines.push_back(slot_to_line(chain, slot, *hop, *ports));
        }
        one["protected"] = OrderedJson::array();
        for (const auto id : chain.protects) {
            one["protected"].push_back(name_of(*ports, id));
            protects += chain.name + " protects " + name_of(*ports, id) + "\n";
        }
        if (chain.functions.empty()) protects += chain.name + " has no function: what it protects gets no frame\n";
        out["chains"].push_back(std::move(one));
    }
    return Output{.text = form == Form::json ? attachment::dump_json(out) + "\n" : format_table(lines) + protects};
}

Result<Output> forget_function(attachment::Node& node, const std::string& name, std::uint16_t position) {
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    auto chains = select(node, name);
    if (!chains) return std::move(chains.error());
    const ChainView& chain = chains->front();
    const auto slot = std::ranges::find(chain.functions, position, &FunctionSlot::position);
    const std::string place = "position " + std::to_string(position) + " of chain " + name;
    if (slot == chain.functions.end()) return not_found("no function has " + place);
    auto forgotten = datapath::forget_function(node.path, *lock, chain, *slot);
    if (!forgotten) return std::move(forgotten.error());
    if (!*forgotten)
        return not_found(place + " is " + state_name(slot->state) + ": only a function that is gone can be forgotten");
    return Output{.text = place + " is forgotten\n"};
}

}  // namespace xveth::ctl
