// SPDX-License-Identifier: Apache-2.0
// Objects over the pins of a node. Maps and programs are opened when they are first used, by path: no object file is
// parsed and no BTF read, so that an ADD costs next to nothing here.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <type_traits>

#include "bpf-progs/loader/attach.hpp"
#include "bpf-progs/loader/bpffs.hpp"
#include "bpf-progs/loader/load.hpp"
#include "bpf-progs/loader/map.hpp"
#include "bpf-progs/loader/objects.hpp"
#include "bpf-progs/loader/reasons.hpp"

namespace xveth::bpf {
namespace {

constexpr std::uint32_t prefix_port_bits = 32;
constexpr std::uint32_t prefix_ipv4_bits = 96;

std::string program_name(Program program) {
    switch (program) {
        case Program::nic:
            return "xv_nic";
        case Program::host:
            return "xv_host";
        case Program::bridge:
            return "xv_bridge";
        case Program::function:
            return "xv_function";
        case Program::egress:
            return "xv_egress";
        case Program::pod:
            break;
    }
    return "xv_pod";
}

xv_addr key_of(const IpAddress& address) {
    xv_addr key{};
    const auto mapped = address.mapped();
    std::memcpy(key.bytes, mapped.data(), mapped.size());
    return key;
}

IpAddress address_of(const xv_addr& key) {
    std::array<std::uint8_t, 16> mapped{};
    std::memcpy(mapped.data(), key.bytes, mapped.size());
    return IpAddress::from_mapped(mapped);
}

xv_port_prefix key_of(PortId id, const IpPrefix& prefix) {
    xv_port_prefix key{};
    key.prefixlen = prefix_port_bits + prefix.length + (prefix.address.family == Family::ipv4 ? prefix_ipv4_bits : 0U);
    key.port = static_cast<std::uint32_t>(id);
    const auto mapped = prefix.network().address.mapped();
    std::memcpy(key.addr, mapped.data(), mapped.size());
    return key;
}

// How many slots programs have to look at.
std::uint32_t used_slots(const xv_chain& chain) {
    std::uint32_t used = XV_CHAIN_SLOTS;
    while (used > 0 && std::span{chain.slots}[used - 1].state == XV_SLOT_FREE) --used;
    return used;
}

void add(FastCounter& sum, const xv_counter& cpu) {
    sum.frames += cpu.frames;
    sum.bytes += cpu.bytes;
}

class PinnedObjects final : public Objects {
public:
    PinnedObjects(std::uint64_t cookie, const std::string& bpffs) : paths_(cookie, bpffs) {}

    Result<void> ensure_loaded() override;
    Result<bool> open_if_loaded() override;
    [[nodiscard]] bool has_conntrack() const override;
    Result<std::uint32_t> program_id(Program program) override;

    Result<void> attach(const Netns& ns, std::uint32_t ifindex, Program program, const std::string& pin) override;
    Result<bool> has_tcx_programs(const Netns& ns, std::uint32_t ifindex) override;
    Result<std::optional<LinkInfo>> find_link(const std::string& pin) override;
    Result<void> remove_link_if_present(const std::string& pin) override;
    Result<std::vector<std::string>> list_links() override { return list_pins(paths_.links()); }
    Result<std::optional<AttachedProgram>> attached_program(const Netns& ns, std::uint32_t ifindex) override;

    Result<PortId> allocate_port(const xv_port& port) override;
    Result<void> update_port(PortId id, const xv_port& port) override;
    Result<xv_port> get_port(PortId id) override;
    Result<std::optional<PortId>> find_port(std::uint32_t ifindex) override;
    Result<std::vector<std::pair<PortId, xv_port>>> list_ports() override;
    Result<void> free_port(PortId id) override;

    Result<void> put_target(PortId id, std::uint32_t ifindex) override;
    Result<std::optional<std::uint32_t>> find_target(PortId id) override;
    Result<void> remove_target_if_present(PortId id) override;

    Result<void> put_endpoint(const IpAddress& address, PortId id) override;
    Result<std::optional<PortId>> find_endpoint(const IpAddress& address) override;
    Result<std::vector<std::pair<IpAddress, PortId>>> list_endpoints() override;
    Result<void> remove_endpoint_if_of(const IpAddress& address, PortId id) override;
    Result<void> put_source(PortId id, const IpPrefix& prefix) override;
    Result<void> put_fast_to(PortId id, const IpPrefix& prefix) override;

