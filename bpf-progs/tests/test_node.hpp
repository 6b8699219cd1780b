// SPDX-License-Identifier: Apache-2.0
// A node of its own for each test, made of network namespaces and a bpffs that nobody else sees:
//
//   wire (w) eth0 ═══ nic0 │ node │ a0 ═══ eth0 (a)   10.1.0.2, fd01::2
//   192.0.2.9, 2001:db8::9 │      │ b0 ═══ eth0 (b)   10.1.0.3, fd01::3
//                192.0.2.1, 2001:db8::1
//
// The programs are attached, but frames are handed to them by BPF_PROG_TEST_RUN: what a program answers and what it makes
// of the bytes is seen exactly, and a redirect is not carried out.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/netns.hpp"
#include "bpf-progs/loader/objects.hpp"
#include "bpf-progs/tests/packet.hpp"

namespace xveth::bpf::testing {

inline constexpr int xdp_drop = 1;
inline constexpr int xdp_pass = 2;
inline constexpr int xdp_redirect = 4;

inline constexpr const char* bpffs = "/run/xveth-test-bpf";

struct Outcome {
    int action = -1;
    Bytes frame;
};

// Runs a shell command in the calling thread's namespaces; the test fails when it does.
void run_command(const std::string& command);
[[nodiscard]] std::string output_of(const std::string& command);

struct TestPort {
    PortId id = PortId::none;
    std::uint32_t ifindex = 0;
    Mac mac;       // the container's, or the NIC's
    Mac host_mac;  // the host end's, or the NIC's
};

class TestNode : public ::testing::Test {
protected:
    void SetUp() override;
    void TearDown() override;
    // Which variant of the programs the test is about.
    [[nodiscard]] virtual bool with_conntrack() const { return true; }

    // -- frames
    Outcome run(Program program, std::uint32_t ifindex, const Bytes& frame);
    Outcome from_wire(const Packet& packet) { return run(Program::nic, nic_.ifindex, packet.build()); }
    Outcome from_a(const Packet& packet) { return run(Program::host, a_.ifindex, packet.build()); }
    Outcome from_b(const Packet& packet) { return run(Program::host, b_.ifindex, packet.build()); }
    // wire -> A, A -> wire, A -> B, B -> A as they should look on the wire that they come from.
    [[nodiscard]] Packet wire_to_a(Family family = Family::ipv4) const;
    [[nodiscard]] Packet a_to_wire(Family family = Family::ipv4) const;
    [[nodiscard]] Packet a_to_b(Family family = Family::ipv4) const;
    [[nodiscard]] Packet b_to_a(Family family = Family::ipv4) const;

    // -- expectations. Passed: unmodified, and counted once under `reason` since the last such call for the port.
    void expect_passed(const Outcome& outcome, const Bytes& sent, const TestPort& port, xv_reason reason);
    void expect_counted(const TestPort& port, xv_reason reason);
    void expect_redirected(const Outcome& outcome, const Bytes& sent, const Mac& dst, const Mac& src);
    [[nodiscard]] std::uint64_t reason_count(const TestPort& port, xv_reason reason);
    [[nodiscard]] std::optional<xv_flow> flow_of(const Packet& packet);
    void store_flow(const Packet& packet, const xv_flow& flow);
    // Sends a frame for real: out of container A's eth0.
    void send_from_a(const Packet& packet);

    // -- changes
    void change_port(const TestPort& port, std::uint32_t clear_flags, std::uint32_t set_flags);
    void set_mtu(const TestPort& port, std::uint32_t mtu);
    void forget_cache() { ASSERT_TRUE(objects_->bump_generation()); }
    [[nodiscard]] std::string map_path(const std::string& name) const { return pins_ + "/maps/" + name; }

    std::unique_ptr<Objects> objects_;
    TestPort a_, b_, nic_;
    Mac remote_mac_;
    std::string pins_;

private:
    [[nodiscard]] TestPort add_container(const std::string& name, const std::vector<IpAddress>& addresses);
    void add_wire();
    [[nodiscard]] TestPort add_port(const std::string& device, std::uint32_t flags, const Mac& inner, const Mac& outer,
                                    Program program);
    [[nodiscard]] Packet packet(const TestPort& from, const Mac& dst_mac, const char* src, const char* dst) const;

    std::map<std::uint32_t, std::map<std::uint32_t, std::uint64_t>> seen_;  // ifindex -> reasons already expected
    std::optional<NetnsScope> scope_;
};

[[nodiscard]] IpAddress ip(const std::string& text);
[[nodiscard]] Mac mac(const std::string& text);

}  // namespace xveth::bpf::testing
