// SPDX-License-Identifier: Apache-2.0
#include "netlink/fake/fake_nftables.hpp"

#include <cerrno>

namespace xveth::netlink {

Result<void> FakeNftables::step(const char* name) {
    if (auto counted = world_.step(name); !counted) return counted;
    if (!world_.has_nf_tables) return errno_error(EPROTONOSUPPORT, name).with_code(100);
    return ok();
}

Result<std::uint32_t> FakeNftables::generation() {
    if (auto counted = step("generation"); !counted) return std::move(counted.error());
    return 1;
}

Result<std::vector<NftChain>> FakeNftables::chains() {
    if (auto counted = step("chains"); !counted) return std::move(counted.error());
    auto chains = world_.ruleset;
    for (auto& chain : chains) chain.rules.clear();
    return chains;
}

Result<std::vector<NftRule>> FakeNftables::rules(const NftChain& chain) {
    if (auto counted = step("rules"); !counted) return std::move(counted.error());
    for (const auto& there : world_.ruleset)
        if (there.family == chain.family && there.table == chain.table && there.name == chain.name) return there.rules;
    return std::vector<NftRule>{};
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
