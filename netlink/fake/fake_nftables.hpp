// SPDX-License-Identifier: Apache-2.0
// Nftables over a World; each call counts on the world's fault injector.
#pragma once

#include <vector>

#include "netlink/fake/world.hpp"
#include "netlink/nftables.hpp"

namespace xveth::netlink {

class FakeNftables : public Nftables {
public:
    explicit FakeNftables(World& world) : world_(world) {}

    Result<std::uint32_t> generation() override;
    Result<std::vector<NftChain>> chains() override;
    Result<std::vector<NftRule>> rules(const NftChain& chain) override;
    Result<void> ensure_masquerade(const IpAddress& source, const IpPrefix& local) override;
    Result<bool> has_masquerade(const IpAddress& source) override;
    Result<void> remove_masquerade_if_present(const IpAddress& source) override;
    Result<void> load_conntrack() override;

private:
    // Counts the call; EPROTONOSUPPORT where the kernel has no nf_tables.
    Result<void> step(const char* name);

    World& world_;
};

}  // namespace xveth::netlink
