// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/fake_bridges.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>

namespace xveth::bpf {
namespace {

std::uint32_t number(PortId id) { return static_cast<std::uint32_t>(id); }

}  // namespace

std::string FakeBridges::to_string() const {
    std::ostringstream out;
    for (const auto& [id, bridge] : bridges_)
        out << "bridge " << static_cast<std::uint16_t>(id) << " of " << bridge.network
            << (bridge.vlans ? " with VLANs\n" : "\n");
    for (const auto& [id, port] : ports_)
        out << "bridge port " << number(id) << ": bridge " << static_cast<std::uint16_t>(port.bridge) << " vlan "
            << port.vlan << " tagged " << port.tagged.count() << (port.isolated ? " isolated" : "")
            << (port.target ? " target\n" : "\n");
    for (const auto& [place, id] : static_)
        out << "fdb " << place.mac.to_string() << " vlan " << place.vlan << ": port " << number(id) << "\n";
    return out.str();
}

Result<void> FakeBridges::step(const char* name) {
    if (auto counted = faults_.step(name); !counted) return std::move(counted.error()).with_code(102);
    return ok();
}

bool FakeBridges::has_ports(BridgeId id) const {
    return std::ranges::any_of(ports_, [&](const auto& entry) { return entry.second.bridge == id; });
}

Result<void> FakeBridges::ensure_loaded() {
    if (auto counted = step("ensure_bridge_loaded"); !counted) return counted;
    loaded_ = true;
    return ok();
}

Result<bool> FakeBridges::open_if_loaded() {
    if (auto counted = step("open_bridge_if_loaded"); !counted) return std::move(counted.error());
    return loaded_;
}

Result<BridgeId> FakeBridges::put_bridge(const Bridge& bridge) {
    if (auto counted = step("put_bridge"); !counted) return std::move(counted.error());
    std::uint16_t free = 1;
    for (auto& [id, known] : bridges_) {
        if (known.network == bridge.network) {
            if (known.vlans != bridge.vlans && has_ports(id)) return errno_error(EBUSY, "put_bridge").with_code(102);
            known = bridge;
            return id;
        }
        if (static_cast<std::uint16_t>(id) == free) ++free;
    }
    bridges_[BridgeId{free}] = bridge;
    return BridgeId{free};
}

Result<std::optional<BridgeId>> FakeBridges::find_bridge(const std::string& network) {
    if (auto counted = step("find_bridge"); !counted) return std::move(counted.error());
    const auto found =
        std::ranges::find_if(bridges_, [&](const auto& entry) { return entry.second.network == network; });
    return found == bridges_.end() ? std::optional<BridgeId>{} : found->first;
}

Result<std::vector<std::pair<BridgeId, Bridge>>> FakeBridges::list_bridges() {
    if (auto counted = step("list_bridges"); !counted) return std::move(counted.error());
    return std::vector<std::pair<BridgeId, Bridge>>(bridges_.begin(), bridges_.end());
}

Result<void> FakeBridges::free_bridge(BridgeId id) {
    if (auto counted = step("free_bridge"); !counted) return counted;
    if (has_ports(id)) return errno_error(EBUSY, "free_bridge").with_code(102);
    bridges_.erase(id);
    return ok();
}

Result<void> FakeBridges::put_port(PortId id, const BridgePort& port) {
    if (auto counted = step("put_bridge_port"); !counted) return counted;
    xv_port* entry = objects_.port(id);
    if (entry == nullptr || !bridges_.contains(port.bridge)) return errno_error(EINVAL, "put_port").with_code(102);
    entry->bridge = static_cast<std::uint16_t>(port.bridge);
    entry->vlan = port.vlan;
    ports_[id] = port;
    objects_.set_target(id, port.target ? std::optional{cookie_} : std::nullopt);
    return ok();
}

Result<std::optional<BridgePort>> FakeBridges::find_port(PortId id) {
    if (auto counted = step("find_bridge_port"); !counted) return std::move(counted.error());
    const auto found = ports_.find(id);
    return found == ports_.end() ? std::optional<BridgePort>{} : found->second;
}

Result<std::vector<PortId>> FakeBridges::list_ports(BridgeId id) {
    if (auto counted = step("list_bridge_ports"); !counted) return std::move(counted.error());
    std::vector<PortId> found;
    for (const auto& [port, entry] : ports_)
        if (entry.bridge == id) found.push_back(port);
    return found;
}

Result<void> FakeBridges::remove_port_if_present(PortId id) {
    if (auto counted = step("remove_bridge_port"); !counted) return counted;
    std::erase_if(static_, [&](const auto& entry) { return entry.second == id; });
    if (ports_.erase(id) == 0) return ok();
    if (xv_port* entry = objects_.port(id)) {
        entry->bridge = 0;
        entry->vlan = 0;
        objects_.set_target(id, std::nullopt);
    }
    return ok();
}

Result<void> FakeBridges::put_static(PortId id, std::uint16_t vlan, const Mac& mac) {
    if (auto counted = step("put_static"); !counted) return counted;
    const auto port = ports_.find(id);
    if (port == ports_.end()) return errno_error(EINVAL, "put_static").with_code(102);
    const auto [at, fresh] = static_.try_emplace({.bridge = port->second.bridge, .vlan = vlan, .mac = mac}, id);
    if (!fresh && at->second != id) return errno_error(EEXIST, "put_static").with_code(102);
    return ok();
}

Result<void> FakeBridges::remove_static_if_of(PortId id, std::uint16_t vlan, const Mac& mac) {
    if (auto counted = step("remove_static"); !counted) return counted;
    std::erase_if(static_, [&](const auto& entry) {
        return entry.second == id && entry.first.vlan == vlan && entry.first.mac == mac;
    });
    return ok();
}

Result<std::vector<FdbEntry>> FakeBridges::list_fdb(BridgeId id) {
    if (auto counted = step("list_fdb"); !counted) return std::move(counted.error());
    std::vector<FdbEntry> found;
    for (const auto& [place, port] : static_)
        if (place.bridge == id) found.push_back({.mac = place.mac, .vlan = place.vlan, .port = port, .age = {}});
    found.insert(found.end(), learned.begin(), learned.end());
    return found;
}

Result<void> FakeBridges::flush_learned(PortId id) {
    if (auto counted = step("flush_learned"); !counted) return counted;
    std::erase_if(learned, [&](const FdbEntry& entry) { return entry.port == id; });
    return ok();
}

}  // namespace xveth::bpf
