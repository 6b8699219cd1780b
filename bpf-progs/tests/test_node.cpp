// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/tests/test_node.hpp"

#include <bpf/bpf.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "base/mounts.hpp"
#include "bpf-progs/loader/bpffs.hpp"
#include "bpf-progs/loader/load.hpp"
#include "bpf-progs/loader/map.hpp"

namespace xveth::bpf::testing {
namespace {

// Named namespaces and the bpffs live below a /run of our own: nothing to clean up, and copies of a test do not meet.
class PrivateRun : public ::testing::Environment {
    void SetUp() override {
        ASSERT_TRUE(enter_private_mounts());
        run_command("mount -t tmpfs tmpfs /run");
    }
};

const auto* const private_run = ::testing::AddGlobalTestEnvironment(new PrivateRun);

void copy(const Mac& from, std::uint8_t (&to)[6]) { std::copy(from.bytes.begin(), from.bytes.end(), std::begin(to)); }

// As lib/flow.bpf.h orders them: by 64-bit words in the machine's byte order.
xv_flow_key key_of(const Packet& packet) {
    xv_addr src{};
    xv_addr dst{};
    std::memcpy(src.bytes, packet.src.mapped().data(), 16);
    std::memcpy(dst.bytes, packet.dst.mapped().data(), 16);
    const auto sport = static_cast<std::uint16_t>(packet.sport >> 8U | packet.sport << 8U);
    const auto dport = static_cast<std::uint16_t>(packet.dport >> 8U | packet.dport << 8U);
    const bool src_is_hi = std::tie(src.words[0], src.words[1], sport) > std::tie(dst.words[0], dst.words[1], dport);
    xv_flow_key key{};
    key.lo = src_is_hi ? dst : src;
    key.hi = src_is_hi ? src : dst;
    key.lo_port = src_is_hi ? dport : sport;
    key.hi_port = src_is_hi ? sport : dport;
    key.proto = packet.proto;
    return key;
}

}  // namespace

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }
Mac mac(const std::string& text) { return Mac::parse(text).value(); }

