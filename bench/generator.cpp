// SPDX-License-Identifier: Apache-2.0
#include "bench/generator.hpp"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <xvb_generator.skel.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/address.hpp"

namespace xveth::bench {
namespace {

constexpr std::size_t frame_bytes = 64;
constexpr unsigned batch = 64;                   // one NAPI budget; a veth's ring holds 256
constexpr std::uint64_t first_call = 1U << 16U;  // frames, as long as the rate is not known
constexpr std::uint64_t longest_call = 1U << 30U;
constexpr double almost_all = 0.9;  // of the time; not worth another call
constexpr std::uint16_t source_port = 10000;
constexpr std::uint16_t destination_port = 9000;

struct [[gnu::packed]] Frame {
    ether_header ethernet;
    iphdr ip;
    udphdr udp;
    std::array<std::uint8_t, frame_bytes - sizeof(ether_header) - sizeof(iphdr) - sizeof(udphdr)> payload;
};
static_assert(sizeof(Frame) == frame_bytes);

std::uint16_t internet_checksum(const iphdr& header) {
    std::array<std::uint16_t, sizeof(iphdr) / 2> words{};
    std::memcpy(words.data(), &header, sizeof(header));
    std::uint32_t sum = 0;
    for (const auto word : words) sum += word;
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16U);
    return static_cast<std::uint16_t>(~sum);
}

iphdr ip_header(const std::string& destination) {
    iphdr ip{};
    ip.version = 4;
    ip.ihl = 5;
    ip.tot_len = htons(frame_bytes - sizeof(ether_header));
    ip.ttl = 64;
    ip.protocol = IPPROTO_UDP;
    ::inet_pton(AF_INET, client_address, &ip.saddr);
    ::inet_pton(AF_INET, destination.c_str(), &ip.daddr);
    ip.check = internet_checksum(ip);
    return ip;
}

// UDP checksum 0, "none", is right for every source port.
Frame build_frame(const std::string& destination) {
    Frame frame{};
    const auto from = Mac::parse(client_mac).value_or(Mac{});
    const auto to = Mac::parse(nic_mac).value_or(Mac{});
    std::memcpy(frame.ethernet.ether_shost, from.bytes.data(), from.bytes.size());
    std::memcpy(frame.ethernet.ether_dhost, to.bytes.data(), to.bytes.size());
    frame.ethernet.ether_type = htons(ETHERTYPE_IP);
    frame.ip = ip_header(destination);
    frame.udp.source = htons(source_port);
    frame.udp.dest = htons(destination_port);
    frame.udp.len = htons(frame_bytes - sizeof(ether_header) - sizeof(iphdr));
    return frame;
}

Result<void> run_once(int program, std::uint64_t frames) {
    std::array<std::uint8_t, frame_bytes> input{};
    bpf_test_run_opts options{};
    options.sz = sizeof(options);
    options.data_in = input.data();
    options.data_size_in = input.size();
    options.repeat = static_cast<int>(frames);
    options.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    options.batch_size = batch;
    if (const int failed = ::bpf_prog_test_run_opts(program, &options); failed != 0)
        return errno_error(-failed, "run the frame generator");
    return ok();
}

}  // namespace

void Generator::Unload::operator()(xvb_generator* object) const { xvb_generator::destroy(object); }

Result<Generator> Generator::create(const Lab& lab, const Container& container, unsigned flows) {
    auto wire = ifindex_of(lab.client(), wire_device);
    if (!wire) return std::move(wire.error());
    Generator generator(lab);
    generator.object_.reset(xvb_generator::open_and_load());
    if (!generator.object_) return errno_error(errno, "load the frame generator");
    const Frame frame = build_frame(container.address);
    auto* data = generator.object_->bss;
    std::memcpy(data->template_words, &frame, sizeof(frame));
    data->out_ifindex = *wire;
    generator.object_->data->flows = flows;
    return generator;
}

// Few long calls: each one patches the kernel's XDP dispatcher at its start and end, which takes milliseconds.
Result<Generator::Burst> Generator::run(double seconds) {
    using clock = std::chrono::steady_clock;
    auto inside = NetnsScope::enter(lab_->client());
    if (!inside) return std::move(inside.error());
    const auto start = clock::now();
    Burst burst;
    do {
        const auto missing = static_cast<std::uint64_t>(frames_a_second_ * (seconds - burst.seconds));
        const auto frames = std::clamp(missing, first_call, longest_call);
        if (auto done = run_once(::bpf_program__fd(object_->progs.xvb_generate), frames); !done)
            return std::move(done.error());
        burst.sent += frames;
        burst.seconds = std::chrono::duration<double>(clock::now() - start).count();
        frames_a_second_ = static_cast<double>(burst.sent) / burst.seconds;
    } while (burst.seconds < seconds * almost_all);
    return burst;
}

}  // namespace xveth::bench
