// SPDX-License-Identifier: Apache-2.0
#include "netlink/fake/fake_nftables.hpp"

#include <cerrno>

namespace xveth::netlink {

Result<void> FakeNftables::step(const char* name) {
    if (auto counted = world_.step(name); !counted) return counted;
    if (!world_.has_nf_tables) return errno_error(ENOENT, name).with_code(100);
    return ok();
}

Result<std::vector<NftChain>> FakeNftables::ruleset() {
    if (auto counted = step("ruleset"); !counted) return std::move(counted.error());
    return world_.ruleset;
}

Result<void> FakeNftables::ensure_masquerade(const IpAddress& source, const IpPrefix& local) {
    if (auto counted = step("ensure_masquerade"); !counted) return counted;
    world_.masquerades[source] = local;
    return ok();
}

Result<bool> FakeNftables::has_masquerade(const IpAddress& source) {
    if (auto counted = step("has_masquerade"); !counted) return std::move(counted.error());
    return world_.masquerades.contains(source);
}

Result<void> FakeNftables::remove_masquerade_if_present(const IpAddress& source) {
    if (auto counted = world_.step("remove_masquerade_if_present"); !counted) return counted;
    world_.masquerades.erase(source);
    return ok();
}

Result<void> FakeNftables::load_conntrack() {
    if (auto counted = step("load_conntrack"); !counted) return counted;
    world_.conntrack_loaded = true;
    return ok();
}

}  // namespace xveth::netlink
