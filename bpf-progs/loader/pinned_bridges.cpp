// SPDX-License-Identifier: Apache-2.0
// Bridges over the pins of a node.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <span>
#include <string_view>

#include "bpf-progs/loader/bpffs.hpp"
#include "bpf-progs/loader/bridge_groups.hpp"
#include "bpf-progs/loader/bridges.hpp"
#include "bpf-progs/loader/load_bridge.hpp"
#include "bpf-progs/loader/map.hpp"

namespace xveth::bpf {
namespace {

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint32_t port_flags = XV_PORT_ISOLATED | XV_PORT_TARGET;

Error failure(int err, std::string text) {
    return Error{.code = 102, .errno_value = err, .text = std::move(text), .hint = {}};
}

std::uint32_t number(PortId id) { return static_cast<std::uint32_t>(id); }
std::uint16_t number(BridgeId id) { return static_cast<std::uint16_t>(id); }

xv_vlan_set as_words(const VlanSet& vlans) {
    xv_vlan_set set{};
    for (std::uint32_t vlan = 0; vlan < XV_MAX_VLANS; ++vlan)
        if (vlans.test(vlan)) set.words[vlan / 64] |= std::uint64_t{1} << (vlan % 64);
    return set;
}

VlanSet as_set(const xv_vlan_set& words) {
    VlanSet vlans;
    for (std::uint32_t vlan = 0; vlan < XV_MAX_VLANS; ++vlan)
        vlans.set(vlan, (words.words[vlan / 64] >> (vlan % 64) & 1) != 0);
    return vlans;
}

xv_fdb_key key_of(const xv_port& port, std::uint16_t vlan, const Mac& mac) {
    xv_fdb_key key{};
    std::ranges::copy(mac.bytes, key.mac);
    key.vlan = vlan;
    key.bridge = port.bridge;
    return key;
}

// The clock of bpf_ktime_get_coarse_ns().
std::uint64_t coarse_now() {
    struct timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * second + static_cast<std::uint64_t>(now.tv_nsec);
}

struct LivePort {
    std::uint32_t id = 0;
    xv_port port{};
    VlanSet tagged;
};

std::vector<GroupMember> members_of(const std::vector<LivePort>& ports, std::uint16_t vlan, bool vlans) {
    std::vector<GroupMember> members;
    for (const auto& [id, port, tagged] : ports) {
        const bool own = !vlans || port.vlan == vlan;
        if (!own && !tagged.test(vlan)) continue;
        const bool reachable = (port.flags & XV_PORT_TARGET) != 0 && (port.flags & XV_PORT_FAST) != 0;
        members.push_back({.port = id,
                           .ifindex = port.ifindex,
                           .reachable = reachable,
                           .isolated = (port.flags & XV_PORT_ISOLATED) != 0,
                           .tagged = !own});
    }
    return members;
}

class PinnedBridges final : public Bridges {
public:
    PinnedBridges(std::uint64_t cookie, const std::string& bpffs) : paths_(cookie, bpffs) {}

    Result<void> ensure_loaded() override;
    Result<bool> open_if_loaded() override;
    Result<BridgeId> put_bridge(const Bridge& bridge) override;
    Result<std::optional<BridgeId>> find_bridge(const std::string& network) override;
    Result<std::vector<std::pair<BridgeId, Bridge>>> list_bridges() override;
    Result<void> free_bridge(BridgeId id) override;
    Result<void> put_port(PortId id, const BridgePort& port) override;
    Result<std::optional<BridgePort>> find_port(PortId id) override;
    Result<std::vector<PortId>> list_ports(BridgeId id) override;
    Result<void> remove_port_if_present(PortId id) override;
    Result<void> put_static(PortId id, std::uint16_t vlan, const Mac& mac) override;
    Result<void> remove_static_if_of(PortId id, std::uint16_t vlan, const Mac& mac) override;
    Result<std::vector<FdbEntry>> list_fdb(BridgeId id) override;
    Result<void> flush_learned(PortId id) override;

private:
    using Fdb = TypedMap<xv_fdb_key, xv_fdb_entry>;

