// SPDX-License-Identifier: Apache-2.0
// A node and a container of fakes that remember, for the tests of the verbs. One injector counts every call that a verb
// makes of the kernel and of the store; the IPAM pool, which a verb asks beside its own work, has an injector of its own,
// so that both counts are the same in each run.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attachment/ipam.hpp"
#include "attachment/state_store.hpp"
#include "attachment/verbs.hpp"
#include "base/fault.hpp"
#include "base/netns.hpp"
#include "base/sysctl.hpp"
#include "bpf-progs/loader/fake_bridges.hpp"
#include "bpf-progs/loader/fake_objects.hpp"
#include "bpf-progs/loader/fake_programs.hpp"
#include "netlink/fake/fake_nftables.hpp"
#include "netlink/fake/fake_rtnl.hpp"
#include "netlink/fake/world.hpp"

namespace xveth::attachment {

// Kernel parameters that remember; what was never written reads "0", accept_ra "1".
class FakeSysctls final : public Sysctls {
public:
    explicit FakeSysctls(FaultInjector& faults) : faults_(faults) {}
    Result<std::string> read(const Netns& ns, const std::string& name) override;
    Result<void> ensure(const Netns& ns, const std::string& name, std::string_view value) override;

    bool has_ipv6 = true;
    std::map<std::pair<std::uint64_t, std::string>, std::string> values;

private:
    FaultInjector& faults_;
};

// An IPAM plugin with a pool of 10.1.0.0/24, and of fd00:1::/64 where `dual_stack`.
class FakePool final : public Ipam {
public:
    Result<CniResult> add(const NetConf& conf, const Request& request) override;
    Result<void> del(const NetConf& conf, const Request& request) override;
    Result<void> check(const NetConf& conf, const Request& request) override;
    Result<void> gc(const NetConf& conf, const Request& request) override;
    Result<void> status(const NetConf& conf, const Request& request) override;

    FaultInjector faults;
    bool dual_stack = false;
    bool fails_after_leasing = false;       // an injected failure of add() keeps the lease that was made
    std::optional<std::uint8_t> next_host;  // the address that the next lease gets, taken or not
    std::vector<CniRoute> routes;
    std::map<std::string, std::uint8_t> leases;  // "container/ifname": last byte

private:
    std::uint8_t lease(const std::string& who);
};

// The store, on disk, with failures.
class FaultyStore final : public StateStore {
public:
    FaultyStore(std::string directory, FaultInjector& faults) : StateStore(std::move(directory)), faults_(faults) {}
    Result<void> put(const AttachmentRecord& record) override;
    Result<std::optional<AttachmentRecord>> find(const AttachmentKey& key) override;
    Result<void> remove_if_present(const AttachmentKey& key) override;
    Result<std::vector<AttachmentRecord>> list(const std::string& network) override;
    Result<std::vector<AttachmentRecord>> list_all() override;

private:
    Result<void> step(const char* name);
    FaultInjector& faults_;
};

// A directory that goes with its owner.
class ScratchDirectory {
public:
    ScratchDirectory();
    ~ScratchDirectory();
    ScratchDirectory(const ScratchDirectory&) = delete;
    ScratchDirectory& operator=(const ScratchDirectory&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

// The node: this process's namespace, with NIC eth0 and a default route by 192.0.2.1. Two containers, each in its own.
class FakeNode {
public:
    FakeNode();

    Result<CniResult> add(const NetConf& conf, const Request& request);
    Result<void> del(const NetConf& conf, const Request& request);
    Result<void> check(const NetConf& conf, const Request& request);
    Result<void> gc(const NetConf& conf);
    Result<void> status(const NetConf& conf);

    // A request for the container `id`, whose namespace is the container's.
    [[nodiscard]] Request request(const std::string& id = "pod1", const std::string& ifname = "eth0") const;
    [[nodiscard]] Request request_of_second(const std::string& id, const std::string& ifname = "eth0") const;
    // What an ADD of another plugin leaves: the pair veth12ab and `ifname`, 10.1.0.7/24 in the container; its result.
    CniResult attach_by_another_plugin(const std::string& ifname = "eth0");
    // Everything that is there but locks: devices, programs, maps, leases, records.
    [[nodiscard]] std::string snapshot() const;
    [[nodiscard]] std::vector<std::string> lock_files() const;
    netlink::FakeDevice& nic() { return device(ns, "eth0"); }
    netlink::FakeDevice& host_end(const std::string& id = "pod1");
    netlink::FakeDevice& inner(const std::string& ifname = "eth0") { return device(container, ifname); }
    netlink::FakeDevice& device(const Netns& where, const std::string& name) { return world.device(where, name); }
    void remove_device(const Netns& where, const std::string& name);

    ScratchDirectory directory;
    Netns ns;
    Netns container;
    Netns second_container;
    FaultInjector faults;
    netlink::World world{faults};
    netlink::FakeKernel kernel{world};
    netlink::FakeRtnl rtnl{world, ns};
    netlink::FakeNftables nft{world};
    bpf::FakeObjects objects{faults};
    bpf::FakeBridges bridges{objects, faults, ns.cookie().value()};
    bpf::FakePrograms programs{objects, faults};
    FakeSysctls sysctls{faults};
    FaultyStore store{directory.path(), faults};
    FakePool pool;
    datapath::Node path{.ns = ns,
                        .kernel = kernel,
                        .rtnl = rtnl,
                        .nft = nft,
                        .bpf = objects,
                        .bridges = bridges,
                        .programs = programs,
                        .sysctls = sysctls,
                        .lock_path = store.node_lock_path(),
                        .lock_patience = std::chrono::seconds(1)};
    Node node{.path = path, .store = store, .ipam = pool, .lock_patience = std::chrono::seconds(1)};
    Notes notes;  // of the last verb
};

// A configuration of network "net" with these further keys (`"ipMasq": true`).
[[nodiscard]] NetConf conf_with(const std::string& keys, const std::string& ipam = R"({"type": "host-local",
    "subnet": "10.1.0.0/24"})");
// The same behind another plugin, or for CHECK: with the result so far.
[[nodiscard]] NetConf with_result(NetConf conf, const CniResult& result);

[[nodiscard]] IpAddress ip(const std::string& text);

}  // namespace xveth::attachment
