// SPDX-License-Identifier: Apache-2.0
// Who gets the broadcasts of a VLAN of a bridge: xv_groups, and the devmaps in xv_floods. Private to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "bpf-progs/include/bridge_abi.h"
#include "bpf-progs/loader/bpffs.hpp"
#include "bpf-progs/loader/map.hpp"

namespace xveth::bpf {

struct GroupMember {
    std::uint32_t port = 0;
    std::uint32_t ifindex = 0;
    bool reachable = true;  // by redirect, and without passing by anything that has a say
    bool isolated = false;
    bool tagged = false;  // gets this VLAN with its tag
};

class BridgeGroups {
public:
    explicit BridgeGroups(const PinPaths& paths)
        : groups_(paths.map("xv_groups")), floods_(paths.map("xv_floods")), untag_path_(paths.program("xv_untag")) {}

    // Makes the group what `members` say; without any it goes. `untags`: every way out runs xv_untag.
    Result<void> sync(const xv_group_key& key, const std::vector<GroupMember>& members, bool untags);

private:
    using Targets = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // port, ifindex

    Result<void> remove(const xv_group_key& key);
    Result<void> sync_flood(std::uint32_t& place, const Targets& targets, std::uint32_t program);
    Result<void> clear_place(std::uint32_t place);
    Result<std::uint32_t> free_place();

    TypedMap<xv_group_key, xv_group> groups_;
    TypedMap<std::uint32_t, std::uint32_t> floods_;  // written: a descriptor; read: an id
    std::string untag_path_;
    std::vector<std::uint32_t> taken_;  // places given since the groups were last read
};

}  // namespace xveth::bpf
