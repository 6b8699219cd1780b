// SPDX-License-Identifier: Apache-2.0
#include "attachment/chains.hpp"

#include <algorithm>
#include <cerrno>

#include "datapath/arming.hpp"
#include "datapath/node.hpp"

namespace xveth::attachment {
namespace {

using datapath::FunctionSpec;
using datapath::FunctionState;

const char* const recreate = "delete and re-create the container";

FunctionSpec function_spec(const ChainRecord& place) {
    return {.chain = place.name, .position = place.position, .bypass_on_failure = place.bypass_on_failure};
}

Error fault(int code, std::string text) {
    return {.code = code, .errno_value = 0, .text = std::move(text), .hint = recreate};
}

Error too_large(const std::string& chain, std::uint32_t mtu, std::uint32_t limit) {
    return {.code = 11,
            .errno_value = EAGAIN,
            .text = "chain " + chain + " got a function of MTU " + std::to_string(limit) +
                    " while a container of MTU " + std::to_string(mtu) + " was made",
            .hint = "try again"};
}

// Whether the function runs its program. Without xvethd nobody would notice that it starts to: it is taken to.
Result<FunctionState> state_of(Node& node, const AttachmentRecord& record) {
    auto watched = agent_runs(node);
    if (!watched) return std::move(watched.error());
    if (!*watched) return FunctionState::live;
    auto link = node.path.rtnl.find_link(netlink::IfIndex{record.host_ifindex});
    if (!link) return std::move(link.error());
    if (!*link) return errno_error(ENODEV, "host end " + record.host_end).with_code(100);
    return datapath::is_armed(**link) ? FunctionState::live : FunctionState::disarmed;
}

Result<void> check_function(const AttachmentRecord& record, const datapath::ChainView& chain) {
    const auto slot = std::ranges::find(chain.functions, record.chain->position, &datapath::FunctionSlot::position);
    if (slot != chain.functions.end() && static_cast<std::uint32_t>(slot->port) == record.port) return ok();
    return fault(102, "position " + std::to_string(record.chain->position) + " of chain " + chain.name +
                          " does not lead to this container");
}

Result<void> check_protection(Node& node, const AttachmentRecord& record, const datapath::ChainView& chain,
                              const netlink::Link& host_end) {
    if (std::ranges::find(chain.protects, bpf::PortId{record.port}) == chain.protects.end())
        return fault(102, "chain " + chain.name + " does not protect this container");
    auto there = datapath::find_egress_fault(node.path, record.key.hash(), host_end);
    if (!there) return std::move(there.error());
    return there->empty() ? ok() : fault(101, *there);
}

}  // namespace

bool is_in_chain(const NetConf& conf) { return conf.function_of || conf.protected_by; }

std::optional<ChainRecord> chain_record(const NetConf& conf) {
    if (conf.function_of)
        return ChainRecord{.name = conf.function_of->chain,
                           .position = conf.function_of->position,
                           .bypass_on_failure = conf.function_of->on_failure == OnFailure::bypass};
    if (conf.protected_by)
        return ChainRecord{.name = conf.protected_by->chain, .stack_path_passes = conf.protected_by->stack_path_passes};
    return std::nullopt;
}

Result<std::uint32_t> mtu_in_chain(Node& node, const NetConf& conf, std::uint32_t mtu) {
    const auto place = chain_record(conf);
    if (!place) return mtu;
    if (place->position != 0) {
        auto free = datapath::refuse_place(node.path, function_spec(*place), mtu, port_holder(node));
        if (!free) return std::move(free.error());
        return mtu;
    }
    auto chain = datapath::find_chain(node.path, place->name);
    if (!chain) return std::move(chain.error());
    return *chain && (*chain)->functions_mtu != 0 ? std::min(mtu, (*chain)->functions_mtu) : mtu;
}

Result<datapath::ChainPlace> prepare_place(Node& node, const datapath::NodeLock& lock, const NetConf& conf,
                                           const datapath::VethPair& pair, const AttachmentRecord& record) {
    if (!record.chain) return datapath::ChainPlace{};
    const std::uint32_t mtu = std::min(pair.host.mtu, pair.container.mtu);
    auto fits = mtu_in_chain(node, conf, mtu);
    if (!fits) return std::move(fits.error());
    if (*fits < mtu) return too_large(record.chain->name, mtu, *fits);
    auto id = datapath::ensure_chain(node.path, lock, record.chain->name);
    if (!id) return std::move(id.error());
    return datapath::ChainPlace{
        .chain = *id, .position = record.chain->position, .stack_path_passes = record.chain->stack_path_passes};
}

Result<void> enter_chain(Node& node, const AttachmentRecord& record, Notes& notes) {
    if (!record.chain || record.chain->position == 0) return ok();
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    auto watched = agent_runs(node);
    if (!watched) return std::move(watched.error());
    auto state = state_of(node, record);
    if (!state) return std::move(state.error());
    if (!*watched)
        notes.push_back("chain " + record.chain->name +
                        ": xvethd does not run: a function that is gone is noticed, one "
                        "that runs no XDP program is not, and frames sent to it are lost");
    return datapath::enter_chain(node.path, *lock, function_spec(*record.chain), bpf::PortId{record.port}, *state,
                                 port_holder(node));
}

bpf::Program host_program(const AttachmentRecord& record) {
    if (record.bridged) return bpf::Program::bridge;
    return record.chain && record.chain->position != 0 ? bpf::Program::function : bpf::Program::host;
}

Result<void> check_chain(Node& node, const AttachmentRecord& record, const netlink::Link& host_end) {
    if (!record.chain) return ok();
    auto chain = datapath::find_chain(node.path, record.chain->name);
    if (!chain) return std::move(chain.error());
    if (!*chain) return fault(102, "chain " + record.chain->name + " is gone");
    return record.chain->position != 0 ? check_function(record, **chain)
                                       : check_protection(node, record, **chain, host_end);
}

datapath::PortHolder port_holder(Node& node) {
    return [&node](const bpf::xv_port& port) -> std::string {
        auto records = node.store.list_all();
        if (!records) return {};
        for (const auto& record : *records)
            if (record.host_ifindex == port.ifindex)
                return record.key.network + "/" + record.key.container_id + "/" + record.key.ifname;
        return {};
    };
}

Result<bool> agent_runs(const Node& node) {
    auto held = FileLock::is_held(node.store.agent_lock_path());
    if (!held) return std::move(held.error()).with_code(104);
    return *held;
}

}  // namespace xveth::attachment