    Result<std::vector<std::pair<ChainId, xv_chain>>> list_chains() override;
    Result<ChainId> allocate_chain(const std::string& name) override;
    Result<void> put_chain_slot(ChainId id, std::uint32_t index, const xv_chain_slot& slot) override;
    Result<void> free_chain(ChainId id) override;
    Result<HopStats> hop_stats(ChainId id, std::uint32_t index) override;
    Result<void> attach_egress(const Netns& ns, std::uint32_t ifindex, const std::string& pin) override;
    Result<void> bump_generation() override;
    Result<PortStats> stats(PortId id) override;

private:
    using PrefixMap = TypedMap<xv_port_prefix, std::uint32_t>;

    Result<xv_node*> node();
    Result<std::span<xv_port>> ports();
    Result<xv_port*> port_at(PortId id);
    Result<void> forget_port_of(PortId id, std::uint32_t ifindex);
    Result<std::span<xv_chain>> chains();
    Result<xv_chain*> chain_at(ChainId id);
    static Result<void> remove_prefixes(PrefixMap& map, PortId id);
    Result<void> clear_counters(PortId id);

    PinPaths paths_;
    MappedPages node_pages_;
    MappedPages port_pages_;
    MappedPages chain_pages_;
    PerCpuMap<std::uint32_t, xv_hop> hops_{paths_.map("xv_hops")};
    TypedMap<std::uint32_t, std::uint32_t> port_of_{paths_.map("xv_port_of")};
    TypedMap<std::uint32_t, DevmapValue> targets_{paths_.map("xv_ports")};
    TypedMap<xv_addr, std::uint32_t> endpoints_{paths_.map("xv_endpoints")};
    PrefixMap sources_{paths_.map("xv_sources")};
    PrefixMap fast_to_{paths_.map("xv_fast_to")};
    PerCpuMap<std::uint32_t, xv_counters> counters_{paths_.map("xv_counters")};
    PerCpuMap<xv_reason_key, std::uint64_t> reasons_{paths_.map("xv_reasons")};
};

// -- the shared objects

Result<void> PinnedObjects::ensure_loaded() {
    auto loaded = open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (*loaded) return ok();
    if (auto mounted = ensure_sysfs(); !mounted) return mounted;
    if (auto published = load_and_publish(paths_, kernel_has_conntrack_functions()); !published) return published;
    auto mapped = node();
    if (!mapped) return std::move(mapped.error());
    return ok();
}

Result<bool> PinnedObjects::open_if_loaded() {
    auto published = pin_exists(paths_.node());
    if (!published) return std::move(published.error()).with_code(102);
    if (!*published) return false;
    auto mapped = node();
    if (!mapped) return std::move(mapped.error());
    return true;
}

bool PinnedObjects::has_conntrack() const {
    const auto* node = static_cast<const xv_node*>(node_pages_.data());
    return node != nullptr && (node->flags & XV_NODE_CONNTRACK) != 0;
}

Result<std::uint32_t> PinnedObjects::program_id(Program program) {
    auto fd = open_pin(paths_.program(program_name(program)));
    if (!fd) return std::move(fd.error()).with_code(101);
    return id_of_program(fd->get());
}

Result<xv_node*> PinnedObjects::node() {
    if (auto mapped = node_pages_.ensure_mapped(paths_.map("xv_node"), sizeof(xv_node)); !mapped)
        return std::move(mapped.error());
    return static_cast<xv_node*>(node_pages_.data());
}

Result<std::span<xv_port>> PinnedObjects::ports() {
    if (auto mapped = port_pages_.ensure_mapped(paths_.map("xv_port_info"), sizeof(xv_port) * XV_MAX_PORTS); !mapped)
        return std::move(mapped.error());
    return std::span{static_cast<xv_port*>(port_pages_.data()), std::size_t{XV_MAX_PORTS}};
}

// -- links

Result<void> PinnedObjects::attach(const Netns& ns, std::uint32_t ifindex, Program program, const std::string& pin) {
    auto fd = open_pin(paths_.program(program_name(program)));
    if (!fd) return std::move(fd.error()).with_code(101);
    return attach_and_pin(ns, ifindex, fd->get(), paths_.link(pin));
}

Result<void> PinnedObjects::attach_egress(const Netns& ns, std::uint32_t ifindex, const std::string& pin) {
    auto fd = open_pin(paths_.program(program_name(Program::egress)));
    if (!fd) return std::move(fd.error()).with_code(101);
    return attach_egress_and_pin(ns, ifindex, fd->get(), paths_.link(pin));
}

Result<std::optional<LinkInfo>> PinnedObjects::find_link(const std::string& pin) {
    return find_pinned_link(paths_.link(pin));
}

Result<void> PinnedObjects::remove_link_if_present(const std::string& pin) {
    return detach_and_unpin(paths_.link(pin));
}

Result<std::optional<AttachedProgram>> PinnedObjects::attached_program(const Netns& ns, std::uint32_t ifindex) {
    auto scope = NetnsScope::enter(ns);
    if (!scope) return std::move(scope.error()).or_code(101);
    return query_program(ifindex);
}

Result<bool> PinnedObjects::has_tcx_programs(const Netns& ns, std::uint32_t ifindex) {
    auto scope = NetnsScope::enter(ns);
    if (!scope) return std::move(scope.error()).or_code(101);
    auto own = program_id(Program::egress);
    if (!own && own.error().errno_value != ENOENT) return std::move(own.error());
    return query_tcx(ifindex, own.value_or(0));
}

// -- ports

Result<xv_port*> PinnedObjects::port_at(PortId id) {
    auto all = ports();
    if (!all) return std::move(all.error());
    const auto index = static_cast<std::uint32_t>(id);
    if (index == 0 || index >= all->size())
        return Error{.code = 102, .errno_value = EINVAL, .text = "no port id " + std::to_string(index), .hint = {}};
    return &(*all)[index];
}

Result<PortId> PinnedObjects::allocate_port(const xv_port& port) {
    auto shared = node();
    if (!shared) return std::move(shared.error());
    auto all = ports();
    if (!all) return std::move(all.error());
    const std::uint32_t usable = XV_MAX_PORTS - 1;  // id 0 is nobody's
    for (std::uint32_t step = 0; step < usable; ++step) {
        const std::uint32_t id = 1 + ((*shared)->next_port - 1 + step) % usable;
        if ((*all)[id].ifindex != 0) continue;
        (*all)[id] = port;
        (*all)[id].epoch = (*shared)->next_epoch;
        if (auto entered = port_of_.put(port.ifindex, id); !entered) {
            (*all)[id] = xv_port{};
            return std::move(entered.error());
        }
        (*shared)->next_port = 1 + id % usable;
        (*shared)->next_epoch = std::max((*shared)->next_epoch + 1, 1U);
        return PortId{id};
    }
    return Error{.code = 102,
                 .errno_value = ENOSPC,
                 .text = "all " + std::to_string(usable) + " port ids are in use",
                 .hint = {}};
}

Result<void> PinnedObjects::update_port(PortId id, const xv_port& port) {
    auto at = port_at(id);
    if (!at) return std::move(at.error());
    if ((*at)->ifindex != port.ifindex) {
        if (auto gone = forget_port_of(id, (*at)->ifindex); !gone) return gone;
        if (auto entered = port_of_.put(port.ifindex, static_cast<std::uint32_t>(id)); !entered) return entered;
    }
    xv_port updated = port;
    updated.epoch = (*at)->epoch;
    **at = updated;
    return ok();
}

Result<xv_port> PinnedObjects::get_port(PortId id) {
    auto at = port_at(id);
    if (!at) return std::move(at.error());
    return **at;
}

Result<std::optional<PortId>> PinnedObjects::find_port(std::uint32_t ifindex) {
    auto found = port_of_.find(ifindex);
    if (!found) return std::move(found.error());
    if (!*found) return std::optional<PortId>{};
    return std::optional{PortId{**found}};
}

Result<std::vector<std::pair<PortId, xv_port>>> PinnedObjects::list_ports() {
    auto all = ports();
    if (!all) return std::move(all.error());
    std::vector<std::pair<PortId, xv_port>> used;
    for (std::uint32_t id = 1; id < all->size(); ++id)
        if ((*all)[id].ifindex != 0) used.emplace_back(PortId{id}, (*all)[id]);
    return used;
}

// The kernel gives an ifindex again: the entry may be another port's by now.
Result<void> PinnedObjects::forget_port_of(PortId id, std::uint32_t ifindex) {
    auto owner = port_of_.find(ifindex);
    if (!owner) return std::move(owner.error());
    if (!*owner || PortId{**owner} != id) return ok();
    return port_of_.remove_if_present(ifindex);
}

Result<void> PinnedObjects::remove_prefixes(PrefixMap& map, PortId id) {
    auto keys = map.keys();
    if (!keys) return std::move(keys.error());
    for (const auto& key : *keys) {
        if (key.port != static_cast<std::uint32_t>(id)) continue;
        if (auto removed = map.remove_if_present(key); !removed) return removed;
    }
    return ok();
}

Result<void> PinnedObjects::clear_counters(PortId id) {
    const auto port = static_cast<std::uint32_t>(id);
    if (auto cleared = counters_.clear(port); !cleared) return cleared;
    for (const auto& reason : all_reasons())
        if (auto removed = reasons_.remove_if_present({.port = port, .reason = reason.reason}); !removed)
            return removed;
    return ok();
}

Result<void> PinnedObjects::free_port(PortId id) {
    auto at = port_at(id);
    if (!at) return std::move(at.error());
    if (auto removed = remove_target_if_present(id); !removed) return removed;
    if (auto gone = forget_port_of(id, (*at)->ifindex); !gone) return gone;
    if (auto removed = remove_prefixes(sources_, id); !removed) return removed;
    if (auto removed = remove_prefixes(fast_to_, id); !removed) return removed;
    if (auto cleared = clear_counters(id); !cleared) return cleared;
    **at = xv_port{};
    return ok();
}

// -- redirect targets

Result<void> PinnedObjects::put_target(PortId id, std::uint32_t ifindex) {
    const auto key = static_cast<std::uint32_t>(id);
    if (auto put = targets_.put(key, {.ifindex = ifindex}); !put)
        return std::move(put.error()).in("make device " + std::to_string(ifindex) + " a redirect target");
    auto back = find_target(id);
    if (!back) return std::move(back.error());
    if (*back && **back == ifindex) return ok();
    return Error{.code = 102,
                 .errno_value = ENODEV,
                 .text = "device " + std::to_string(ifindex) + " did not stay a redirect target",
                 .hint = {}};
}

Result<std::optional<std::uint32_t>> PinnedObjects::find_target(PortId id) {
    auto found = targets_.find(static_cast<std::uint32_t>(id));
    if (!found) return std::move(found.error());
    if (!*found) return std::optional<std::uint32_t>{};
    return std::optional{(*found)->ifindex};
}

Result<void> PinnedObjects::remove_target_if_present(PortId id) {
    return targets_.remove_if_present(static_cast<std::uint32_t>(id));
}

// -- addresses

Result<void> PinnedObjects::put_endpoint(const IpAddress& address, PortId id) {
    return endpoints_.put(key_of(address), static_cast<std::uint32_t>(id));
}

Result<std::optional<PortId>> PinnedObjects::find_endpoint(const IpAddress& address) {
    auto found = endpoints_.find(key_of(address));
    if (!found) return std::move(found.error());
    if (!*found) return std::optional<PortId>{};
    return std::optional{PortId{**found}};
}

Result<std::vector<std::pair<IpAddress, PortId>>> PinnedObjects::list_endpoints() {
    auto keys = endpoints_.keys();
    if (!keys) return std::move(keys.error());
    std::vector<std::pair<IpAddress, PortId>> endpoints;
    for (const auto& key : *keys) {
        auto id = endpoints_.find(key);
        if (!id) return std::move(id.error());
        if (*id) endpoints.emplace_back(address_of(key), PortId{**id});
    }
    return endpoints;
}

Result<void> PinnedObjects::remove_endpoint_if_of(const IpAddress& address, PortId id) {
    auto owner = find_endpoint(address);
    if (!owner) return std::move(owner.error());
    if (*owner != id) return ok();
    return endpoints_.remove_if_present(key_of(address));
}

Result<void> PinnedObjects::put_source(PortId id, const IpPrefix& prefix) {
    return sources_.put(key_of(id, prefix), 1);
}

Result<void> PinnedObjects::put_fast_to(PortId id, const IpPrefix& prefix) {
    return fast_to_.put(key_of(id, prefix), 1);
}

Result<void> PinnedObjects::bump_generation() {
    auto shared = node();
    if (!shared) return std::move(shared.error());
    std::atomic_ref{(*shared)->generation}.fetch_add(1);
    return ok();
}

// -- chains

Result<std::span<xv_chain>> PinnedObjects::chains() {
    if (auto mapped = chain_pages_.ensure_mapped(paths_.map("xv_chains"), sizeof(xv_chain) * XV_MAX_CHAINS); !mapped)
        return std::move(mapped.error());
    return std::span{static_cast<xv_chain*>(chain_pages_.data()), std::size_t{XV_MAX_CHAINS}};
}

Result<xv_chain*> PinnedObjects::chain_at(ChainId id) {
    auto all = chains();
    if (!all) return std::move(all.error());
    const auto index = static_cast<std::uint16_t>(id);
    if (index == 0 || index >= all->size())
        return Error{.code = 102, .errno_value = EINVAL, .text = "no chain id " + std::to_string(index), .hint = {}};
    return &(*all)[index];
}

Result<std::vector<std::pair<ChainId, xv_chain>>> PinnedObjects::list_chains() {
    auto all = chains();
    if (!all) return std::move(all.error());
    std::vector<std::pair<ChainId, xv_chain>> used;
    for (std::uint32_t id = 1; id < all->size(); ++id)
        if ((*all)[id].name[0] != 0) used.emplace_back(ChainId{static_cast<std::uint16_t>(id)}, (*all)[id]);
    return used;
}

Result<ChainId> PinnedObjects::allocate_chain(const std::string& name) {
    auto all = chains();
    if (!all) return std::move(all.error());
    if (name.empty() || name.size() >= XV_CHAIN_NAME)
        return Error{.code = 102, .errno_value = EINVAL, .text = "a chain's name: \"" + name + "\"", .hint = {}};
    for (std::uint32_t id = 1; id < all->size(); ++id) {
        if ((*all)[id].name[0] != 0) continue;
        for (std::uint32_t slot = 0; slot < XV_CHAIN_SLOTS; ++slot)
            if (auto cleared = hops_.clear(id * XV_CHAIN_SLOTS + slot); !cleared) return std::move(cleared.error());
        xv_chain fresh{};
        name.copy(std::data(fresh.name), XV_CHAIN_NAME - 1);
        (*all)[id] = fresh;
        return ChainId{static_cast<std::uint16_t>(id)};
    }
    return Error{.code = 102,
                 .errno_value = ENOSPC,
                 .text = "all " + std::to_string(XV_MAX_CHAINS - 1) + " chain ids are in use",
                 .hint = {}};
}

// One store, so that a program sees the old slot or the new one. A new function counts from nothing.
Result<void> PinnedObjects::put_chain_slot(ChainId id, std::uint32_t index, const xv_chain_slot& slot) {
    auto chain = chain_at(id);
    if (!chain) return std::move(chain.error());
    auto shared = node();
    if (!shared) return std::move(shared.error());
    if (index >= XV_CHAIN_SLOTS)
        return Error{.code = 102, .errno_value = EINVAL, .text = "no chain slot " + std::to_string(index), .hint = {}};
    const std::span slots{(*chain)->slots};
    if (slots[index].state == XV_SLOT_FREE) {
        auto cleared = hops_.clear(static_cast<std::uint32_t>(id) * XV_CHAIN_SLOTS + index);
        if (!cleared) return std::move(cleared.error());
    }
    std::atomic_ref{reinterpret_cast<std::uint64_t&>(slots[index])}.store(std::bit_cast<std::uint64_t>(slot));
    std::atomic_ref{(*chain)->used}.store(used_slots(**chain));
    std::atomic_ref{(*shared)->generation}.fetch_add(1);
    return ok();
}

Result<void> PinnedObjects::free_chain(ChainId id) {
    auto chain = chain_at(id);
    if (!chain) return std::move(chain.error());
    **chain = xv_chain{};
    return bump_generation();
}

Result<HopStats> PinnedObjects::hop_stats(ChainId id, std::uint32_t index) {
    auto cpus = hops_.find(static_cast<std::uint32_t>(id) * XV_CHAIN_SLOTS + index);
    if (!cpus) return std::move(cpus.error());
    HopStats stats;
    for (const auto& cpu : *cpus) {
        stats.in += cpu.in;
        stats.out += cpu.out;
        stats.dropped += cpu.dropped;
    }
    return stats;
}

// -- counters

Result<PortStats> PinnedObjects::stats(PortId id) {
    auto values = counters_.find(static_cast<std::uint32_t>(id));
    if (!values) return std::move(values.error());
    PortStats stats;
    for (const auto& cpu : *values) {
        add(stats.to_port, cpu.of[XV_TO_PORT]);
        add(stats.from_port, cpu.of[XV_FROM_PORT]);
    }
    for (const auto& named : all_reasons()) {
        auto frames = reasons_.find({.port = static_cast<std::uint32_t>(id), .reason = named.reason});
        if (!frames) return std::move(frames.error());
        for (const auto cpu : *frames) stats.reasons[named.reason] += cpu;
    }
    std::erase_if(stats.reasons, [](const auto& entry) { return entry.second == 0; });
    return stats;
}

}  // namespace

std::unique_ptr<Objects> open_pinned_objects(std::uint64_t cookie, const std::string& bpffs) {
    libbpf_set_print(nullptr);  // stdout and stderr are the caller's
    return std::make_unique<PinnedObjects>(cookie, bpffs);
}

}  // namespace xveth::bpf
