// SPDX-License-Identifier: Apache-2.0
// `Bridges` that remember, beside a FakeObjects whose ports they share. What it proves: which bridges, ports and static
// entries exist after a sequence of calls. What it cannot: who gets which frame; the programs' tests do that on the kernel.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "bpf-progs/loader/bridges.hpp"
#include "bpf-progs/loader/fake_objects.hpp"

namespace xveth::bpf {

class FakeBridges final : public Bridges {
public:
    // `cookie`: of the node's namespace, where redirect targets are.
    FakeBridges(FakeObjects& objects, FaultInjector& faults, std::uint64_t cookie)
        : objects_(objects), faults_(faults), cookie_(cookie) {}

    // -- the test's side
    [[nodiscard]] std::string to_string() const;
    std::vector<FdbEntry> learned;  // what list_fdb() shows besides the static entries

    // -- Bridges
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
    struct Place {
        BridgeId bridge = BridgeId::none;
        std::uint16_t vlan = 0;
        Mac mac;
        auto operator<=>(const Place&) const = default;
    };
    Result<void> step(const char* name);
    [[nodiscard]] bool has_ports(BridgeId id) const;

    FakeObjects& objects_;
    FaultInjector& faults_;
    std::uint64_t cookie_;
    bool loaded_ = false;
    std::map<BridgeId, Bridge> bridges_;
    std::map<PortId, BridgePort> ports_;
    std::map<Place, PortId> static_;
};

}  // namespace xveth::bpf
