// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/bridge_groups.hpp"

#include <bpf/bpf.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

namespace xveth::bpf {
namespace {

constexpr std::uint32_t smallest_flood = 16;  // ports; a map that grows too small is replaced

Error failure(const char* what) { return errno_error(errno, what).with_code(102); }

Result<UniqueFd> create_flood(std::size_t ports) {
    const auto size = std::bit_ceil(std::max(static_cast<std::uint32_t>(ports), smallest_flood));
    UniqueFd map{bpf_map_create(BPF_MAP_TYPE_DEVMAP_HASH, "xv_flood", sizeof(std::uint32_t), sizeof(DevmapValue), size,
                                nullptr)};
    if (!map.valid()) return failure("create a map of a bridge's ports");
    return map;
}

Result<std::uint32_t> size_of(int map) {
    struct bpf_map_info info{};
    std::uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(map, &info, &size) != 0) return failure("ask about a map of a bridge's ports");
    return info.max_entries;
}

Result<void> put(int map, std::uint32_t port, const DevmapValue& value) {
    if (bpf_map_update_elem(map, &port, &value, BPF_ANY) != 0) return failure("enter a port for broadcasts");
    return ok();
}

// A device that is gone has left the map by itself.
std::vector<std::uint32_t> keys_of(int map) {
    std::vector<std::uint32_t> keys;
    std::uint32_t key = 0;
    for (const std::uint32_t* previous = nullptr; bpf_map_get_next_key(map, previous, &key) == 0;
         previous = &keys.back())
        keys.push_back(key);
    return keys;
}

bool leads_to(int map, std::uint32_t port, std::uint32_t ifindex) {
    DevmapValue value;
    return bpf_map_lookup_elem(map, &port, &value) == 0 && value.ifindex == ifindex;
}

template <class Targets>
Result<void> fill(int map, const Targets& targets, std::uint32_t program) {
    for (const std::uint32_t key : keys_of(map)) {
        const bool stays = std::ranges::any_of(targets, [&](const auto& target) { return target.first == key; });
        if (!stays && bpf_map_delete_elem(map, &key) != 0 && errno != ENOENT) return failure("remove a bridge's port");
    }
    for (const auto& [port, ifindex] : targets) {
        if (leads_to(map, port, ifindex)) continue;
        if (auto entered = put(map, port, {.ifindex = ifindex, .program = program}); !entered) return entered;
    }
    return ok();
}

}  // namespace

Result<std::uint32_t> BridgeGroups::free_place() {
    auto groups = groups_.entries();
    if (!groups) return std::move(groups.error());
    std::vector<bool> used(XV_MAX_FLOODS);
    for (const auto& [key, group] : *groups) used[group.all % XV_MAX_FLOODS] = used[group.open % XV_MAX_FLOODS] = true;
    for (const std::uint32_t place : taken_) used[place] = true;
    used[0] = true;  // nobody's
    const auto free = std::ranges::find(used, false);
    if (free == used.end())
        return Error{
            .code = 102, .errno_value = ENOSPC, .text = "the node has too many VLANs on its bridges", .hint = {}};
    taken_.push_back(static_cast<std::uint32_t>(free - used.begin()));
    return taken_.back();
}

Result<void> BridgeGroups::clear_place(std::uint32_t place) {
    if (place == 0) return ok();
    std::erase(taken_, place);
    return floods_.remove_if_present(place);
}

Result<void> BridgeGroups::sync_flood(std::uint32_t& place, const Targets& targets, std::uint32_t program) {
    UniqueFd map;
    if (place != 0) {
        auto id = floods_.find(place);
        if (!id) return std::move(id.error());
        if (*id) map = UniqueFd{bpf_map_get_fd_by_id(**id)};
    }
    if (map.valid()) {
        auto size = size_of(map.get());
        if (!size) return std::move(size.error());
        if (*size >= targets.size()) return fill(map.get(), targets, program);
    }
    auto larger = create_flood(targets.size());
    if (!larger) return std::move(larger.error());
    if (auto filled = fill(larger->get(), targets, program); !filled) return filled;
    if (place == 0) {
        auto free = free_place();
        if (!free) return std::move(free.error());
        place = *free;
    }
    return floods_.put(place, static_cast<std::uint32_t>(larger->get()));
}

Result<void> BridgeGroups::remove(const xv_group_key& key) {
    auto group = groups_.find(key);
    if (!group) return std::move(group.error());
    if (!*group) return ok();
    if (auto gone = groups_.remove_if_present(key); !gone) return gone;
    if (auto cleared = clear_place((*group)->all); !cleared) return cleared;
    return clear_place((*group)->open);
}

Result<void> BridgeGroups::sync(const xv_group_key& key, const std::vector<GroupMember>& members, bool untags) {
    if (members.empty()) return remove(key);
    auto known = groups_.find(key);
    if (!known) return std::move(known.error());
    xv_group group = known->value_or(xv_group{});
    const std::uint32_t flags_before = std::exchange(group.flags, 0);
    Targets all, open;
    bool isolation = false;
    for (const auto& member : members) {
        if (!member.reachable) group.flags |= XV_GROUP_STACK;
        if (member.tagged) group.flags |= XV_GROUP_TAGGED;
        isolation = isolation || member.isolated;
        if (!member.reachable) continue;
        all.emplace_back(member.port, member.ifindex);
        if (!member.isolated) open.emplace_back(member.port, member.ifindex);
    }
    // What a newcomer needs comes before it does, or it got frames without their tag for a moment; who is no target any
    // more has the kernel's bridge before it is left out.
    if (*known && (group.flags | flags_before) != flags_before) {
        xv_group announced = **known;
        announced.flags |= group.flags;
        if (auto put = groups_.put(key, announced); !put) return put;
    }
    UniqueFd untag;
    if (untags) {
        auto program = open_pin(untag_path_);
        if (!program) return std::move(program.error()).with_code(102);
        untag = std::move(*program);
    }
    const std::uint32_t program = untags ? static_cast<std::uint32_t>(untag.get()) : 0;
    if (auto synced = sync_flood(group.all, all, program); !synced) return synced;
    if (isolation) {
        if (auto synced = sync_flood(group.open, open, program); !synced) return synced;
    }
    if (auto put = groups_.put(key, group); !put) return put;
    if (isolation || group.open == 0) return ok();
    const std::uint32_t unused = std::exchange(group.open, 0);
    if (auto put = groups_.put(key, group); !put) return put;
    return clear_place(unused);
}

}  // namespace xveth::bpf
