// SPDX-License-Identifier: Apache-2.0
// libxveth-xsk: all frames of a container's interface through AF_XDP sockets, where xveth made the interface with
// containerXdp "afxdp". Needs CAP_NET_RAW only. Its own two source files and the kernel's headers are all that it is made of.
//
//     auto port = xveth::xsk::Port::open({.device = "eth0"});
//     while (port && port->wait(1000ms))
//         port->receive([](xveth::xsk::Frame& frame) { return change(frame.bytes()) ? Verdict::send : Verdict::drop; });
//
// While a Port is open, its process is the interface's network stack: it answers neighbour discovery, too. When it is closed
// or its process ends, however that comes, the frames go to the container's stack again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace xveth::xsk {

// What failed, the kernel's words, and the cure: "bind queue 1 of eth0: Device or resource busy: another process …".
struct Error {
    int errno_value = 0;
    std::string text;
};
template <class T>
using Result = std::expected<T, Error>;

struct Options {
    std::string device = "eth0";
    // Per queue, a power of two: at most half of them wait for frames to be received, the rest are there to be sent.
    std::uint32_t frames = 2048;
    // 2048 or 4096 bytes of memory a frame, 256 of which stay empty in front of a received one; 0: what the MTU asks for.
    std::uint32_t frame_size = 0;
    // The pinned XSKMAP. Empty: the environment's XVETH_XSKS, else /run/xveth/<device>/xsks.
    std::string map = {};
    // Socket of xvethd, which is asked where the map is not to be had (none mounted, bpf(2) denied). Empty: the environment's
    // XVETH_XSK_BROKER, else /run/xveth/xsk/xsk.sock or /run/xveth/xsk.sock.
    std::string broker = {};
    // How long a queue that a predecessor holds is waited for: the kernel frees it a little after the process's end.
    std::chrono::milliseconds patience{5000};
    // Gets a sentence for what works otherwise than one might think, as copy mode. Empty: standard error.
    std::function<void(const std::string&)> say = {};
};

// A received frame, Ethernet header first; valid while the function that got it runs.
struct Frame {
    std::span<std::byte> room;  // up to the end of its memory: a frame may grow
    std::size_t size = 0;
    [[nodiscard]] std::span<std::byte> bytes() const { return room.first(size); }
};
enum class Verdict { drop, send };  // send: as it is now, out of the queue that it came by
using Handler = std::function<Verdict(Frame&)>;

// Where a queue's frames are; together always Options::frames.
struct FrameCount {
    std::uint32_t free = 0, receiving = 0, sending = 0;
};

// One queue with memory and rings of its own. Different queues may be used by different threads, one queue by one at a time.
class Queue {
public:
    // Hands frames that have come to `handle`, 64 at most, and sends what it says. Returns their number; never waits.
    Result<std::size_t> receive(const Handler& handle);
    // Copies a frame to the send ring; false: no room now. flush() or receive() starts it on its way.
    Result<bool> send(std::span<const std::byte> frame);
    // Makes the kernel take what is in the send ring; what it cannot take now stays there.
    Result<void> flush();

    [[nodiscard]] std::uint32_t number() const;
    [[nodiscard]] int fd() const;  // for poll(2)
    [[nodiscard]] FrameCount frames() const;
    // Frames that came while there was no room for them, or that were larger than a frame's memory.
    [[nodiscard]] std::uint64_t lost() const;

    Queue(Queue&&) noexcept;
    Queue& operator=(Queue&&) noexcept;
    ~Queue();

private:
    friend class Port;
    struct State;
    explicit Queue(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

class Port {
public:
    // Binds every receive queue of the device, then directs the frames of all of them to here: all or nothing.
    [[nodiscard]] static Result<Port> open(const Options& options = {});

    // Waits until a frame has come (true) or the time is over (false). An error: the interface is gone or down.
    Result<bool> wait(std::chrono::milliseconds timeout);
    // Queue::receive() of each queue; the number of frames.
    Result<std::size_t> receive(const Handler& handle);

    [[nodiscard]] std::span<Queue> queues() { return queues_; }
    [[nodiscard]] bool zero_copy() const { return zero_copy_; }
    [[nodiscard]] bool by_broker() const { return by_broker_; }

private:
    Port(std::vector<Queue> queues, bool zero_copy, bool by_broker)
        : queues_(std::move(queues)), zero_copy_(zero_copy), by_broker_(by_broker) {}
    std::vector<Queue> queues_;
    bool zero_copy_, by_broker_;
};

}  // namespace xveth::xsk