void run_command(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

std::string output_of(const std::string& command) {
    std::string text;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
    if (pipe != nullptr) ::pclose(pipe);
    return text;
}

void TestNode::SetUp() {
    for (const char* name : {"node", "a", "b", "w"}) run_command(std::string("ip netns add ") + name);
    auto ns = Netns::open("/run/netns/node");
    ASSERT_TRUE(ns);
    auto scope = NetnsScope::enter(*ns);
    ASSERT_TRUE(scope);
    scope_.emplace(std::move(*scope));
    // The other ends keep silent: no router solicitations, no multicast listener reports.
    for (const char* name : {"a", "b", "w"})
        run_command(std::string("nsenter --net=/run/netns/") + name +
                    " sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    run_command("ip link set lo up; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    const auto cookie = ns->cookie().value();
    pins_ = PinPaths(cookie, bpffs).node();
    auto published = load_and_publish(PinPaths(cookie, bpffs), with_conntrack());
    ASSERT_TRUE(published) << published.error().text;
    objects_ = open_pinned_objects(cookie, bpffs);
    auto loaded = objects_->ensure_loaded();
    ASSERT_TRUE(loaded) << loaded.error().text;
    a_ = add_container("a", {ip("10.1.0.2"), ip("fd01::2")});
    b_ = add_container("b", {ip("10.1.0.3"), ip("fd01::3")});
    add_wire();
}

void TestNode::TearDown() {
    objects_.reset();
    scope_.reset();
    remove_pins(bpffs + std::string("/xveth"));
    for (const char* name : {"node", "a", "b", "w"}) run_command(std::string("ip netns del ") + name);
}

TestPort TestNode::add_port(const std::string& device, std::uint32_t flags, const Mac& inner, const Mac& outer,
                            Program program) {
    TestPort port{.id = PortId::none, .ifindex = ::if_nametoindex(device.c_str()), .mac = inner, .host_mac = outer};
    xv_port entry{};
    entry.ifindex = port.ifindex;
    entry.flags = flags | XV_PORT_FAST | XV_PORT_TARGET;
    entry.mtu = 1500;
    copy(inner, entry.mac);
    copy(outer, entry.host_mac);
    auto attached = objects_->attach(Netns::current().value(), port.ifindex, program, device);
    EXPECT_TRUE(attached) << attached.error().text;
    port.id = objects_->allocate_port(entry).value();
    EXPECT_TRUE(objects_->put_target(port.id, port.ifindex));
    return port;
}

TestPort TestNode::add_container(const std::string& name, const std::vector<IpAddress>& addresses) {
    const std::string inside = "nsenter --net=/run/netns/" + name + " ";
    const std::string inner = "02:00:00:00:01:0" + name;
    const std::string outer = "02:00:00:00:02:0" + name;
    run_command("ip link add " + name + "0 address " + outer + " type veth peer name eth0 netns " + name + " address " +
                inner);
    run_command(inside + "ip link set eth0 up && ip link set " + name + "0 up");
    const auto port = add_port(name + "0", XV_PORT_SPOOFCHECK, mac(inner), mac(outer), Program::host);
    for (const auto& address : addresses) {
        const auto text = address.to_string();
        run_command("ip route add " + text + " dev " + name + "0 && ip neigh add " + text + " dev " + name +
                    "0 lladdr " + inner);
        EXPECT_TRUE(objects_->put_endpoint(address, port.id));
    }
    return port;
}

void TestNode::add_wire() {
    const std::string nic = "02:00:00:00:03:01";
    remote_mac_ = mac("02:00:00:00:03:09");
    run_command("ip link add nic0 address " + nic + " type veth peer name eth0 netns w address " +
                remote_mac_.to_string());
    run_command("nsenter --net=/run/netns/w ip link set eth0 up && ip link set nic0 up");
    run_command("ip addr add 192.0.2.1/24 dev nic0 && ip addr add 2001:db8::1/64 dev nic0 nodad");
    for (const char* remote : {"192.0.2.9", "2001:db8::9"})
        run_command(std::string("ip neigh add ") + remote + " dev nic0 lladdr " + remote_mac_.to_string());
    nic_ = add_port("nic0", XV_PORT_NIC, mac(nic), mac(nic), Program::nic);
}

// -- frames

Outcome TestNode::run(Program program, std::uint32_t ifindex, const Bytes& frame) {
    const char* name = program == Program::nic        ? "xv_nic"
                       : program == Program::host     ? "xv_host"
                       : program == Program::bridge   ? "xv_bridge"
                       : program == Program::function ? "xv_function"
                                                      : "xv_pod";
    auto fd = open_pin(pins_ + "/programs/" + name);
    EXPECT_TRUE(fd) << fd.error().text;
    struct xdp_md context{};
    context.data_end = static_cast<std::uint32_t>(frame.size());
    context.ingress_ifindex = ifindex;
    Outcome outcome{.action = -1, .frame = Bytes(frame.size() + 256)};
    LIBBPF_OPTS(bpf_test_run_opts, options);
    options.data_in = frame.data();
    options.data_size_in = static_cast<std::uint32_t>(frame.size());
    options.data_out = outcome.frame.data();
    options.data_size_out = static_cast<std::uint32_t>(outcome.frame.size());
    options.ctx_in = &context;
    options.ctx_size_in = sizeof(context);
    const int err = bpf_prog_test_run_opts(fd->get(), &options);
    EXPECT_EQ(err, 0) << "test run of " << frame.size() << " bytes on " << ifindex;
    outcome.action = err == 0 ? static_cast<int>(options.retval) : -1;
    outcome.frame.resize(options.data_size_out);
    return outcome;
}

void TestNode::send_from_a(const Packet& packet) {
    const auto frame = packet.build();
    const auto inside = NetnsScope::enter(Netns::open("/run/netns/a").value());
    ASSERT_TRUE(inside) << inside.error().text;
    const UniqueFd socket{::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)};
    sockaddr_ll eth0{};
    eth0.sll_family = AF_PACKET;
    eth0.sll_ifindex = static_cast<int>(::if_nametoindex("eth0"));
    ASSERT_EQ(
        ::sendto(socket.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&eth0), sizeof(eth0)),
        static_cast<ssize_t>(frame.size()));
}

