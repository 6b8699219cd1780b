// SPDX-License-Identifier: Apache-2.0
// Thousands of damaged frames: whatever is redirected must be a packet that routing would have forwarded, and whatever
// passes must be untouched.
#include <algorithm>
#include <random>

#include "bpf-progs/tests/test_node.hpp"

namespace xveth::bpf::testing {
namespace {

constexpr int rounds = 4000;

class Fuzz : public TestNode, public ::testing::WithParamInterface<Family> {
protected:
    void damage(Bytes& frame) {
        const int changes = 1 + static_cast<int>(random_() % 3);
        for (int i = 0; i < changes; ++i) {
            // Mostly headers: that is where decisions are made.
            const auto limit = std::min<std::size_t>(frame.size(), random_() % 4 == 0 ? frame.size() : 58);
            frame[random_() % limit] = static_cast<std::uint8_t>(random_());
        }
        if (random_() % 8 == 0) frame.resize(std::max<std::size_t>(14, random_() % frame.size()));
    }

    static std::size_t l3_length(const Bytes& frame) {
        const auto word = [&](std::size_t at) { return static_cast<std::size_t>(frame[at] << 8U | frame[at + 1]); };
        return frame[12] == 0x08 ? word(16) : word(18) + 40;
    }

    static void expect_forwardable(const Bytes& sent) {
        ASSERT_GE(sent.size(), 14U + l3_length(sent)) << hex(sent);
        if (sent[12] == 0x08) {
            EXPECT_TRUE(ipv4_checksum_ok(sent)) << hex(sent);
            EXPECT_EQ(sent[20] & 0x3f, 0) << hex(sent);
            EXPECT_EQ(sent[21], 0) << hex(sent);
            EXPECT_GT(sent[22], 1) << hex(sent);
        } else {
            EXPECT_EQ(sent[12] << 8U | sent[13], 0x86dd) << hex(sent);
            EXPECT_EQ(sent[14] >> 4U, 6) << hex(sent);
            EXPECT_GT(sent[21], 1) << hex(sent);
        }
    }

    void expect_sane(const Outcome& outcome, const Bytes& sent) {
        if (outcome.action != xdp_redirect) {
            EXPECT_EQ(hex(outcome.frame), hex(sent));
            return;
        }
        ++redirected_;
        expect_forwardable(sent);
        Mac dst;
        Mac src;
        std::copy_n(outcome.frame.begin(), 6, dst.bytes.begin());
        std::copy_n(outcome.frame.begin() + 6, 6, src.bytes.begin());
        EXPECT_EQ(hex(outcome.frame), hex(forwarded(sent, dst, src)));
    }

    std::mt19937 random_{20240501};
    int redirected_ = 0;
};

INSTANTIATE_TEST_SUITE_P(BothFamilies, Fuzz, ::testing::Values(Family::ipv4, Family::ipv6),
                         [](const auto& instance) { return instance.param == Family::ipv4 ? "IPv4" : "IPv6"; });

TEST_P(Fuzz, DamagedFramesFromTheWire) {
    for (int i = 0; i < rounds && !HasFailure(); ++i) {
        auto packet = wire_to_a(GetParam());
        packet.proto = i % 2 == 0 ? proto_udp : proto_tcp;
        packet.tcp_flags = i % 4 == 1 ? tcp_syn : tcp_ack;
        packet.more_fragments = i % 16 == 0;
        packet.options = i % 32 == 0;
        auto frame = packet.build();
        damage(frame);
        expect_sane(run(Program::nic, nic_.ifindex, frame), frame);
    }
    EXPECT_GT(redirected_, rounds / 100) << "the damage leaves nothing to look at";
}

TEST_P(Fuzz, DamagedFramesFromAContainer) {
    for (int i = 0; i < rounds && !HasFailure(); ++i) {
        auto packet = a_to_b(GetParam());
        packet.proto = i % 2 == 0 ? proto_udp : GetParam() == Family::ipv4 ? proto_icmp : proto_icmp6;
        if (packet.proto != proto_udp) {
            packet.icmp_type = GetParam() == Family::ipv4 ? 3 : 1;
            packet.icmp_quote = b_to_a(GetParam()).l3();
        }
        auto frame = packet.build();
        damage(frame);
        expect_sane(run(Program::host, a_.ifindex, frame), frame);
    }
    EXPECT_GT(redirected_, rounds / 100) << "the damage leaves nothing to look at";
}

}  // namespace
}  // namespace xveth::bpf::testing
