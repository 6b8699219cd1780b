// SPDX-License-Identifier: Apache-2.0
#include "xsk/xveth_xsk.hpp"

#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_xdp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <iostream>
#include <thread>
#include <utility>

#include "base/unique_fd.hpp"
#include "xsk/hand_over.hpp"

// The sockets are made with the kernel's interface and not with libxdp: its xsk_socket__create() cannot be repeated after
// EBUSY, which is what a restarted program meets (docs/design/0018-afxdp.md).
namespace xveth::xsk {
namespace {

constexpr std::uint32_t batch = 64;
constexpr std::uint32_t headroom = 256;    // XDP_PACKET_HEADROOM, kept in front of each received frame
constexpr std::uint32_t link_header = 22;  // Ethernet and two VLAN tags
constexpr std::chrono::milliseconds pause(10);

class Mapping {
public:
    Mapping() = default;
    Mapping(void* start, std::size_t size) : start_(start == MAP_FAILED ? nullptr : start), size_(size) {}
    Mapping(Mapping&& other) noexcept { *this = std::move(other); }
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(start_, other.start_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Mapping() {
        if (valid()) ::munmap(start_, size_);
    }
    [[nodiscard]] bool valid() const { return start_ != nullptr; }
    [[nodiscard]] std::byte* at(std::uint64_t offset) const { return static_cast<std::byte*>(start_) + offset; }

private:
    void* start_ = nullptr;
    std::size_t size_ = 0;
};

// One of a socket's four rings, from our side. Its two indices only grow; each ring has room for all frames of the queue, so
// that none is ever full.
template <class Entry>
class Ring {
public:
    Ring() = default;
    Ring(Mapping mapping, const xdp_ring_offset& offsets, std::uint32_t size, bool we_produce)
        : mapping_(std::move(mapping)),
          entries_(at<Entry>(offsets.desc)),
          flags_(at<std::uint32_t>(offsets.flags)),
          mask_(size - 1) {
        auto* producer = at<std::uint32_t>(offsets.producer);
        auto* consumer = at<std::uint32_t>(offsets.consumer);
        ours_ = we_produce ? producer : consumer;
        theirs_ = we_produce ? consumer : producer;
        next_ = *ours_;
    }
    // Of a ring that the kernel produces: entries that wait for us.
    [[nodiscard]] std::uint32_t available() const { return their_index() - next_; }
    // Of a ring that we produce: entries that wait for the kernel.
    [[nodiscard]] std::uint32_t outstanding() const { return next_ - their_index(); }
    [[nodiscard]] Entry& next() { return entries_[next_++ & mask_]; }
    // All that next() gave is the kernel's now.
    void publish() { std::atomic_ref(*ours_).store(next_, std::memory_order_release); }
    [[nodiscard]] bool wants_wakeup() const {
        return (std::atomic_ref(*flags_).load(std::memory_order_relaxed) & XDP_RING_NEED_WAKEUP) != 0;
    }

private:
    template <class T>
    [[nodiscard]] T* at(std::uint64_t offset) const {
        return reinterpret_cast<T*>(mapping_.at(offset));
    }
    [[nodiscard]] std::uint32_t their_index() const {
        return std::atomic_ref(*theirs_).load(std::memory_order_acquire);
    }