Packet TestNode::packet(const TestPort& from, const Mac& dst_mac, const char* src, const char* dst) const {
    Packet packet;
    packet.dst_mac = dst_mac;
    packet.src_mac = from.mac;
    packet.src = ip(src);
    packet.dst = ip(dst);
    return packet;
}

Packet TestNode::wire_to_a(Family family) const {
    Packet p = family == Family::ipv4 ? packet(nic_, nic_.mac, "192.0.2.9", "10.1.0.2")
                                      : packet(nic_, nic_.mac, "2001:db8::9", "fd01::2");
    p.src_mac = remote_mac_;
    return p;
}

Packet TestNode::a_to_wire(Family family) const {
    Packet p = wire_to_a(family).reply();
    p.src_mac = a_.mac;
    p.dst_mac = a_.host_mac;
    return p;
}

Packet TestNode::a_to_b(Family family) const {
    return family == Family::ipv4 ? packet(a_, a_.host_mac, "10.1.0.2", "10.1.0.3")
                                  : packet(a_, a_.host_mac, "fd01::2", "fd01::3");
}

Packet TestNode::b_to_a(Family family) const {
    Packet p = a_to_b(family).reply();
    p.src_mac = b_.mac;
    p.dst_mac = b_.host_mac;
    return p;
}

// -- expectations

std::uint64_t TestNode::reason_count(const TestPort& port, xv_reason reason) {
    return objects_->stats(port.id).value().reasons[reason];
}

void TestNode::expect_passed(const Outcome& outcome, const Bytes& sent, const TestPort& port, xv_reason reason) {
    EXPECT_EQ(outcome.action, xdp_pass);
    EXPECT_EQ(outcome.frame, sent) << "a passed frame must be as it came\n" << hex(sent) << "\n" << hex(outcome.frame);
    expect_counted(port, reason);
}

void TestNode::expect_counted(const TestPort& port, xv_reason reason) {
    auto counted = objects_->stats(port.id).value().reasons;
    for (auto& [seen, frames] : seen_[port.ifindex]) counted[seen] -= frames;
    std::erase_if(counted, [](const auto& entry) { return entry.second == 0; });
    std::string names;
    for (const auto& [seen, frames] : counted) names += reason_name(seen) + "=" + std::to_string(frames) + " ";
    EXPECT_EQ(names, reason_name(reason) + "=1 ");
    seen_[port.ifindex] = objects_->stats(port.id).value().reasons;
}

void TestNode::expect_redirected(const Outcome& outcome, const Bytes& sent, const Mac& dst, const Mac& src) {
    EXPECT_EQ(outcome.action, xdp_redirect);
    EXPECT_EQ(hex(outcome.frame), hex(forwarded(sent, dst, src)));
}

std::optional<xv_flow> TestNode::flow_of(const Packet& packet) {
    return TypedMap<xv_flow_key, xv_flow>(map_path("xv_flows")).find(key_of(packet)).value();
}

void TestNode::store_flow(const Packet& packet, const xv_flow& flow) {
    ASSERT_TRUE((TypedMap<xv_flow_key, xv_flow>(map_path("xv_flows")).put(key_of(packet), flow)));
}

// -- changes

void TestNode::change_port(const TestPort& port, std::uint32_t clear_flags, std::uint32_t set_flags) {
    auto entry = objects_->get_port(port.id).value();
    entry.flags = (entry.flags & ~clear_flags) | set_flags;
    ASSERT_TRUE(objects_->update_port(port.id, entry));
    forget_cache();
}

void TestNode::set_mtu(const TestPort& port, std::uint32_t mtu) {
    auto entry = objects_->get_port(port.id).value();
    entry.mtu = mtu;
    ASSERT_TRUE(objects_->update_port(port.id, entry));
    forget_cache();
}

}  // namespace xveth::bpf::testing
