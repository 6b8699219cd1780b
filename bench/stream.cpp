// SPDX-License-Identifier: Apache-2.0
#include "bench/stream.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "base/scope_exit.hpp"
#include "base/unique_fd.hpp"

namespace xveth::bench {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{128} * 1024;
constexpr auto ramp = std::chrono::milliseconds(100);

struct Connection {
    UniqueFd sender;
    UniqueFd receiver;
};

Result<UniqueFd> open_socket(const Netns& ns) {
    auto inside = NetnsScope::enter(ns);
    if (!inside) return std::move(inside.error());
    UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (!fd.valid()) return errno_error(errno, "open a TCP socket");
    const timeval patience{.tv_sec = 5, .tv_usec = 0};  // a path that is dead shall end the bench, not stop it
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    return fd;
}

const sockaddr* generic(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

// The listener's port, chosen by the kernel.
Result<in_port_t> listen_on(const UniqueFd& listener) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t length = sizeof(any);
    if (::bind(listener.get(), generic(any), length) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0)
        return errno_error(errno, "listen");
    return any.sin_port;
}

Result<Connection> connect_over(const Route& route) {
    auto listener = open_socket(*route.receiver);
    if (!listener) return std::move(listener.error());
    auto port = listen_on(*listener);
    if (!port) return std::move(port.error());
    auto sender = open_socket(*route.sender);
    if (!sender) return std::move(sender.error());
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = *port;
    ::inet_pton(AF_INET, route.address.c_str(), &to.sin_addr);
    if (::connect(sender->get(), generic(to), sizeof(to)) != 0)
        return errno_error(errno, "connect to " + route.address);
    UniqueFd receiver{::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!receiver.valid()) return errno_error(errno, "accept");
    const int on = 1;
    for (const int fd : {sender->get(), receiver.get()}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return Connection{.sender = std::move(*sender), .receiver = std::move(receiver)};
}

// The two ends of a stream have a CPU each, those of a request and its response share one: what the scheduler chooses
// by itself changes the rates by a factor of three from run to run.
enum class Place { first_cpu, last_cpu };

void pin_thread(Place place) {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    std::size_t cpu = place == Place::first_cpu ? 0 : CPU_SETSIZE - 1;
    while (!CPU_ISSET(cpu, &allowed)) cpu = place == Place::first_cpu ? cpu + 1 : cpu - 1;
    CPU_ZERO(&allowed);
    CPU_SET(cpu, &allowed);
    ::sched_setaffinity(0, sizeof(allowed), &allowed);
}

void send_until_closed(int fd) {
    pin_thread(Place::first_cpu);
    const std::vector<char> chunk(chunk_bytes);
    while (::send(fd, chunk.data(), chunk.size(), MSG_NOSIGNAL) > 0) continue;
}

void receive_until_closed(int fd, std::atomic<std::uint64_t>& bytes) {
    pin_thread(Place::last_cpu);
    std::vector<char> chunk(chunk_bytes);
    for (ssize_t got = 0; (got = ::recv(fd, chunk.data(), chunk.size(), 0)) > 0;)
        bytes.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
}

void echo_until_closed(int fd) {
    pin_thread(Place::last_cpu);
    for (char byte = 0; ::recv(fd, &byte, 1, 0) == 1;)
        if (::send(fd, &byte, 1, MSG_NOSIGNAL) != 1) return;
}

bool exchange_byte(int fd) {
    char byte = 'x';
    return ::send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(fd, &byte, 1, 0) == 1;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Result<double> measure_stream(const Route& route, double seconds) {
    auto connection = connect_over(route);
    if (!connection) return std::move(connection.error());
    std::atomic<std::uint64_t> bytes = 0;
    std::jthread receiver(receive_until_closed, connection->receiver.get(), std::ref(bytes));
    std::jthread sender(send_until_closed, connection->sender.get());
    const ScopeExit close_both{[&] {  // before the threads are joined: it ends their system calls
        ::shutdown(connection->sender.get(), SHUT_RDWR);
        ::shutdown(connection->receiver.get(), SHUT_RDWR);
    }};
    std::this_thread::sleep_for(ramp);
    const auto start = std::chrono::steady_clock::now();
    const auto before = bytes.load();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const auto moved = bytes.load() - before;
    if (moved == 0) return Error{.code = 0, .errno_value = 0, .text = "no byte arrived", .hint = {}};
    return static_cast<double>(moved) * 8 / seconds_since(start) / 1e9;
}

Result<double> measure_request_response(const Route& route, double seconds) {
    auto connection = connect_over(route);
    if (!connection) return std::move(connection.error());
    std::uint64_t transactions = 0;
    double spent = 0;
    std::jthread server(echo_until_closed, connection->receiver.get());
    std::jthread client([&] {
        pin_thread(Place::last_cpu);
        const auto start = std::chrono::steady_clock::now();
        while (spent < seconds && exchange_byte(connection->sender.get())) {
            ++transactions;
            spent = seconds_since(start);
        }
        ::shutdown(connection->sender.get(), SHUT_RDWR);
    });
    client.join();
    if (spent < seconds)
        return Error{.code = 0, .errno_value = 0, .text = "the exchange of bytes broke off", .hint = {}};
    return static_cast<double>(transactions) / spent;
}

}  // namespace xveth::bench