    Mapping mapping_;
    Entry* entries_ = nullptr;
    std::uint32_t *ours_ = nullptr, *theirs_ = nullptr, *flags_ = nullptr;
    std::uint32_t mask_ = 0, next_ = 0;
};

struct Device {
    unsigned index = 0;
    std::uint32_t queues = 0;  // that receive
    std::uint32_t mtu = 0;
};

Result<Device> look_at(const std::string& name) {
    const std::string what = "interface " + name;
    Device device{.index = ::if_nametoindex(name.c_str())};
    if (device.index == 0) return failed(errno, what);
    const UniqueFd fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    ethtool_channels channels{};
    channels.cmd = ETHTOOL_GCHANNELS;
    ifreq request{};
    name.copy(&request.ifr_name[0], IFNAMSIZ - 1);
    if (::ioctl(fd.get(), SIOCGIFMTU, &request) != 0) return failed(errno, what);
    device.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
    request.ifr_data = reinterpret_cast<char*>(&channels);
    if (::ioctl(fd.get(), SIOCETHTOOL, &request) == 0)
        device.queues = channels.rx_count + channels.combined_count;
    else if (errno != EOPNOTSUPP)
        return failed(errno, what + ", its queues");
    device.queues = std::max(device.queues, 1U);
    return device;
}

template <class T>
bool set(int fd, int option, const T& value) {
    return ::setsockopt(fd, SOL_XDP, option, &value, sizeof value) == 0;
}
template <class T>
bool get(int fd, int option, T& value) {
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_XDP, option, &value, &size) == 0;
}

// What the kernel takes for no frame it skips, and never gives back.
bool can_be_sent(std::size_t size) { return size >= ETH_HLEN; }

using Clock = std::chrono::steady_clock;

// False once it is too late for another try.
bool rest_until(Clock::time_point end) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
    return true;
}

// As far as a process may by itself; false: nothing is to be gained.
bool raise_memlock() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return false;
    limit.rlim_cur = limit.rlim_max;
    return ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

std::string kib(std::uint64_t bytes) { return std::to_string(bytes / 1024) + " KiB"; }

std::string memlock_cure() {
    rlimit limit{};
    ::getrlimit(RLIMIT_MEMLOCK, &limit);
    return "RLIMIT_MEMLOCK is " + kib(limit.rlim_cur) +
           ", and counts the sockets of all processes of this user id: raise it (podman run "
           "--ulimit memlock=-1:-1), add CAP_IPC_LOCK, or ask for fewer frames";
}

}  // namespace

struct Queue::State {
    std::string device;
    std::uint32_t number = 0, frame_size = 0;
    Mapping memory;
    UniqueFd socket;
    Ring<std::uint64_t> fill, completion;
    Ring<xdp_desc> received, to_send;
    std::vector<std::uint64_t> free;  // addresses of frames
    std::uint32_t frames = 0, receiving = 0, sending = 0;

    [[nodiscard]] std::string name() const { return "queue " + std::to_string(number) + " of " + device; }
    [[nodiscard]] bool zero_copy() const;
    Result<void> open(unsigned index, Clock::time_point end);
    Result<void> make_socket();
    Result<void> register_memory(Clock::time_point end);
    Result<void> make_rings();
    [[nodiscard]] Result<void> bind_to(unsigned index, Clock::time_point end) const;

    void give_frames_to_receive();
    void take_back_sent();
    void queue_for_sending(std::uint64_t address, std::size_t size);
    Result<void> make_kernel_send();
};

Result<void> Queue::State::make_socket() {
    socket.reset(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (socket.valid()) return {};
    const int err = errno;
    return failed(err, "open an AF_XDP socket", err == EPERM ? "the container needs CAP_NET_RAW" : "");
}

// Locked memory, as the queue, is a predecessor's a little longer than its process lives.
Result<void> Queue::State::register_memory(Clock::time_point end) {
    const std::size_t size = std::size_t{frames} * frame_size;
    const std::string what = "memory for " + name() + " (" + kib(size) + ")";
    memory = {::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0), size};
    if (!memory.valid()) return failed(errno, what);
    xdp_umem_reg area{};
    area.addr = reinterpret_cast<std::uintptr_t>(memory.at(0));
    area.len = size;
    area.chunk_size = frame_size;
    while (!set(socket.get(), XDP_UMEM_REG, area)) {
        if (errno != ENOBUFS) return failed(errno, what);
        if (!raise_memlock() && !rest_until(end)) return failed(ENOBUFS, what, memlock_cure());
    }
    return {};
}

Result<void> Queue::State::make_rings() {
    const int fd = socket.get();
    for (const int ring : {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING})
        if (!set(fd, ring, frames)) return failed(errno, "rings for " + name());
    xdp_mmap_offsets offsets{};
    if (!get(fd, XDP_MMAP_OFFSETS, offsets)) return failed(errno, "rings for " + name());
    bool all = true;
    const auto map = [&]<class Entry>(Ring<Entry>& ring, const xdp_ring_offset& at, std::uint64_t where,
                                      bool we_produce) {
        const std::size_t size = at.desc + frames * sizeof(Entry);
        Mapping mapping{
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(where)),
            size};
        all = all && mapping.valid();
        if (all) ring = Ring<Entry>(std::move(mapping), at, frames, we_produce);
    };
    map(fill, offsets.fr, XDP_UMEM_PGOFF_FILL_RING, true);
    map(completion, offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, false);
    map(received, offsets.rx, XDP_PGOFF_RX_RING, false);
    map(to_send, offsets.tx, XDP_PGOFF_TX_RING, true);
    if (!all) return failed(errno, "map the rings of " + name());
    for (std::uint32_t i = frames; i > 0; --i) free.push_back(std::uint64_t{i - 1} * frame_size);
    return {};
}

