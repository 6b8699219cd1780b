// SPDX-License-Identifier: Apache-2.0
#include "datapath/chain.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "datapath/port.hpp"

namespace xveth::datapath {
namespace {

using bpf::ChainId;
using bpf::PortId;
using bpf::xv_chain_slot;

using Ports = std::vector<std::pair<PortId, bpf::xv_port>>;

// Frames for a function wait in the rings of its veth pair until their turn comes, which nothing tells us. A function
// that leaves is kept whole for so long after the last one can have been sent there.
constexpr std::chrono::milliseconds time_in_rings(20);

// ETH_MAX_MTU, which a veth's end has while its peer runs no program.
constexpr std::uint32_t unlimited_mtu = 65535;

const bpf::xv_port* find(const Ports& ports, PortId id) {
    const auto found = std::ranges::find(ports, id, &Ports::value_type::first);
    return found == ports.end() ? nullptr : &found->second;
}

bool is_member(const bpf::xv_port& port, ChainId chain) {
    return port.ifindex != 0 && port.chain == static_cast<std::uint16_t>(chain);
}

// The port that a slot speaks of: as long as that is the function at this position. Ids are given again.
const bpf::xv_port* port_of(const Ports& ports, ChainId chain, const xv_chain_slot& slot) {
    const auto* port = find(ports, PortId{slot.port});
    return port != nullptr && is_member(*port, chain) && port->position == slot.position ? port : nullptr;
}

Result<bool> device_is_there(Node& node, const bpf::xv_port& port) {
    auto link = node.rtnl.find_link(netlink::IfIndex{port.ifindex});
    if (!link) return std::move(link.error());
    return link->has_value();
}

Result<FunctionSlot> view_slot(Node& node, const Ports& ports, ChainId chain, std::uint32_t index,
                               const xv_chain_slot& slot) {
    FunctionSlot view{.index = index,
                      .position = slot.position,
                      .state = FunctionState::gone,
                      .bypass_on_failure = slot.on_failure == bpf::XV_ON_FAILURE_BYPASS,
                      .port = PortId::none};
    const auto* port = port_of(ports, chain, slot);
    if (port == nullptr) return view;
    auto there = device_is_there(node, *port);
    if (!there) return std::move(there.error());
    view.port = PortId{slot.port};
    if (*there) view.state = slot.state == bpf::XV_SLOT_LIVE ? FunctionState::live : FunctionState::disarmed;
    return view;
}

Result<ChainView> view_chain(Node& node, const Ports& ports, ChainId id, const bpf::xv_chain& chain) {
    ChainView view;
    view.id = static_cast<std::uint16_t>(id);
    view.name = chain.name;
    for (std::uint32_t index = 0; index < bpf::XV_CHAIN_SLOTS; ++index) {
        if (chain.slots[index].state == bpf::XV_SLOT_FREE) continue;
        auto slot = view_slot(node, ports, id, index, chain.slots[index]);
        if (!slot) return std::move(slot.error());
        view.functions.push_back(*slot);
    }
    std::ranges::sort(view.functions, {}, &FunctionSlot::position);
    for (const auto& [port_id, port] : ports) {
        if (!is_member(port, id)) continue;
        if (port.position == 0) {
            view.protects.push_back(port_id);
            view.protected_mtu = std::max(view.protected_mtu, port.mtu);
        } else if (view.functions_mtu == 0 || port.mtu < view.functions_mtu) {
            view.functions_mtu = port.mtu;
        }
    }
    return view;
}

Result<std::optional<ChainId>> find_id(Node& node, const std::string& name) {
    auto chains = node.bpf.list_chains();
    if (!chains) return std::move(chains.error());
    for (const auto& [id, chain] : *chains)
        if (name == chain.name) return std::optional{id};
    return std::optional<ChainId>{};
}

Error refusal(std::string text, std::string hint) {
    return {.code = 7, .errno_value = EBUSY, .text = std::move(text), .hint = std::move(hint)};
}

std::string place_of(const FunctionSpec& spec) {
    return "position " + std::to_string(spec.position) + " of chain " + spec.chain;
}

Error is_taken(const FunctionSpec& spec, const std::string& who) {
    return refusal(place_of(spec) + " is held by " + (who.empty() ? "another attachment of this node" : who),
                   "choose another position, or delete that container first");
}

xv_chain_slot slot_for(const FunctionSpec& spec, PortId port, FunctionState state) {
    const bool live = state == FunctionState::live;
    return {.port = static_cast<std::uint32_t>(port),
            .position = spec.position,
            .state = static_cast<std::uint8_t>(live ? bpf::XV_SLOT_LIVE : bpf::XV_SLOT_GONE),
            .on_failure = static_cast<std::uint8_t>(spec.bypass_on_failure ? bpf::XV_ON_FAILURE_BYPASS
                                                                           : bpf::XV_ON_FAILURE_DROP)};
}

// The slot for a function: that of a predecessor at its position, else a free one.
Result<std::uint32_t> find_place(Node& node, const FunctionSpec& spec, const ChainView& chain, PortId own,
                                 const PortHolder& holder) {
    std::array<bool, bpf::XV_CHAIN_SLOTS> used{};
    for (const auto& slot : chain.functions) {
        used.at(slot.index) = true;
        if (slot.position != spec.position) continue;
        if (slot.state == FunctionState::gone || slot.port == own) return slot.index;
        auto port = node.bpf.get_port(slot.port);
        if (!port) return std::move(port.error());
        return is_taken(spec, holder(*port));
    }
    const auto* const free = std::ranges::find(used, false);
    if (free != used.end()) return static_cast<std::uint32_t>(free - used.begin());
    return refusal("chain " + spec.chain + " has " + std::to_string(bpf::XV_CHAIN_SLOTS) +
                       " functions, and no room for " + place_of(spec),
                   "functions that are gone keep their places: xvethctl chain show, and chain forget NAME POSITION");
}

// Calls visit(chain, index, slot) for every slot of every chain that a port of this id is in.
template <class Visit>
Result<void> for_each_slot_of(Node& node, PortId port, Visit visit) {
    auto chains = node.bpf.list_chains();
    if (!chains) return std::move(chains.error());
    for (const auto& [id, chain] : *chains)
        for (std::uint32_t index = 0; index < bpf::XV_CHAIN_SLOTS; ++index) {
            const auto& slot = chain.slots[index];
            if (slot.state == bpf::XV_SLOT_FREE || PortId{slot.port} != port) continue;
            if (auto visited = visit(id, index, slot); !visited) return visited;
        }
    return ok();
}

// The places of the function behind `port`, which is gone. Whether frames were sent there until now.
Result<bool> empty_slots_of(Node& node, PortId port) {
    bool left = false;
    auto done = for_each_slot_of(node, port, [&](ChainId chain, std::uint32_t index, xv_chain_slot slot) {
        left = left || slot.state == bpf::XV_SLOT_LIVE;
        slot.port = 0;
        slot.state = bpf::XV_SLOT_GONE;
        return node.bpf.put_chain_slot(chain, index, slot);
    });
    if (!done) return std::move(done.error());
    return left;
}

Result<bool> leave_chain(Node& node, PortId port) {
    auto lock = NodeLock::acquire(node);
    if (!lock) return std::move(lock.error());
    return empty_slots_of(node, port);
}

// What the chain does not carry is delivered no more: without its addresses the port would take everything for that.
Result<void> close_stack_path(Node& node, PortId id) {
    auto port = node.bpf.get_port(id);
    if (!port) return std::move(port.error());
    if ((port->flags & bpf::XV_PORT_STACK_PATH) == 0) return ok();
    port->flags &= ~static_cast<std::uint32_t>(bpf::XV_PORT_STACK_PATH);
    return node.bpf.update_port(id, *port);
}

}  // namespace

Result<std::vector<ChainView>> list_chains(Node& node) {
    auto chains = node.bpf.list_chains();
    if (!chains) return std::move(chains.error());
    std::vector<ChainView> views;
    if (chains->empty()) return views;
    auto ports = node.bpf.list_ports();
    if (!ports) return std::move(ports.error());
    for (const auto& [id, chain] : *chains) {
        auto view = view_chain(node, *ports, id, chain);
        if (!view) return std::move(view.error());
        views.push_back(std::move(*view));
    }
    std::ranges::sort(views, {}, &ChainView::name);
    return views;
}

Result<std::optional<ChainView>> find_chain(Node& node, const std::string& name) {
    auto chains = list_chains(node);
    if (!chains) return std::move(chains.error());
    const auto found = std::ranges::find(*chains, name, &ChainView::name);
    if (found == chains->end()) return std::optional<ChainView>{};
    return std::optional{std::move(*found)};
}

Result<std::uint16_t> ensure_chain(Node& node, const NodeLock&, const std::string& name) {
    auto id = find_id(node, name);
    if (!id) return std::move(id.error());
    if (*id) return static_cast<std::uint16_t>(**id);
    auto made = node.bpf.allocate_chain(name);
    if (!made) return std::move(made.error()).in("chain " + name);
    return static_cast<std::uint16_t>(*made);
}

Result<void> refuse_place(Node& node, const FunctionSpec& spec, std::uint32_t mtu, const PortHolder& holder) {
    auto chain = find_chain(node, spec.chain);
    if (!chain) return std::move(chain.error());
    if (!*chain) return ok();
    if (auto place = find_place(node, spec, **chain, PortId::none, holder); !place) return std::move(place.error());
    for (const auto id : (*chain)->protects) {
        auto port = node.bpf.get_port(id);
        if (!port) return std::move(port.error());
        if (port->mtu <= mtu) continue;
        const std::string who = holder(*port);
        return refusal(
            "a function of MTU " + std::to_string(mtu) + " cannot join chain " + spec.chain + ", which protects " +
                (who.empty() ? "a container" : who) + " of MTU " + std::to_string(port->mtu),
            R"(give the function's network that "mtu", or recreate the container: it takes the chain's smallest)");
    }
    return ok();
}

Result<void> enter_chain(Node& node, const NodeLock&, const FunctionSpec& spec, PortId port, FunctionState state,
                         const PortHolder& holder) {
    auto chain = find_chain(node, spec.chain);
    if (!chain) return std::move(chain.error());
    if (!*chain) return errno_error(ENOENT, "chain " + spec.chain).with_code(102);
    auto index = find_place(node, spec, **chain, port, holder);
    if (!index) return std::move(index.error());
    return node.bpf.put_chain_slot(ChainId{(*chain)->id}, *index, slot_for(spec, port, state));
}

Result<void> free_chains_without_members(Node& node, const NodeLock&) {
    auto chains = node.bpf.list_chains();
    if (!chains || chains->empty()) return chains ? ok() : Result<void>(std::move(chains.error()));
    auto ports = node.bpf.list_ports();
    if (!ports) return std::move(ports.error());
    for (const auto& [id, chain] : *chains) {
        const bool has_member =
            std::ranges::any_of(*ports, [&, id = id](const auto& entry) { return is_member(entry.second, id); });
        if (has_member) continue;
        if (auto freed = node.bpf.free_chain(id); !freed) return freed;
    }
    return ok();
}

Result<void> retire_port(Node& node, PortId port, const std::vector<IpAddress>& addresses) {
    auto was = node.bpf.get_port(port);
    if (!was) return std::move(was.error());
    auto left = leave_chain(node, port);
    if (left && *left) std::this_thread::sleep_for(time_in_rings);
    auto lock = NodeLock::acquire(node);
    if (!lock) return std::move(lock.error());
    auto is = node.bpf.get_port(port);
    if (!is) return std::move(is.error());
    auto retired = is->epoch == was->epoch ? retire_dead_port(node, *lock, port, addresses) : ok();
    return left ? std::move(retired) : Result<void>(std::move(left.error()));
}

Result<void> retire_dead_port(Node& node, const NodeLock& lock, PortId port, const std::vector<IpAddress>& addresses) {
    auto left = empty_slots_of(node, port);
    auto closed = close_stack_path(node, port);
    auto withdrawn = withdraw_port(node, port, addresses);
    auto freed = free_chains_without_members(node, lock);
    if (!left) return std::move(left.error());
    if (!closed) return closed;
    return withdrawn ? freed : withdrawn;
}

Result<bool> forget_function(Node& node, const NodeLock&, const ChainView& chain, const FunctionSlot& slot) {
    if (slot.state != FunctionState::gone) return false;
    if (auto put = node.bpf.put_chain_slot(ChainId{chain.id}, slot.index, {}); !put) return std::move(put.error());
    return true;
}

bool is_armed(const netlink::Link& host_end) { return host_end.max_mtu != unlimited_mtu; }

Result<std::vector<std::string>> note_armed_functions(Node& node, const NodeLock&,
                                                      const std::set<netlink::IfIndex>& devices) {
    std::vector<std::string> changes;
    auto chains = node.bpf.list_chains();
    if (!chains) return std::move(chains.error());
    auto ports = node.bpf.list_ports();
    if (!ports) return std::move(ports.error());
    for (const auto& [id, chain] : *chains)
        for (std::uint32_t index = 0; index < bpf::XV_CHAIN_SLOTS; ++index) {
            xv_chain_slot slot = chain.slots[index];
            const auto* port = slot.state == bpf::XV_SLOT_FREE ? nullptr : port_of(*ports, id, slot);
            if (port == nullptr || (!devices.empty() && !devices.contains(netlink::IfIndex{port->ifindex}))) continue;
            auto link = node.rtnl.find_link(netlink::IfIndex{port->ifindex});
            if (!link) return std::move(link.error());
            if (!*link) continue;
            const auto state = static_cast<std::uint8_t>(is_armed(**link) ? bpf::XV_SLOT_LIVE : bpf::XV_SLOT_GONE);
            if (state == slot.state) continue;
            slot.state = state;
            if (auto put = node.bpf.put_chain_slot(id, index, slot); !put) return std::move(put.error());
            changes.push_back("chain " + std::string(chain.name) + ": function " + std::to_string(slot.position) +
                              " at " + (*link)->name +
                              (state == bpf::XV_SLOT_LIVE ? " runs its program" : " runs no program"));
        }
    return changes;
}

}  // namespace xveth::datapath
