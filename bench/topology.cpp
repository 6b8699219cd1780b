// SPDX-License-Identifier: Apache-2.0
#include "bench/topology.hpp"

#include <net/if.h>
#include <sys/mount.h>

#include <cerrno>

#include "base/files.hpp"
#include "base/mounts.hpp"
#include "base/sysctl.hpp"
#include "bench/host_tools.hpp"

namespace xveth::bench {
namespace {

constexpr auto conntrack_rule =
    "table inet filter { chain forward { type filter hook forward priority 0; ct state invalid drop; }; }";

std::string netns_path(const std::string& name) { return "/run/netns/" + name; }

Result<void> mount_over(const char* type, const char* where) {
    if (::mount(type, where, type, 0, nullptr) != 0)
        return errno_error(errno, std::string("mount ") + type + " on " + where);
    return ok();
}

Result<Netns> create_netns(const std::string& name) {
    auto here = Netns::current();
    if (!here) return std::move(here.error());
    if (auto made = run_tool(*here, "ip netns add " + name); !made) return std::move(made.error());
    auto ns = Netns::open(netns_path(name));
    if (!ns) return std::move(ns.error());
    if (auto up = run_tool(*ns, "ip link set lo up"); !up) return std::move(up.error());
    return ns;
}

Result<void> remove_netns(const std::string& name) {
    auto here = Netns::current();
    if (!here) return std::move(here.error());
    if (auto gone = run_tool(*here, "ip netns del " + name); !gone) return std::move(gone.error());
    return ok();
}

Result<void> set_addresses(const Netns& ns, const std::string& device, const std::string& address,
                           const std::string& neighbour, const std::string& neighbour_mac, const std::string& route) {
    const std::string dev = " dev " + device;
    return run_ip_batch(ns, "link set " + device + " up\naddr add " + address + "/24" + dev + "\nneigh replace " +
                                neighbour + " lladdr " + neighbour_mac + " nud permanent" + dev + "\n" + route);
}

}  // namespace

Result<void> arm(const Netns& ns, const std::string& device) {
    auto done = run_tool(ns, "ethtool -K " + device + " gro on tx off");
    if (!done) return std::move(done.error());
    return ok();
}

Result<void> enter_sandbox() {
    if (auto entered = enter_private_mounts(); !entered) return entered;
    for (const auto* dir : {"/run", "/var/log"})
        if (auto mounted = mount_over("tmpfs", dir); !mounted) return mounted;
    if (auto mounted = mount_over("bpf", "/sys/fs/bpf"); !mounted) return mounted;
    return make_directories("/run/netns", 0755);
}

Lab::Lab(const Settings& settings, std::string name, NetworkChoice choice, Netns node, Netns client)
    : name_(std::move(name)),
      settings_(settings),
      choice_(std::move(choice)),
      node_(std::move(node)),
      client_(std::move(client)) {}

CniNetwork Lab::network(Addresses addresses, const nlohmann::json& keys) const {
    NetworkChoice choice = choice_;
    choice.keys.update(keys);
    return {settings_, choice, addresses, "/run/xvbench/" + name_ + (addresses == Addresses::crowd ? "-crowd" : "")};
}

Result<std::unique_ptr<Lab>> Lab::create(const Settings& settings, const std::string& name, LabOptions options) {
    auto node = create_netns(name + "-node");
    if (!node) return std::move(node.error());
    auto client = create_netns(name + "-client");
    if (!client) return std::move(client.error());
    if (options.network.nic.empty()) options.network.nic = nic_device;
    std::unique_ptr<Lab> lab(new Lab(settings, name, options.network, std::move(*node), std::move(*client)));
    if (auto laid = lab->lay_wire(); !laid) return std::move(laid.error()).in("lab " + name);
    if (options.conntrack)
        if (auto ruled = run_tool(lab->node_, "nft -f -", conntrack_rule); !ruled) return std::move(ruled.error());
    return lab;
}

Result<void> Lab::lay_wire() {
    const std::string spec = std::string("link add ") + nic_device + " address " + nic_mac +
                             " numtxqueues 2 numrxqueues 2 type veth peer name " + wire_device + " address " +
                             client_mac + " numtxqueues 2 numrxqueues 2 netns " + name_ + "-client\n";
    if (auto made = run_ip_batch(node_, spec); !made) return made;
    if (auto armed = arm(node_, nic_device); !armed) return armed;
    if (auto armed = arm(client_, wire_device); !armed) return armed;
    if (auto set = set_addresses(node_, nic_device, "10.90.0.1", client_address, client_mac, ""); !set) return set;
    return set_addresses(client_, wire_device, client_address, "10.90.0.1", nic_mac,
                         "route add 10.91.0.0/16 via 10.90.0.1\n");
}

Result<Container*> Lab::add_container(const nlohmann::json& keys) { return add_to(network(Addresses::measured, keys)); }

Result<Container*> Lab::add_to(const CniNetwork& network) {
    const std::string id = name_ + "-c" + std::to_string(next_id_++);
    auto ns = create_netns(id);
    if (!ns) return std::move(ns.error());
    auto inside = NetnsScope::enter(node_);
    if (!inside) return std::move(inside.error());
    auto added = network.run("ADD", id, netns_path(id));
    if (!added) return std::move(added.error()).in("lab " + name_);
    containers_.push_back({.id = id,
                           .netns_path = netns_path(id),
                           .ns = std::move(*ns),
                           .address = added->address,
                           .host_end = added->host_end,
                           .mac = Mac::parse(added->mac).value_or(Mac{})});
    return &containers_.back();
}

Result<void> Lab::crowd(unsigned count) {
    const auto crowd = network(Addresses::crowd, nlohmann::json::object());
    for (unsigned i = 0; i < count; ++i)
        if (auto added = add_to(crowd); !added) return std::move(added.error());
    return ok();
}

Result<Lab::Cycle> Lab::cycle_container() {
    const std::string id = name_ + "-c" + std::to_string(next_id_++);
    if (auto ns = create_netns(id); !ns) return std::move(ns.error());
    Cycle cycle;
    {
        const auto network = this->network(Addresses::measured, nlohmann::json::object());
        auto inside = NetnsScope::enter(node_);
        if (!inside) return std::move(inside.error());
        auto added = network.run("ADD", id, netns_path(id));
        if (!added) return std::move(added.error());
        auto deleted = network.run("DEL", id, netns_path(id));
        if (!deleted) return std::move(deleted.error());
        cycle = {.add = std::move(*added), .del = std::move(*deleted)};
    }
    if (auto gone = remove_netns(id); !gone) return std::move(gone.error());
    return cycle;
}

Result<unsigned> ifindex_of(const Netns& ns, const std::string& device) {
    auto inside = NetnsScope::enter(ns);
    if (!inside) return std::move(inside.error());
    const unsigned index = ::if_nametoindex(device.c_str());
    if (index == 0) return errno_error(errno, "find device " + device);
    return index;
}

}  // namespace xveth::bench
