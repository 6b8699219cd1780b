// SPDX-License-Identifier: Apache-2.0
#include "attachment/tests/fake_node.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "base/files.hpp"

namespace xveth::attachment {
namespace {

// Namespaces are made within one of the process's own: without root that takes a user namespace first.
class Unshared final : public testing::Environment {
public:
    void SetUp() override {
        const int user = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
        ASSERT_EQ(::unshare(user | CLONE_NEWNET), 0) << "the tests need network namespaces";
    }
};

const testing::Environment* const unshared = testing::AddGlobalTestEnvironment(new Unshared);

// A test cannot go on without these.
template <class T>
T take(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().text);
    return std::move(*result);
}

std::string key_text(const Request& request) { return request.container_id + "/" + request.ifname; }

}  // namespace

// -- kernel parameters

Result<std::string> FakeSysctls::read(const Netns& ns, const std::string& name) {
    if (auto counted = faults_.step("read " + name); !counted) return std::move(counted.error());
    if (!has_ipv6 && name.starts_with("net/ipv6/")) return errno_error(ENOENT, name);
    const auto found = values.find({ns.cookie().value(), name});
    if (found != values.end()) return found->second;
    return std::string(name.ends_with("/accept_ra") ? "1" : "0");
}

Result<void> FakeSysctls::ensure(const Netns& ns, const std::string& name, std::string_view value) {
    if (auto counted = faults_.step("ensure " + name); !counted) return counted;
    if (!has_ipv6 && name.starts_with("net/ipv6/")) return errno_error(ENOENT, name);
    values[{ns.cookie().value(), name}] = value;
    return ok();
}

// -- IPAM

std::uint8_t FakePool::lease(const std::string& who) {
    if (next_host) return leases[who] = *std::exchange(next_host, std::nullopt);
    std::uint8_t host = 2;
    const auto taken = [&](std::uint8_t candidate) {
        return std::ranges::any_of(leases, [&](const auto& entry) { return entry.second == candidate; });
    };
    while (taken(host)) ++host;
    return leases[who] = host;
}

Result<CniResult> FakePool::add(const NetConf&, const Request& request) {
    auto counted = faults.step("ipam add");
    if (!counted && fails_after_leasing) lease(key_text(request));
    if (!counted) return std::move(counted.error()).with_code(11);
    const std::string host = std::to_string(lease(key_text(request)));
    CniResult result;
    result.ips.push_back(
        {.address = *IpPrefix::parse("10.1.0." + host + "/24"), .gateway = ip("10.1.0.1"), .interface = {}});
    if (dual_stack)
        result.ips.push_back({.address = *IpPrefix::parse("fd00:1::" + host + "/64"), .gateway = {}, .interface = {}});
    result.routes = routes;
    return result;
}

Result<void> FakePool::del(const NetConf&, const Request& request) {
    if (auto counted = faults.step("ipam del"); !counted) return std::move(counted.error()).with_code(103);
    leases.erase(key_text(request));
    return ok();
}

Result<void> FakePool::check(const NetConf&, const Request& request) {
    if (auto counted = faults.step("ipam check"); !counted) return std::move(counted.error()).with_code(103);
    if (leases.contains(key_text(request))) return ok();
    return Error{.code = 103, .errno_value = 0, .text = "no lease of " + key_text(request), .hint = {}};
}

Result<void> FakePool::gc(const NetConf& conf, const Request&) {
    if (auto counted = faults.step("ipam gc"); !counted) return std::move(counted.error()).with_code(103);
    std::erase_if(leases, [&](const auto& entry) {
        return std::ranges::none_of(*conf.valid_attachments,
                                    [&](const auto& valid) { return entry.first == valid.first + "/" + valid.second; });
    });
    return ok();
}

Result<void> FakePool::status(const NetConf&, const Request&) {
    if (auto counted = faults.step("ipam status"); !counted) return std::move(counted.error()).with_code(50);
    return ok();
}

// -- the store

Result<void> FaultyStore::step(const char* name) {
    if (auto counted = faults_.step(name); !counted) return std::move(counted.error()).with_code(104);
    return ok();
}

Result<void> FaultyStore::put(const AttachmentRecord& record) {
    if (auto counted = step("store put"); !counted) return counted;
    return StateStore::put(record);
}

Result<std::optional<AttachmentRecord>> FaultyStore::find(const AttachmentKey& key) {
    if (auto counted = step("store find"); !counted) return std::move(counted.error());
    return StateStore::find(key);
}

Result<void> FaultyStore::remove_if_present(const AttachmentKey& key) {
    if (auto counted = step("store remove"); !counted) return counted;
    return StateStore::remove_if_present(key);
}

Result<std::vector<AttachmentRecord>> FaultyStore::list(const std::string& network) {
    if (auto counted = step("store list"); !counted) return std::move(counted.error());
    return StateStore::list(network);
}

Result<std::vector<AttachmentRecord>> FaultyStore::list_all() {
    if (auto counted = step("store list all"); !counted) return std::move(counted.error());
    return StateStore::list_all();
}

