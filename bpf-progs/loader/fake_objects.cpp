// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/fake_objects.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>

namespace xveth::bpf {
namespace {

constexpr std::uint32_t first_program_id = 101;

const char* name_of(Program program) {
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

std::uint32_t id_of(Program program) { return first_program_id + static_cast<std::uint32_t>(program); }

std::string mac_text(const std::uint8_t (&mac)[6]) {
    Mac value;
    std::copy(std::begin(mac), std::end(mac), value.bytes.begin());
    return value.to_string();
}

std::ostream& operator<<(std::ostream& out, PortId id) { return out << static_cast<std::uint32_t>(id); }

}  // namespace

std::string FakeObjects::to_string() const {
    std::ostringstream out;
    for (const auto& [device, program] : foreign_)
        out << "foreign program " << program.name << " on " << device.first << "/" << device.second << "\n";
    for (const auto& [pin, link] : links_)
        out << "link " << pin << ": " << link.program.name << " on " << link.device.first << "/" << link.device.second
            << "\n";
    for (const auto& [id, port] : ports_)
        out << "port " << id << ": ifindex " << port.ifindex << " flags " << port.flags << " mtu " << port.mtu
            << " mac " << mac_text(port.mac) << " host mac " << mac_text(port.host_mac) << " chain " << port.chain
            << " position " << port.position << "\n";
    for (const auto& [id, device] : targets_) out << "target " << id << ": ifindex " << device.second << "\n";
    for (const auto& [address, id] : endpoints_) out << "endpoint " << address.to_string() << ": port " << id << "\n";
    for (const auto& [id, prefix] : sources_) out << "source " << prefix.to_string() << " of port " << id << "\n";
    for (const auto& [id, prefix] : fast_to_) out << "fast to " << prefix.to_string() << " for port " << id << "\n";
    for (const auto& [id, chain] : chains_) {
        out << "chain " << static_cast<std::uint16_t>(id) << ": " << std::data(chain.name) << "\n";
        for (const auto& slot : chain.slots)
            if (slot.state != XV_SLOT_FREE)
                out << "  position " << slot.position << ": port " << slot.port << " state " << int{slot.state}
                    << " on failure " << int{slot.on_failure} << "\n";
    }
    return out.str();
}

void FakeObjects::put_foreign_program(const Netns& ns, std::uint32_t ifindex, AttachedProgram program) {
    auto device = device_of(ns, ifindex);
    if (!device) return;
    tell(*device, program);
    foreign_[*device] = std::move(program);
}

void FakeObjects::tell(const Device& device, const std::optional<AttachedProgram>& program) const {
    if (on_program_ && device.second != 0) on_program_(device.first, device.second, program);
}

void FakeObjects::device_gone(const Netns& ns, std::uint32_t ifindex) {
    if (auto device = device_of(ns, ifindex)) device_gone(device->first, ifindex);
}

void FakeObjects::device_gone(std::uint64_t cookie, std::uint32_t ifindex) {
    const Device device{cookie, ifindex};
    foreign_.erase(device);
    for (auto& [pin, link] : links_)
        if (link.device == device) link.device.second = 0;
    std::erase_if(targets_, [&](const auto& target) { return target.second == device; });
}

void FakeObjects::set_target(PortId id, std::optional<std::uint64_t> cookie) {
    targets_.erase(id);
    if (cookie) targets_[id] = {*cookie, ports_.at(id).ifindex};
}

Result<void> FakeObjects::step(const char* name, int code, bool needs_load) {
    if (auto counted = faults_.step(name); !counted) return std::move(counted.error()).with_code(code);
    if (needs_load && !loaded_)
        return errno_error(ENOENT, std::string(name) + " before the objects are loaded").with_code(code);
    return ok();
}

Result<FakeObjects::Device> FakeObjects::device_of(const Netns& ns, std::uint32_t ifindex) {
    auto cookie = ns.cookie();
    if (!cookie) return std::move(cookie.error());
    return Device{*cookie, ifindex};
}

// -- the shared objects

Result<void> FakeObjects::ensure_loaded() {
    if (auto counted = step("ensure_loaded", 106, false); !counted) return counted;
    loaded_ = true;
    return ok();
}

Result<bool> FakeObjects::open_if_loaded() {
    if (auto counted = step("open_if_loaded", 102, false); !counted) return std::move(counted.error());
    return loaded_;
}

Result<std::uint32_t> FakeObjects::program_id(Program program) {
    if (auto counted = step("program_id", 101); !counted) return std::move(counted.error());
    return id_of(program);
}

// -- links

std::optional<AttachedProgram> FakeObjects::owner_of(const Device& device) const {
    if (const auto found = foreign_.find(device); found != foreign_.end()) return found->second;
    for (const auto& [pin, link] : links_)
        if (link.device == device && device.second != 0 && link.program.name != "xv_egress") return link.program;
    return std::nullopt;
}

Result<void> FakeObjects::attach(const Netns& ns, std::uint32_t ifindex, Program program, const std::string& pin) {
    if (auto counted = step("attach", 101); !counted) return counted;
    return attach_program(ns, ifindex, {.id = id_of(program), .name = name_of(program), .mode = "native"}, pin);
}

Result<void> FakeObjects::attach_program(const Netns& ns, std::uint32_t ifindex, const AttachedProgram& program,
                                         const std::string& pin) {
    auto device = device_of(ns, ifindex);
    if (!device) return std::move(device.error());
    if (const auto owner = owner_of(*device))
        return Error{.code = 101,
                     .errno_value = EBUSY,
                     .text = "device " + std::to_string(ifindex) + " already carries XDP program " + owner->name +
                             " (id " + std::to_string(owner->id) + ", " + owner->mode + ")",
                     .hint = {}};
    const auto pinned = links_.find(pin);
    if (pinned != links_.end() && pinned->second.device.second != 0)
        return errno_error(EEXIST, "pin link " + pin).with_code(101);
    links_[pin] = {.device = *device, .program = program};
    tell(*device, owner_of(*device));
    return ok();
}

std::optional<AttachedProgram> FakeObjects::program_at(const std::string& pin) const {
    const auto found = links_.find(pin);
    if (found == links_.end() || found->second.device.second == 0) return std::nullopt;
    return found->second.program;
}

Result<std::optional<LinkInfo>> FakeObjects::find_link(const std::string& pin) {
    if (auto counted = step("find_link", 101, false); !counted) return std::move(counted.error());
    const auto found = links_.find(pin);
    if (found == links_.end()) return std::optional<LinkInfo>{};
    return std::optional{LinkInfo{.ifindex = found->second.device.second, .program_id = found->second.program.id}};
}

Result<void> FakeObjects::remove_link_if_present(const std::string& pin) {
    if (auto counted = step("remove_link_if_present", 101, false); !counted) return counted;
    if (const auto found = links_.find(pin); found != links_.end()) {
        const Device device = found->second.device;
        links_.erase(found);
        tell(device, owner_of(device));
    }
    return ok();
}

Result<std::vector<std::string>> FakeObjects::list_links() {
    if (auto counted = step("list_links", 101, false); !counted) return std::move(counted.error());
    std::vector<std::string> pins;
    for (const auto& [pin, link] : links_) pins.push_back(pin);
    return pins;
}

Result<std::optional<AttachedProgram>> FakeObjects::attached_program(const Netns& ns, std::uint32_t ifindex) {
    if (auto counted = step("attached_program", 101, false); !counted) return std::move(counted.error());
    auto device = device_of(ns, ifindex);
    if (!device) return std::move(device.error());
    return owner_of(*device);
}

Result<bool> FakeObjects::has_tcx_programs(const Netns& ns, std::uint32_t ifindex) {
    if (auto counted = step("has_tcx_programs", 101, false); !counted) return std::move(counted.error());
    auto device = device_of(ns, ifindex);
    if (!device) return std::move(device.error());
    return tcx_.contains(*device);
}

// -- ports

Result<PortId> FakeObjects::allocate_port(const xv_port& port) {
    if (auto counted = step("allocate_port", 102); !counted) return std::move(counted.error());
    while (ports_.contains(PortId{next_port_})) ++next_port_;
    const PortId id{next_port_++};
    ports_[id] = port;
    ports_[id].epoch = next_epoch_++;
    return id;
}

Result<xv_port*> FakeObjects::port_at(PortId id) {
    const auto found = ports_.find(id);
    if (found == ports_.end())
        return errno_error(EINVAL, "no port id " + std::to_string(static_cast<std::uint32_t>(id))).with_code(102);
    return &found->second;
}

Result<void> FakeObjects::update_port(PortId id, const xv_port& port) {
    if (auto counted = step("update_port", 102); !counted) return counted;
    auto at = port_at(id);
    if (!at) return std::move(at.error());
    const auto epoch = (*at)->epoch;
    **at = port;
    (*at)->epoch = epoch;
    return ok();
}

Result<xv_port> FakeObjects::get_port(PortId id) {
    if (auto counted = step("get_port", 102); !counted) return std::move(counted.error());
    const auto found = ports_.find(id);
    return found == ports_.end() ? xv_port{} : found->second;
}

Result<std::optional<PortId>> FakeObjects::find_port(std::uint32_t ifindex) {
    if (auto counted = step("find_port", 102); !counted) return std::move(counted.error());
    const auto found = std::ranges::find_if(ports_, [&](const auto& entry) { return entry.second.ifindex == ifindex; });
    if (found == ports_.end()) return std::optional<PortId>{};
    return std::optional{found->first};
}

Result<std::vector<std::pair<PortId, xv_port>>> FakeObjects::list_ports() {
    if (auto counted = step("list_ports", 102); !counted) return std::move(counted.error());
    return std::vector<std::pair<PortId, xv_port>>{ports_.begin(), ports_.end()};
}

Result<void> FakeObjects::free_port(PortId id) {
    if (auto counted = step("free_port", 102); !counted) return counted;
    const auto of_port = [&](const auto& entry) { return entry.first == id; };
    targets_.erase(id);
    std::erase_if(sources_, of_port);
    std::erase_if(fast_to_, of_port);
    stats_.erase(id);
    ports_.erase(id);
    return ok();
}

// -- redirect targets

Result<void> FakeObjects::put_target(PortId id, std::uint32_t ifindex) {
    if (auto counted = step("put_target", 102); !counted) return counted;
    if (ifindex == 0) return errno_error(EINVAL, "make device 0 a redirect target").with_code(102);
    auto here = Netns::current();
    if (!here) return std::move(here.error());
    auto device = device_of(*here, ifindex);
    if (!device) return std::move(device.error());
    targets_[id] = *device;
    return ok();
}

Result<std::optional<std::uint32_t>> FakeObjects::find_target(PortId id) {
    if (auto counted = step("find_target", 102); !counted) return std::move(counted.error());
    const auto found = targets_.find(id);
    return found == targets_.end() ? std::optional<std::uint32_t>{} : std::optional{found->second.second};
}

Result<void> FakeObjects::remove_target_if_present(PortId id) {
    if (auto counted = step("remove_target_if_present", 102); !counted) return counted;
    targets_.erase(id);
    return ok();
}

// -- addresses

Result<void> FakeObjects::put_endpoint(const IpAddress& address, PortId id) {
    if (auto counted = step("put_endpoint", 102); !counted) return counted;
    endpoints_[address] = id;
    return ok();
}

Result<std::optional<PortId>> FakeObjects::find_endpoint(const IpAddress& address) {
    if (auto counted = step("find_endpoint", 102); !counted) return std::move(counted.error());
    const auto found = endpoints_.find(address);
    return found == endpoints_.end() ? std::optional<PortId>{} : std::optional{found->second};
}

Result<std::vector<std::pair<IpAddress, PortId>>> FakeObjects::list_endpoints() {
    if (auto counted = step("list_endpoints", 102); !counted) return std::move(counted.error());
    return std::vector<std::pair<IpAddress, PortId>>{endpoints_.begin(), endpoints_.end()};
}

Result<void> FakeObjects::remove_endpoint_if_of(const IpAddress& address, PortId id) {
    if (auto counted = step("remove_endpoint_if_of", 102); !counted) return counted;
    if (const auto found = endpoints_.find(address); found != endpoints_.end() && found->second == id)
        endpoints_.erase(found);
    return ok();
}

std::vector<IpPrefix> FakeObjects::prefixes_of(const Prefixes& prefixes, PortId id) {
    std::vector<IpPrefix> found;
    for (const auto& [port, prefix] : prefixes)
        if (port == id) found.push_back(prefix);
    return found;
}

Result<void> FakeObjects::put_source(PortId id, const IpPrefix& prefix) {
    if (auto counted = step("put_source", 102); !counted) return counted;
    sources_.emplace(id, prefix.network());
    return ok();
}

Result<void> FakeObjects::put_fast_to(PortId id, const IpPrefix& prefix) {
    if (auto counted = step("put_fast_to", 102); !counted) return counted;
    fast_to_.emplace(id, prefix.network());
    return ok();
}

// -- chains

Result<std::vector<std::pair<ChainId, xv_chain>>> FakeObjects::list_chains() {
    if (auto counted = step("list_chains", 102); !counted) return std::move(counted.error());
    return std::vector<std::pair<ChainId, xv_chain>>{chains_.begin(), chains_.end()};
}

Result<ChainId> FakeObjects::allocate_chain(const std::string& name) {
    if (auto counted = step("allocate_chain", 102); !counted) return std::move(counted.error());
    auto number = static_cast<std::uint16_t>(chains_.size() + 1);
    while (chains_.contains(ChainId{number})) ++number;
    const ChainId id{number};
    name.copy(std::data(chains_[id].name), XV_CHAIN_NAME - 1);
    return id;
}

Result<xv_chain*> FakeObjects::chain_at(ChainId id) {
    const auto found = chains_.find(id);
    if (found == chains_.end()) return errno_error(EINVAL, "no such chain").with_code(102);
    return &found->second;
}

Result<void> FakeObjects::put_chain_slot(ChainId id, std::uint32_t index, const xv_chain_slot& slot) {
    if (auto counted = step("put_chain_slot", 102); !counted) return counted;
    auto chain = chain_at(id);
    if (!chain) return std::move(chain.error());
    if (index >= XV_CHAIN_SLOTS) return errno_error(EINVAL, "no such slot").with_code(102);
    (*chain)->slots[index] = slot;
    ++generation_;
    return ok();
}

Result<void> FakeObjects::free_chain(ChainId id) {
    if (auto counted = step("free_chain", 102); !counted) return counted;
    chains_.erase(id);
    ++generation_;
    return ok();
}

Result<HopStats> FakeObjects::hop_stats(ChainId, std::uint32_t) {
    if (auto counted = step("hop_stats", 102); !counted) return std::move(counted.error());
    return HopStats{};
}

Result<void> FakeObjects::attach_egress(const Netns& ns, std::uint32_t ifindex, const std::string& pin) {
    if (auto counted = step("attach_egress", 101); !counted) return counted;
    auto device = device_of(ns, ifindex);
    if (!device) return std::move(device.error());
    links_[pin] = {.device = *device, .program = {.id = id_of(Program::egress), .name = "xv_egress", .mode = "tc"}};
    return ok();
}

Result<void> FakeObjects::bump_generation() {
    if (auto counted = step("bump_generation", 102); !counted) return counted;
    ++generation_;
    return ok();
}

Result<PortStats> FakeObjects::stats(PortId id) {
    if (auto counted = step("stats", 102); !counted) return std::move(counted.error());
    const auto found = stats_.find(id);
    return found == stats_.end() ? PortStats{} : found->second;
}

}  // namespace xveth::bpf
