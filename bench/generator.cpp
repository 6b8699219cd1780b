// SPDX-License-Identifier: Apache-2.0
#include "bench/generator.hpp"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <xvb_generator.skel.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "bench/host_tools.hpp"
#include "bench/programs.hpp"

namespace xveth::bench {
namespace {

constexpr std::size_t frame_bytes = 64;
constexpr unsigned copies = 16;  // as bpf/generator.bpf.c says
constexpr auto wheel_device = "wheel0";
constexpr auto return_device = "wheel1";
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

iphdr ip_header(const FrameRoute& route) {
    iphdr ip{};
    ip.version = 4;
    ip.ihl = 5;
    ip.tot_len = htons(frame_bytes - sizeof(ether_header));
    ip.ttl = 64;
    ip.protocol = IPPROTO_UDP;
    ::inet_pton(AF_INET, route.source.c_str(), &ip.saddr);
    ::inet_pton(AF_INET, route.destination.c_str(), &ip.daddr);
    ip.check = internet_checksum(ip);
    return ip;
}

// UDP checksum 0, "none", is right for every source port.
std::string build_frame(const FrameRoute& route) {
    Frame frame{};
    std::memcpy(frame.ethernet.ether_shost, route.source_mac.bytes.data(), ETH_ALEN);
    std::memcpy(frame.ethernet.ether_dhost, route.destination_mac.bytes.data(), ETH_ALEN);
    frame.ethernet.ether_type = htons(ETHERTYPE_IP);
    frame.ip = ip_header(route);
    frame.udp.source = htons(source_port);
    frame.udp.dest = htons(destination_port);
    frame.udp.len = htons(frame_bytes - sizeof(ether_header) - sizeof(iphdr));
    std::string bytes(frame_bytes, '\0');
    std::memcpy(bytes.data(), &frame, frame_bytes);
    return bytes;
}

}  // namespace

FrameRoute from_client(const Lab& lab, const std::string& destination) {
    return {.ns = &lab.client(),
            .device = wire_device,
            .source_mac = Mac::parse(client_mac).value_or(Mac{}),
            .destination_mac = Mac::parse(nic_mac).value_or(Mac{}),
            .source = client_address,
            .destination = destination};
}

void Generator::Unload::operator()(xvb_generator* object) const { xvb_generator::destroy(object); }

Result<Generator> Generator::create(const FrameRoute& route, unsigned flows) {
    auto ns = Netns::create();
    if (!ns) return std::move(ns.error());
    Generator generator(std::move(*ns), build_frame(route), route.at_once / copies);
    generator.object_.reset(xvb_generator::open_and_load());
    if (!generator.object_) return errno_error(errno, "load the frame generator");
    generator.object_->data->flows = flows;
    if (auto built = generator.build_wheel(); !built) return std::move(built.error()).in("frame generator");
    if (auto led = generator.lead_out(route); !led) return std::move(led.error()).in("frame generator");
    return generator;
}

Result<void> Generator::build_wheel() {
    const std::string lines = std::string("link add ") + wheel_device + " type veth peer name " + return_device +
                              "\nlink set " + wheel_device + " up\nlink set " + return_device + " up\n";
    if (auto made = run_ip_batch(wheel_, lines); !made) return made;
    auto generate = attach_natively(wheel_, wheel_device, object_->progs.xvb_generate);
    if (!generate) return std::move(generate.error());
    auto back = attach_natively(wheel_, return_device, object_->progs.xvb_return);
    if (!back) return std::move(back.error());
    generate_ = std::move(*generate);
    return_ = std::move(*back);
    return ok();
}

// The places of the copies lead out of the route's device, the last place round the wheel.
Result<void> Generator::lead_out(const FrameRoute& route) {
    const int outputs = ::bpf_map__fd(object_->maps.outputs);
    for (std::uint32_t place = 0; place <= copies; ++place) {
        const bool out = place < copies;
        auto ifindex = ifindex_of(out ? *route.ns : wheel_, out ? route.device : wheel_device);
        if (!ifindex) return std::move(ifindex.error());
        auto inside = NetnsScope::enter(out ? *route.ns : wheel_);  // where the kernel looks the ifindex up
        if (!inside) return std::move(inside.error());
        bpf_devmap_val output{};
        output.ifindex = *ifindex;
        if (::bpf_map_update_elem(outputs, &place, &output, BPF_ANY) != 0)
            return errno_error(errno, "lead frames out of " + route.device);
    }
    return ok();
}

// Puts the frames into the wheel. The NAPI of a veth runs on the CPU that gave it its first frame, and the next one too.
Result<void> Generator::push() const {
    auto ifindex = ifindex_of(wheel_, return_device);
    if (!ifindex) return std::move(ifindex.error());
    auto inside = NetnsScope::enter(wheel_);
    if (!inside) return std::move(inside.error());
    const UniqueFd socket{::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)};
    if (!socket.valid()) return errno_error(errno, "open a packet socket");
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(*ifindex);
    for (unsigned i = 0; i < frames_; ++i)
        if (::sendto(socket.get(), frame_.data(), frame_.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                     sizeof(to)) < 0)
            return errno_error(errno, "put a frame into the wheel");
    return ok();
}

Result<Generator::Burst> Generator::run(double seconds) {
    auto* wheel = object_->bss;
    wheel->sent = 0;
    wheel->first_ns = 0;
    __atomic_store_n(&wheel->turning, 1U, __ATOMIC_RELEASE);
    auto pushed = push();
    if (pushed) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    __atomic_store_n(&wheel->turning, 0U, __ATOMIC_RELEASE);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the last turn is over
    if (!pushed) return std::move(pushed.error());
    if (wheel->sent == 0)
        return Error{.code = 0, .errno_value = 0, .text = "the frame generator's wheel did not turn", .hint = {}};
    return Burst{.sent = wheel->sent, .seconds = static_cast<double>(wheel->last_ns - wheel->first_ns) / 1e9};
}

}  // namespace xveth::bench
