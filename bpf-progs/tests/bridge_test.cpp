// SPDX-License-Identifier: Apache-2.0
// The bridge's program: who may send, where frames go, what is learned. Containers A and B are bound to their MACs; the
// device nic0 stands for a port behind which MACs are learned.
#include "bpf-progs/loader/bridges.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/netns.hpp"
#include "bpf-progs/tests/test_node.hpp"

namespace xveth::bpf::testing {
namespace {

const Mac broadcast = mac("ff:ff:ff:ff:ff:ff");
const Mac stranger = mac("02:aa:00:00:00:01");

class BridgeTest : public TestNode {
protected:
    void SetUp() override {
        TestNode::SetUp();
        bridges_ = open_pinned_bridges(Netns::current().value().cookie().value(), bpffs);
        for (int twice = 0; twice < 2; ++twice) {
            auto loaded = bridges_->ensure_loaded();
            ASSERT_TRUE(loaded) << loaded.error().text;
        }
        ASSERT_TRUE(bridges_->open_if_loaded().value());
        for (const TestPort* port : {&a_, &b_}) change_port(*port, 0, XV_PORT_FAST | XV_PORT_SPOOFCHECK);
        change_port(nic_, XV_PORT_SPOOFCHECK, XV_PORT_FAST);
    }
    void make_bridge(bool vlans, std::chrono::seconds ageing = std::chrono::seconds(300)) {
        auto id = bridges_->put_bridge({.network = "net", .vlans = vlans, .ageing = ageing});
        ASSERT_TRUE(id) << id.error().text;
        id_ = *id;
    }
    void join(const TestPort& port, BridgePort as, std::vector<std::uint16_t> vlans = {0}) {
        as.bridge = id_;
        auto put = bridges_->put_port(port.id, as);
        ASSERT_TRUE(put) << put.error().text;
        for (const auto vlan : vlans) {
            auto entry = bridges_->put_static(port.id, vlan, port.mac);
            ASSERT_TRUE(entry) << entry.error().text;
        }
    }
    void join_all() {
        make_bridge(false);
        for (const TestPort* port : {&a_, &b_, &nic_}) join(*port, {});
    }
    [[nodiscard]] static Bytes frame(const Mac& from, const Mac& to, std::uint16_t vlan = 0) {
        Packet packet;
        packet.dst_mac = to;
        packet.src_mac = from;
        packet.src = ip("10.1.0.2");
        packet.dst = ip("10.1.0.3");
        packet.vlan = vlan;
        return packet.build();
    }
    Outcome send(const TestPort& in, const Bytes& bytes) { return run(Program::bridge, in.ifindex, bytes); }
    void expect_dropped(const TestPort& in, const Bytes& bytes, xv_reason reason) {
        EXPECT_EQ(send(in, bytes).action, xdp_drop);
        expect_counted(in, reason);
    }
    std::uint64_t delivered() {
        std::uint64_t frames = 0;
        for (const TestPort* port : {&a_, &b_, &nic_}) frames += objects_->stats(port->id).value().to_port.frames;
        return frames;
    }
    // Redirected, to no port in particular.
    void expect_flooded(const TestPort& in, const Bytes& bytes) {
        const auto before = objects_->stats(in.id).value().from_port.frames;
        const auto delivered_before = delivered();
        EXPECT_EQ(send(in, bytes).action, xdp_redirect);
        EXPECT_EQ(delivered(), delivered_before);
        EXPECT_EQ(objects_->stats(in.id).value().from_port.frames, before + 1);
    }
    // Redirected to `out` unchanged.
    void expect_delivered(const TestPort& in, const TestPort& out, const Bytes& bytes) {
        const auto before = objects_->stats(out.id).value().to_port.frames;
        const auto outcome = send(in, bytes);
        EXPECT_EQ(outcome.action, xdp_redirect);
        EXPECT_EQ(hex(outcome.frame), hex(bytes));
        EXPECT_EQ(objects_->stats(out.id).value().to_port.frames, before + 1);
    }
    std::vector<FdbEntry> fdb() { return bridges_->list_fdb(id_).value(); }

