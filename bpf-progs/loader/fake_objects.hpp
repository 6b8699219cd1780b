// SPDX-License-Identifier: Apache-2.0
// An `Objects` that remembers, for tests of decisions and faults. What it proves: which objects exist after a sequence
// of calls, and that a failed sequence leaves those of before. What it cannot prove: that programs verify, that a driver
// takes them, what happens to frames; the tests beside the programs do that on the kernel.
//
// It knows these facts of the kernel: one XDP owner per device (EBUSY), a redirect target needs a device (ENODEV for 0),
// ifindexes are those of a namespace, ids are not given twice while in use, a device's end empties its link and target.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/fault.hpp"
#include "bpf-progs/loader/objects.hpp"

namespace xveth::bpf {

class FakeObjects final : public Objects {
public:
    FakeObjects() : FakeObjects(own_faults_) {}
    // Counts its calls on an injector that is shared with other fakes.
    explicit FakeObjects(FaultInjector& faults) : faults_(faults) {}

    // -- the test's side
    [[nodiscard]] FaultInjector& faults() { return faults_; }
    // Everything that is there, one thing a line, in a fixed order. Numbers that only ever grow (epochs, generation,
    // program ids) and the loaded state are left out: a failed operation need not take them back.
    [[nodiscard]] std::string to_string() const;
    void set_conntrack(bool has) { conntrack_ = has; }
    // A program of somebody else on a device.
    void put_foreign_program(const Netns& ns, std::uint32_t ifindex, AttachedProgram program);
    void put_tcx_program(const Netns& ns, std::uint32_t ifindex) { tcx_.insert({ns.cookie().value(), ifindex}); }
    // The kernel's side of a device's end: links stay as zombies with ifindex 0, redirect targets go.
    void device_gone(const Netns& ns, std::uint32_t ifindex);
    void device_gone(std::uint64_t cookie, std::uint32_t ifindex);
    // Called when a device gets a program or loses it (nothing), with its namespace's cookie: what a fake of the network
    // wants to know.
    using ProgramHook = std::function<void(std::uint64_t, std::uint32_t, const std::optional<AttachedProgram>&)>;
    void on_program(ProgramHook hook) { on_program_ = std::move(hook); }
    // What the fake of the bridges shares: the port, and whether it is a redirect target.
    [[nodiscard]] xv_port* port(PortId id) { return ports_.contains(id) ? &ports_.at(id) : nullptr; }
    [[nodiscard]] const std::map<PortId, xv_port>& all_ports() const { return ports_; }
    void set_target(PortId id, std::optional<std::uint64_t> cookie);
    void set_stats(PortId id, PortStats stats) { stats_[id] = std::move(stats); }
    [[nodiscard]] std::uint32_t generation() const { return generation_; }
    [[nodiscard]] bool loaded() const { return loaded_; }
    // For the fake of the operator's programs, which share links and devices: without counting a call.
    Result<void> attach_program(const Netns& ns, std::uint32_t ifindex, const AttachedProgram& program,
                                const std::string& pin);
    [[nodiscard]] std::optional<AttachedProgram> program_at(const std::string& pin) const;
    void put_program_at(const std::string& pin, const AttachedProgram& program) { links_.at(pin).program = program; }
    [[nodiscard]] std::vector<IpPrefix> sources_of(PortId id) const { return prefixes_of(sources_, id); }
    [[nodiscard]] std::vector<IpPrefix> fast_to_of(PortId id) const { return prefixes_of(fast_to_, id); }

    // -- Objects
    Result<void> ensure_loaded() override;
    Result<bool> open_if_loaded() override;
    [[nodiscard]] bool has_conntrack() const override { return conntrack_; }
    Result<std::uint32_t> program_id(Program program) override;
    Result<void> attach(const Netns& ns, std::uint32_t ifindex, Program program, const std::string& pin) override;
    Result<std::optional<LinkInfo>> find_link(const std::string& pin) override;
    Result<void> remove_link_if_present(const std::string& pin) override;
    Result<std::vector<std::string>> list_links() override;
    Result<std::optional<AttachedProgram>> attached_program(const Netns& ns, std::uint32_t ifindex) override;
    Result<bool> has_tcx_programs(const Netns& ns, std::uint32_t ifindex) override;
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
    using Device = std::pair<std::uint64_t, std::uint32_t>;  // namespace cookie, ifindex
    using Prefixes = std::set<std::pair<PortId, IpPrefix>>;

    struct Link {
        Device device;
        AttachedProgram program;
    };

    // Counts the call; its failure carries `code` as the kernel's objects do. `needs_load`: ENOENT before ensure_loaded().
    Result<void> step(const char* name, int code, bool needs_load = true);
    static Result<Device> device_of(const Netns& ns, std::uint32_t ifindex);
    Result<xv_chain*> chain_at(ChainId id);
    [[nodiscard]] std::optional<AttachedProgram> owner_of(const Device& device) const;
    [[nodiscard]] static std::vector<IpPrefix> prefixes_of(const Prefixes& prefixes, PortId id);
    Result<xv_port*> port_at(PortId id);

    void tell(const Device& device, const std::optional<AttachedProgram>& program) const;

    FaultInjector own_faults_;
    ProgramHook on_program_;
    FaultInjector& faults_;
    bool loaded_ = false;
    bool conntrack_ = true;
    std::uint32_t generation_ = 0;
    std::uint32_t next_port_ = 1;
    std::uint32_t next_epoch_ = 1;
    std::map<Device, AttachedProgram> foreign_;
    std::set<Device> tcx_;
    std::map<std::string, Link> links_;
    std::map<PortId, xv_port> ports_;
    std::map<PortId, Device> targets_;
    std::map<IpAddress, PortId> endpoints_;
    Prefixes sources_;
    Prefixes fast_to_;
    std::map<PortId, PortStats> stats_;
    std::map<ChainId, xv_chain> chains_;
};

}  // namespace xveth::bpf