// The kernel takes the queue from a predecessor in the background, after its process is gone.
Result<void> Queue::State::bind_to(unsigned index, Clock::time_point end) const {
    sockaddr_xdp address{};
    address.sxdp_family = AF_XDP;
    address.sxdp_flags = XDP_USE_NEED_WAKEUP;  // zero copy where the driver has it, else copy
    address.sxdp_ifindex = index;
    address.sxdp_queue_id = number;
    while (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        if (errno != EBUSY) return failed(errno, "bind " + name());
        if (!rest_until(end)) return failed(EBUSY, "bind " + name(), "another process has its frames");
    }
    return {};
}

Result<void> Queue::State::open(unsigned index, Clock::time_point end) {
    if (auto made = make_socket(); !made) return made;
    if (auto registered = register_memory(end); !registered) return registered;
    if (auto made = make_rings(); !made) return made;
    if (auto bound = bind_to(index, end); !bound) return bound;
    give_frames_to_receive();
    return {};
}

bool Queue::State::zero_copy() const {
    xdp_options features{};
    return get(socket.get(), XDP_OPTIONS, features) && (features.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

void Queue::State::give_frames_to_receive() {
    bool given = false;
    for (; receiving < frames / 2 && !free.empty(); ++receiving, given = true) {
        fill.next() = free.back();
        free.pop_back();
    }
    if (given) fill.publish();
}

void Queue::State::take_back_sent() {
    const std::uint32_t count = completion.available();
    for (std::uint32_t i = 0; i < count; ++i) free.push_back(completion.next() & ~std::uint64_t{frame_size - 1});
    sending -= count;
    if (count > 0) completion.publish();
}

void Queue::State::queue_for_sending(std::uint64_t address, std::size_t size) {
    to_send.next() = {.addr = address, .len = static_cast<std::uint32_t>(size), .options = 0};
    ++sending;
}

// A call sends a few frames only (32 in copy mode) and says EAGAIN when there are more; that, EBUSY and ENOBUFS also mean that
// the device or the receiver has no room now.
Result<void> Queue::State::make_kernel_send() {
    std::uint32_t outstanding = to_send.outstanding();
    while (outstanding > 0 && to_send.wants_wakeup()) {
        const bool taken = ::sendto(socket.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0;
        if (!taken && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS && errno != EINTR)
            return failed(errno, "send by " + name(), errno == ENETDOWN ? "the interface is down" : "");
        take_back_sent();
        if (to_send.outstanding() == outstanding) break;
        outstanding = to_send.outstanding();
    }
    return {};
}

Queue::Queue(std::unique_ptr<State> state) : state_(std::move(state)) {}
Queue::Queue(Queue&&) noexcept = default;
Queue& Queue::operator=(Queue&&) noexcept = default;
Queue::~Queue() = default;

std::uint32_t Queue::number() const { return state_->number; }
int Queue::fd() const { return state_->socket.get(); }

FrameCount Queue::frames() const {
    return {.free = static_cast<std::uint32_t>(state_->free.size()),
            .receiving = state_->receiving,
            .sending = state_->sending};
}

std::uint64_t Queue::lost() const {
    xdp_statistics seen{};
    return get(fd(), XDP_STATISTICS, seen) ? seen.rx_dropped + seen.rx_ring_full : 0;
}

Result<std::size_t> Queue::receive(const Handler& handle) {
    State& my = *state_;
    const std::uint32_t count = std::min(my.received.available(), batch);
    for (std::uint32_t i = 0; i < count; ++i) {
        const xdp_desc& entry = my.received.next();
        const std::uint64_t start = entry.addr & ~std::uint64_t{my.frame_size - 1};
        Frame frame{.room = {my.memory.at(entry.addr), my.memory.at(start + my.frame_size)}, .size = entry.len};
        --my.receiving;
        if (handle(frame) == Verdict::send && can_be_sent(frame.size))
            my.queue_for_sending(entry.addr, std::min(frame.size, frame.room.size()));
        else
            my.free.push_back(start);
    }
    if (count > 0) my.received.publish();
    if (auto sent = flush(); !sent) return std::unexpected(std::move(sent.error()));
    return count;
}

Result<bool> Queue::send(std::span<const std::byte> frame) {
    State& my = *state_;
    if (!can_be_sent(frame.size()) || frame.size() > my.frame_size)
        return failed(EMSGSIZE, "send " + std::to_string(frame.size()) + " bytes by " + my.name());
    my.take_back_sent();
    if (my.free.empty()) return false;
    const std::uint64_t start = my.free.back();
    my.free.pop_back();
    std::ranges::copy(frame, my.memory.at(start));
    my.queue_for_sending(start, frame.size());
    return true;
}

Result<void> Queue::flush() {
    State& my = *state_;
    my.to_send.publish();
    auto sent = my.make_kernel_send();
    my.take_back_sent();
    my.give_frames_to_receive();
    return sent;
}

Result<Port> Port::open(const Options& options) {
    if (!std::has_single_bit(options.frames) || options.frames < batch)
        return failed(EINVAL, "frames " + std::to_string(options.frames), "a power of two, 64 or more");
    const auto device = look_at(options.device);
    if (!device) return std::unexpected(device.error());
    const std::uint32_t wanted = headroom + device->mtu + link_header;
    const std::uint32_t fitting = wanted <= 2048 ? 2048 : 4096;
    const std::uint32_t frame_size = options.frame_size == 0 ? fitting : options.frame_size;
    auto hand_over = HandOver::find(options);
    if (!hand_over) return std::unexpected(std::move(hand_over.error()));
    const auto end = Clock::now() + options.patience;
    std::vector<Queue> queues;
    for (std::uint32_t number = 0; number < device->queues; ++number) {
        auto state = std::make_unique<Queue::State>();
        state->device = options.device;
        state->number = number;
        state->frames = options.frames;
        state->frame_size = frame_size;
        if (auto opened = state->open(device->index, end); !opened) return std::unexpected(std::move(opened.error()));
        queues.push_back(Queue(std::move(state)));
    }
    // Whoever takes one queue takes them all: none is directed here before all are bound.
    for (const Queue& queue : queues) {
        auto inserted = hand_over->insert(queue.number(), queue.fd());
        if (!inserted) return std::unexpected(std::move(inserted.error()));
    }
    const bool zero_copy = std::ranges::all_of(queues, [](const Queue& queue) { return queue.state_->zero_copy(); });
    const auto say =
        options.say ? options.say : [](const std::string& text) { std::cerr << "xveth-xsk: " + text + "\n"; };
    if (wanted > frame_size)
        say(options.device + " has an MTU of " + std::to_string(device->mtu) + ": frames of more than " +
            std::to_string(frame_size - headroom) + " bytes are lost");
    if (!zero_copy) say(options.device + " has no zero copy: copy mode, as on every veth");
    if (hand_over->by_broker()) say("sockets handed over by xvethd (" + hand_over->reason() + ")");
    return Port(std::move(queues), zero_copy, hand_over->by_broker());
}

Result<bool> Port::wait(std::chrono::milliseconds timeout) {
    std::vector<pollfd> ready;
    for (Queue& queue : queues_) {
        if (auto flushed = queue.flush(); !flushed) return std::unexpected(std::move(flushed.error()));
        ready.push_back({.fd = queue.fd(), .events = POLLIN, .revents = 0});
    }
    const int count = ::poll(ready.data(), ready.size(), static_cast<int>(timeout.count()));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return failed(errno, "wait for frames");
    // An interface that is removed wakes nobody up, but leaves its mark.
    for (const Queue& queue : queues_) {
        int err = 0;
        socklen_t size = sizeof err;
        if (::getsockopt(queue.fd(), SOL_SOCKET, SO_ERROR, &err, &size) == 0 && err != 0)
            return failed(err, "wait for frames of queue " + std::to_string(queue.number()), "is the interface gone?");
    }
    return false;
}

Result<std::size_t> Port::receive(const Handler& handle) {
    std::size_t total = 0;
    for (Queue& queue : queues_) {
        auto count = queue.receive(handle);
        if (!count) return count;
        total += *count;
    }
    return total;
}

}  // namespace xveth::xsk