// -- the node

ScratchDirectory::ScratchDirectory() {
    std::string name = "/tmp/xveth-verbs-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
}

ScratchDirectory::~ScratchDirectory() { std::filesystem::remove_all(path_); }

FakeNode::FakeNode()
    : ns(take(Netns::current())), container(take(Netns::create())), second_container(take(Netns::create())) {
    world.add_nic(ns, "eth0", ip("192.0.2.1"));
    programs.files = {{"limit.o", {.traits = {.name = "xdp_limit", .frags = true}, .maps = {"limits", "seen"}}},
                      {"plain.o", {.traits = {.name = "xdp_plain", .frags = false}, .maps = {}}}};
    world.of(container);
    world.of(second_container);
    world.on_device_gone([this](std::uint64_t cookie, std::uint32_t ifindex) { objects.device_gone(cookie, ifindex); });
    objects.on_program([this](std::uint64_t cookie, std::uint32_t ifindex, const auto& program) {
        using netlink::XdpMode;
        const auto mode = !program ? XdpMode::none : program->mode == "native" ? XdpMode::native : XdpMode::generic;
        world.set_program(cookie, ifindex, mode, program ? program->id : 0);
    });
}

Result<CniResult> FakeNode::add(const NetConf& conf, const Request& request) {
    notes.clear();
    return attachment::add(node, conf, request, notes);
}

Result<void> FakeNode::del(const NetConf& conf, const Request& request) {
    notes.clear();
    return attachment::del(node, conf, request, notes);
}

Result<void> FakeNode::check(const NetConf& conf, const Request& request) {
    return attachment::check(node, conf, request);
}

Result<void> FakeNode::gc(const NetConf& conf) {
    notes.clear();
    return attachment::gc(node, conf, Request{}, notes);
}

Result<void> FakeNode::status(const NetConf& conf) { return attachment::status(node, conf, Request{}); }

Request FakeNode::request(const std::string& id, const std::string& ifname) const {
    return {.container_id = id,
            .netns_path = "/proc/self/fd/" + std::to_string(container.fd()),
            .ifname = ifname,
            .args = {},
            .plugin_path = {}};
}

Request FakeNode::request_of_second(const std::string& id, const std::string& ifname) const {
    Request request = this->request(id, ifname);
    request.netns_path = "/proc/self/fd/" + std::to_string(second_container.fd());
    return request;
}

CniResult FakeNode::attach_by_another_plugin(const std::string& ifname) {
    world.add_veth_pair(ns, "veth12ab", container, ifname);
    netlink::Address address;
    address.prefix = *IpPrefix::parse("10.1.0.7/24");
    inner(ifname).addresses.push_back(address);
    CniInterface host;
    host.name = "veth12ab";
    CniInterface sandbox;
    sandbox.name = ifname;
    sandbox.sandbox = request().netns_path;
    CniResult result;
    result.interfaces = {host, sandbox};
    result.ips.push_back({.address = address.prefix, .gateway = ip("10.1.0.1"), .interface = 1});
    return result;
}

std::string FakeNode::snapshot() const {
    std::ostringstream out;
    out << world.snapshot() << objects.to_string() << bridges.to_string() << programs.to_string();
    for (const auto& [who, host] : pool.leases) out << "lease " << who << ": " << int{host} << "\n";
    std::map<std::string, std::string> records;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.path()))
        if (entry.is_regular_file() && entry.path().parent_path().filename() != "locks")
            records[entry.path().string()] = read_file(entry.path().string()).value();
    for (const auto& [path_of_record, content] : records) out << "record " << path_of_record << ": " << content;
    return out.str();
}

std::vector<std::string> FakeNode::lock_files() const {
    std::vector<std::string> names;
    const std::string locks = directory.path() + "/locks";
    if (!std::filesystem::exists(locks)) return names;
    for (const auto& entry : std::filesystem::directory_iterator(locks)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
}

netlink::FakeDevice& FakeNode::host_end(const std::string& id) {
    const AttachmentKey key{.network = "net", .container_id = id, .ifname = "eth0"};
    return device(ns, "xv" + key.hash());
}

void FakeNode::remove_device(const Netns& where, const std::string& name) {
    world.remove_device(where.cookie().value(), device(where, name).link.index);
}

// -- configurations

NetConf conf_with(const std::string& keys, const std::string& ipam) {
    std::string json = R"({"cniVersion": "1.1.0", "name": "net", "type": "xveth")";
    if (!ipam.empty()) json += R"(, "ipam": )" + ipam;
    if (!keys.empty()) json += ", " + keys;
    auto conf = parse_net_conf(json + "}", "", "eth0");
    if (!conf) throw std::runtime_error(conf.error().text);
    return std::move(*conf);
}

NetConf with_result(NetConf conf, const CniResult& result) {
    conf.prev_result = result;
    return conf;
}

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }

}  // namespace xveth::attachment