    std::unique_ptr<Bridges> bridges_;
    BridgeId id_ = BridgeId::none;
};

TEST_F(BridgeTest, AFrameForAContainerGoesThere) {
    join_all();
    expect_delivered(a_, b_, frame(a_.mac, b_.mac));
    expect_delivered(b_, a_, frame(b_.mac, a_.mac));
    expect_delivered(nic_, a_, frame(stranger, a_.mac));
}

TEST_F(BridgeTest, BroadcastMulticastAndUnknownAreFlooded) {
    join_all();
    expect_flooded(a_, frame(a_.mac, broadcast));
    expect_flooded(a_, frame(a_.mac, mac("33:33:00:00:00:fb")));
    expect_flooded(a_, frame(a_.mac, stranger));
}

TEST_F(BridgeTest, APortThatTakesNoRedirectedFramesMakesTheKernelFlood) {
    join_all();
    join(b_, {.target = false});
    const auto sent = frame(a_.mac, broadcast);
    expect_passed(send(a_, sent), sent, a_, XV_PASS_FLOOD);
    const auto to_b = frame(a_.mac, b_.mac);
    expect_passed(send(a_, to_b), to_b, a_, XV_PASS_NO_TARGET);
    join(b_, {});
    expect_flooded(a_, sent);
}

TEST_F(BridgeTest, AContainerSendsFromItsOwnMacAlone) {
    join_all();
    expect_dropped(a_, frame(b_.mac, broadcast), XV_DROP_SPOOFED);
    expect_dropped(nic_, frame(broadcast, a_.mac), XV_DROP_BAD_SOURCE);
    expect_dropped(nic_, frame(Mac{}, a_.mac), XV_DROP_BAD_SOURCE);
    expect_dropped(nic_, frame(a_.mac, b_.mac), XV_DROP_MAC_TAKEN);
}

TEST_F(BridgeTest, WhatIsTooBigForItsTargetIsTheKernelBridges) {
    join_all();
    set_mtu(b_, 60);  // the packet's own length
    expect_delivered(a_, b_, frame(a_.mac, b_.mac));
    set_mtu(b_, 59);
    const auto sent = frame(a_.mac, b_.mac);
    expect_passed(send(a_, sent), sent, a_, XV_PASS_TOO_BIG);
}

TEST_F(BridgeTest, ReservedAddressesAreTheKernelBridges) {
    join_all();
    const auto lldp = frame(a_.mac, mac("01:80:c2:00:00:0e"));
    expect_passed(send(a_, lldp), lldp, a_, XV_PASS_RESERVED_MAC);
}

TEST_F(BridgeTest, AMacIsLearnedAndMoves) {
    join_all();
    change_port(b_, XV_PORT_SPOOFCHECK, 0);
    join(b_, {});
    expect_flooded(nic_, frame(stranger, broadcast));
    expect_delivered(a_, nic_, frame(a_.mac, stranger));
    expect_dropped(nic_, frame(mac("02:aa:00:00:00:02"), stranger), XV_DROP_OWN_PORT);
    expect_flooded(b_, frame(stranger, broadcast));
    expect_delivered(a_, b_, frame(a_.mac, stranger));
    const auto entries = fdb();
    const auto known = std::ranges::find(entries, stranger, &FdbEntry::mac);
    ASSERT_NE(known, entries.end());
    EXPECT_EQ(known->port, b_.id);
    EXPECT_TRUE(known->age.has_value());
    ASSERT_TRUE(bridges_->flush_learned(b_.id));
    expect_flooded(a_, frame(a_.mac, stranger));
}

TEST_F(BridgeTest, ASilentMacIsForgotten) {
    make_bridge(false, std::chrono::seconds(1));
    for (const TestPort* port : {&a_, &b_, &nic_}) join(*port, {});
    expect_flooded(nic_, frame(stranger, broadcast));
    expect_delivered(a_, nic_, frame(a_.mac, stranger));
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    expect_flooded(a_, frame(a_.mac, stranger));
    EXPECT_EQ(std::ranges::count(fdb(), stranger, &FdbEntry::mac), 0);
}

TEST_F(BridgeTest, IsolatedContainersReachTheOthersOnly) {
    join_all();
    join(a_, {.isolated = true});
    join(b_, {.isolated = true});
    expect_dropped(a_, frame(a_.mac, b_.mac), XV_DROP_ISOLATED);
    expect_delivered(nic_, a_, frame(stranger, a_.mac));
    expect_delivered(a_, nic_, frame(a_.mac, nic_.mac));
    expect_flooded(a_, frame(a_.mac, broadcast));
}

TEST_F(BridgeTest, VlansAreApart) {
    make_bridge(true);
    join(a_, {.vlan = 10}, {10});
    join(b_, {.vlan = 20}, {20});
    VlanSet trunk;
    trunk.set(10).set(20);
    join(nic_, {.tagged = trunk}, {10, 20});
    expect_flooded(a_, frame(a_.mac, b_.mac));
    expect_dropped(a_, frame(a_.mac, nic_.mac, 20), XV_DROP_VLAN);
    expect_dropped(nic_, frame(stranger, a_.mac), XV_DROP_VLAN);
    expect_delivered(nic_, a_, frame(stranger, a_.mac, 10));
    expect_delivered(nic_, b_, frame(stranger, b_.mac, 20));
    // A trunk gets the tag.
    const auto outcome = send(a_, frame(a_.mac, nic_.mac));
    EXPECT_EQ(outcome.action, xdp_redirect);
    EXPECT_EQ(hex(outcome.frame), hex(frame(a_.mac, nic_.mac, 10)));
}

TEST_F(BridgeTest, APortThatLeavesAVlanIsForgottenThere) {
    make_bridge(true);
    join(a_, {.vlan = 10}, {10});
    join(b_, {.vlan = 10}, {10});
    expect_delivered(a_, b_, frame(a_.mac, b_.mac));
    join(b_, {.vlan = 20}, {20});
    expect_flooded(a_, frame(a_.mac, b_.mac));
}

TEST_F(BridgeTest, WithoutVlansTagsAreNoMatter) {
    join_all();
    expect_delivered(a_, b_, frame(a_.mac, b_.mac, 10));
}

TEST_F(BridgeTest, APortThatLeftIsForgotten) {
    join_all();
    EXPECT_EQ(bridges_->free_bridge(id_).error().errno_value, EBUSY);
    EXPECT_EQ(bridges_->put_static(b_.id, 0, a_.mac).error().errno_value, EEXIST);
    for (int twice = 0; twice < 2; ++twice) ASSERT_TRUE(bridges_->remove_port_if_present(b_.id));
    EXPECT_FALSE(bridges_->find_port(b_.id).value().has_value());
    EXPECT_EQ(bridges_->list_ports(id_).value().size(), 2U);
    expect_flooded(a_, frame(a_.mac, b_.mac));
    const auto sent = frame(b_.mac, a_.mac);
    expect_passed(send(b_, sent), sent, TestPort{}, XV_PASS_UNKNOWN_PORT);
    for (const TestPort* port : {&a_, &nic_}) ASSERT_TRUE(bridges_->remove_port_if_present(port->id));
    EXPECT_TRUE(fdb().empty());
    EXPECT_TRUE(bridges_->free_bridge(id_));
    EXPECT_FALSE(bridges_->find_bridge("net").value().has_value());
}

TEST_F(BridgeTest, ManyPortsAreReached) {
    make_bridge(false);
    std::vector<PortId> ports;
    for (int i = 0; i < 40; ++i) {
        xv_port port{};
        port.ifindex = i % 2 == 0 ? a_.ifindex : b_.ifindex;  // the fixture has no more devices
        port.flags = XV_PORT_FAST;
        auto id = objects_->allocate_port(port);
        ASSERT_TRUE(id) << id.error().text;
        auto put = bridges_->put_port(*id, {.bridge = id_});
        ASSERT_TRUE(put) << put.error().text;
        ports.push_back(*id);
    }
    EXPECT_EQ(bridges_->list_ports(id_).value().size(), ports.size());
    for (const auto id : ports) ASSERT_TRUE(bridges_->remove_port_if_present(id));
    EXPECT_TRUE(bridges_->free_bridge(id_));
}

}  // namespace
}  // namespace xveth::bpf::testing