    Result<std::span<xv_bridge_info>> bridges();
    Result<std::span<xv_port>> ports();
    Result<xv_bridge_info*> bridge_at(BridgeId id);
    Result<xv_port*> port_at(PortId id);
    // The ports of a bridge, with their trunks.
    Result<std::vector<LivePort>> ports_of(std::uint16_t bridge);
    Result<VlanSet> tagged_of(std::uint32_t port);
    Result<void> put_target(std::uint32_t id, const xv_port& port, bool vlans);
    // `leaving` counts no more.
    Result<void> sync_groups(std::uint16_t bridge, const VlanSet& vlans, PortId leaving = PortId::none);
    // What leads to the port in one of these VLANs.
    static Result<void> forget_port(Fdb& fdb, std::uint32_t port, const VlanSet& vlans = VlanSet{}.set());
    Result<void> collect(Fdb& fdb, BridgeId id, std::uint64_t ageing_ns, std::vector<FdbEntry>& found);

    PinPaths paths_;
    MappedPages bridge_pages_;
    MappedPages port_pages_;
    TypedMap<std::uint32_t, DevmapValue> targets_{paths_.map("xv_ports")};
    TypedMap<std::uint32_t, xv_vlan_set> vlans_{paths_.map("xv_bridge_vlans")};
    Fdb static_{paths_.map("xv_fdb_static")};
    Fdb learned_{paths_.map("xv_fdb_learned")};
    BridgeGroups groups_{paths_};
};

// -- shared objects

Result<void> PinnedBridges::ensure_loaded() {
    auto loaded = open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    return *loaded ? ok() : load_bridge(paths_);
}

Result<bool> PinnedBridges::open_if_loaded() {
    auto there = pin_exists(paths_.program("xv_bridge"));
    if (!there) return std::move(there.error()).with_code(102);
    return there;
}

Result<std::span<xv_bridge_info>> PinnedBridges::bridges() {
    constexpr std::size_t size = sizeof(xv_bridge_info) * XV_MAX_BRIDGES;
    if (auto mapped = bridge_pages_.ensure_mapped(paths_.map("xv_bridges"), size); !mapped)
        return std::move(mapped.error());
    return std::span{static_cast<xv_bridge_info*>(bridge_pages_.data()), std::size_t{XV_MAX_BRIDGES}};
}

Result<std::span<xv_port>> PinnedBridges::ports() {
    if (auto mapped = port_pages_.ensure_mapped(paths_.map("xv_port_info"), sizeof(xv_port) * XV_MAX_PORTS); !mapped)
        return std::move(mapped.error());
    return std::span{static_cast<xv_port*>(port_pages_.data()), std::size_t{XV_MAX_PORTS}};
}

Result<xv_bridge_info*> PinnedBridges::bridge_at(BridgeId id) {
    auto all = bridges();
    if (!all) return std::move(all.error());
    if (number(id) == 0 || number(id) >= all->size())
        return failure(EINVAL, "no bridge id " + std::to_string(number(id)));
    return &(*all)[number(id)];
}

Result<xv_port*> PinnedBridges::port_at(PortId id) {
    auto all = ports();
    if (!all) return std::move(all.error());
    if (number(id) == 0 || number(id) >= all->size())
        return failure(EINVAL, "no port id " + std::to_string(number(id)));
    return &(*all)[number(id)];
}

// -- bridges

std::string_view name_of(const xv_bridge_info& info) {
    return {&info.name[0], ::strnlen(&info.name[0], sizeof info.name)};
}

Result<BridgeId> PinnedBridges::put_bridge(const Bridge& bridge) {
    if (bridge.network.empty() || bridge.network.size() >= XV_BRIDGE_NAME)
        return failure(ENAMETOOLONG, "bridge of network " + bridge.network.substr(0, 40) + "…");
    auto known = find_bridge(bridge.network);
    if (!known) return std::move(known.error());
    auto all = bridges();
    if (!all) return std::move(all.error());
    std::size_t id = known->has_value() ? number(**known) : 1;
    if (!*known)
        while (id < all->size() && !name_of((*all)[id]).empty()) ++id;
    if (id == all->size()) return failure(ENOSPC, "all bridge ids are in use");
    auto& info = (*all)[id];
    const std::uint32_t flags = bridge.vlans ? std::uint32_t{XV_BRIDGE_VLANS} : 0U;
    if (*known && info.flags != flags) {
        auto used = list_ports(**known);
        if (!used) return std::move(used.error());
        if (!used->empty())
            return failure(EBUSY, "bridge of network " + bridge.network + " has ports, with or without VLANs");
    }
    info.ageing_ns = static_cast<std::uint64_t>(bridge.ageing.count()) * second;
    info.flags = flags;
    std::ranges::copy(bridge.network, &info.name[0]);
    return BridgeId{static_cast<std::uint16_t>(id)};
}

Result<std::optional<BridgeId>> PinnedBridges::find_bridge(const std::string& network) {
    auto all = bridges();
    if (!all) return std::move(all.error());
    for (std::size_t id = 1; id < all->size(); ++id)
        if (name_of((*all)[id]) == network) return std::optional{BridgeId{static_cast<std::uint16_t>(id)}};
    return std::optional<BridgeId>{};
}

Result<std::vector<std::pair<BridgeId, Bridge>>> PinnedBridges::list_bridges() {
    auto all = bridges();
    if (!all) return std::move(all.error());
    std::vector<std::pair<BridgeId, Bridge>> found;
    for (std::size_t id = 1; id < all->size(); ++id) {
        const auto& info = (*all)[id];
        if (name_of(info).empty()) continue;
        found.emplace_back(BridgeId{static_cast<std::uint16_t>(id)},
                           Bridge{.network = std::string(name_of(info)),
                                  .vlans = (info.flags & XV_BRIDGE_VLANS) != 0,
                                  .ageing = std::chrono::seconds(info.ageing_ns / second)});
    }
    return found;
}

Result<void> PinnedBridges::free_bridge(BridgeId id) {
    auto at = bridge_at(id);
    if (!at) return std::move(at.error());
    auto used = list_ports(id);
    if (!used) return std::move(used.error());
    if (!used->empty()) return failure(EBUSY, "bridge of network " + std::string(name_of(**at)) + " has ports");
    **at = xv_bridge_info{};
    return ok();
}

// -- ports

Result<VlanSet> PinnedBridges::tagged_of(std::uint32_t port) {
    auto words = vlans_.find(port);
    if (!words) return std::move(words.error());
    return *words ? as_set(**words) : VlanSet{};
}

Result<std::vector<LivePort>> PinnedBridges::ports_of(std::uint16_t bridge) {
    auto all = ports();
    if (!all) return std::move(all.error());
    std::vector<LivePort> found;
    for (std::uint32_t id = 1; id < all->size(); ++id) {
        if ((*all)[id].ifindex == 0 || (*all)[id].bridge != bridge) continue;
        auto tagged = tagged_of(id);
        if (!tagged) return std::move(tagged.error());
        found.push_back({.id = id, .port = (*all)[id], .tagged = *tagged});
    }
    return found;
}

Result<void> PinnedBridges::sync_groups(std::uint16_t bridge, const VlanSet& vlans, PortId leaving) {
    auto info = bridge_at(BridgeId{bridge});
    if (!info) return std::move(info.error());
    auto members = ports_of(bridge);
    if (!members) return std::move(members.error());
    std::erase_if(*members, [&](const LivePort& port) { return port.id == number(leaving); });
    const bool with_vlans = ((*info)->flags & XV_BRIDGE_VLANS) != 0;
    for (std::uint16_t vlan = 0; vlan < XV_MAX_VLANS; ++vlan) {
        if (!vlans.test(vlan)) continue;
        const xv_group_key key{.bridge = bridge, .vlan = vlan};
        if (auto synced = groups_.sync(key, members_of(*members, vlan, with_vlans), with_vlans); !synced) return synced;
    }
    return ok();
}

Result<void> PinnedBridges::put_target(std::uint32_t id, const xv_port& port, bool vlans) {
    if ((port.flags & XV_PORT_TARGET) == 0) return targets_.remove_if_present(id);
    UniqueFd untag;
    if (vlans) {
        auto program = open_pin(paths_.program("xv_untag"));
        if (!program) return std::move(program.error()).with_code(102);
        untag = std::move(*program);
    }
    const std::uint32_t program = vlans ? static_cast<std::uint32_t>(untag.get()) : 0U;
    return targets_.put(id, {.ifindex = port.ifindex, .program = program});
}

// VLAN 0 is the only one of a bridge without VLANs; of others it is none.
VlanSet vlans_of(const BridgePort& port, bool vlans) {
    VlanSet set = vlans ? port.tagged : VlanSet{};
    if (port.vlan != 0 || !vlans) set.set(vlans ? port.vlan : 0);
    return set;
}

Result<void> PinnedBridges::put_port(PortId id, const BridgePort& port) {
    auto at = port_at(id);
    if (!at) return std::move(at.error());
    auto info = bridge_at(port.bridge);
    if (!info) return std::move(info.error());
    const bool vlans = ((*info)->flags & XV_BRIDGE_VLANS) != 0;
    auto before = find_port(id);
    if (!before) return std::move(before.error());
    const bool moves = *before && (*before)->bridge != port.bridge;
    if (moves) {
        if (auto left = remove_port_if_present(id); !left) return left;
    }
    const xv_vlan_set words = as_words(port.tagged);
    auto trunk = vlans && port.tagged.any() ? vlans_.put(number(id), words) : vlans_.remove_if_present(number(id));
    if (!trunk) return trunk;
    xv_port entry = **at;
    entry.flags = (entry.flags & ~port_flags) | (port.isolated ? std::uint32_t{XV_PORT_ISOLATED} : 0U) |
                  (port.target ? std::uint32_t{XV_PORT_TARGET} : 0U);
    entry.vlan = vlans ? port.vlan : 0;
    entry.bridge = number(port.bridge);
    if (auto target = put_target(number(id), entry, vlans); !target) return target;
    **at = entry;
    VlanSet affected = vlans_of(port, vlans);
    if (*before && !moves) affected |= vlans_of(**before, vlans);
    if (auto synced = sync_groups(entry.bridge, affected); !synced) return synced;
    const VlanSet left = affected & ~vlans_of(port, vlans);
    if (left.none()) return ok();
    for (Fdb* fdb : {&static_, &learned_})
        if (auto gone = forget_port(*fdb, number(id), left); !gone) return gone;
    return ok();
}

Result<std::optional<BridgePort>> PinnedBridges::find_port(PortId id) {
    auto at = port_at(id);
    if (!at) return std::move(at.error());
    if ((*at)->ifindex == 0 || (*at)->bridge == 0) return std::optional<BridgePort>{};
    auto tagged = tagged_of(number(id));
    if (!tagged) return std::move(tagged.error());
    return std::optional{BridgePort{.bridge = BridgeId{(*at)->bridge},
                                    .vlan = (*at)->vlan,
                                    .tagged = *tagged,
                                    .isolated = ((*at)->flags & XV_PORT_ISOLATED) != 0,
                                    .target = ((*at)->flags & XV_PORT_TARGET) != 0}};
}

Result<std::vector<PortId>> PinnedBridges::list_ports(BridgeId id) {
    auto all = ports();
    if (!all) return std::move(all.error());
    std::vector<PortId> found;
    for (std::uint32_t port = 1; port < all->size(); ++port)
        if ((*all)[port].ifindex != 0 && (*all)[port].bridge == number(id)) found.push_back(PortId{port});
    return found;
}

Result<void> PinnedBridges::remove_port_if_present(PortId id) {
    auto port = find_port(id);
    if (!port) return std::move(port.error());
    if (!*port) return ok();
    auto at = port_at(id);
    if (!at) return std::move(at.error());
    auto info = bridge_at((*port)->bridge);
    if (!info) return std::move(info.error());
    const VlanSet affected = vlans_of(**port, ((*info)->flags & XV_BRIDGE_VLANS) != 0);
    // The port says last that it is none: a removal that fails is then done again.
    if (auto synced = sync_groups((*at)->bridge, affected, id); !synced) return synced;
    if (auto gone = targets_.remove_if_present(number(id)); !gone) return gone;
    if (auto gone = forget_port(static_, number(id)); !gone) return gone;
    if (auto gone = forget_port(learned_, number(id)); !gone) return gone;
    if (auto gone = vlans_.remove_if_present(number(id)); !gone) return gone;
    (*at)->vlan = 0;
    (*at)->flags &= ~port_flags;
    (*at)->bridge = 0;
    return ok();
}

// -- FDB

Result<void> PinnedBridges::forget_port(Fdb& fdb, std::uint32_t port, const VlanSet& vlans) {
    auto entries = fdb.entries();
    if (!entries) return std::move(entries.error());
    for (const auto& [key, entry] : *entries) {
        if (static_cast<std::uint32_t>(entry.owner) != port || !vlans.test(key.vlan)) continue;
        if (auto removed = fdb.remove_if_present(key); !removed) return removed;
    }
    return ok();
}

Result<void> PinnedBridges::put_static(PortId id, std::uint16_t vlan, const Mac& mac) {
    auto at = port_at(id);
    if (!at) return std::move(at.error());
    if ((*at)->bridge == 0) return failure(EINVAL, "port " + std::to_string(number(id)) + " is no bridge port");
    const auto key = key_of(**at, vlan, mac);
    auto known = static_.find(key);
    if (!known) return std::move(known.error());
    if (*known) {
        const auto owner = static_cast<std::uint32_t>((*known)->owner);
        auto other = port_at(PortId{owner});
        const bool lives = other && (*other)->ifindex != 0 && (*other)->bridge == (*at)->bridge &&
                           (*other)->epoch == (*known)->owner >> 32;
        if (lives && owner != number(id))
            return failure(EEXIST,
                           "MAC " + mac.to_string() + " is at port " + std::to_string(owner) + " of this bridge");
    }
    return static_.put(key, {.owner = xv_fdb_owner(number(id), (*at)->epoch), .seen_ns = 0});
}

Result<void> PinnedBridges::remove_static_if_of(PortId id, std::uint16_t vlan, const Mac& mac) {
    auto at = port_at(id);
    if (!at) return std::move(at.error());
    const auto key = key_of(**at, vlan, mac);
    auto known = static_.find(key);
    if (!known) return std::move(known.error());
    if (!*known || static_cast<std::uint32_t>((*known)->owner) != number(id)) return ok();
    return static_.remove_if_present(key);
}

Result<void> PinnedBridges::collect(Fdb& fdb, BridgeId id, std::uint64_t ageing_ns, std::vector<FdbEntry>& found) {
    auto entries = fdb.entries();
    if (!entries) return std::move(entries.error());
    const std::uint64_t now = coarse_now();
    for (const auto& [key, entry] : *entries) {
        if (key.bridge != number(id)) continue;
        auto port = port_at(PortId{static_cast<std::uint32_t>(entry.owner)});
        if (!port || (*port)->epoch != entry.owner >> 32 || (*port)->bridge != key.bridge) continue;
        FdbEntry known{.mac = {}, .vlan = key.vlan, .port = PortId{static_cast<std::uint32_t>(entry.owner)}, .age = {}};
        std::ranges::copy(key.mac, known.mac.bytes.begin());
        if (entry.seen_ns != 0) {
            const std::uint64_t silent = now > entry.seen_ns ? now - entry.seen_ns : 0;
            if (silent >= ageing_ns) continue;
            known.age = std::chrono::seconds(silent / second);
        }
        found.push_back(known);
    }
    return ok();
}

Result<std::vector<FdbEntry>> PinnedBridges::list_fdb(BridgeId id) {
    auto info = bridge_at(id);
    if (!info) return std::move(info.error());
    std::vector<FdbEntry> found;
    for (Fdb* fdb : {&static_, &learned_})
        if (auto read = collect(*fdb, id, (*info)->ageing_ns, found); !read) return std::move(read.error());
    std::ranges::sort(found, {}, [](const FdbEntry& entry) { return std::pair{entry.vlan, entry.mac}; });
    return found;
}

Result<void> PinnedBridges::flush_learned(PortId id) { return forget_port(learned_, number(id)); }

}  // namespace

std::unique_ptr<Bridges> open_pinned_bridges(std::uint64_t cookie, const std::string& bpffs) {
    return std::make_unique<PinnedBridges>(cookie, bpffs);
}

}  // namespace xveth::bpf
