// SPDX-License-Identifier: Apache-2.0
#include "netlink/socket.hpp"

#include <linux/netlink.h>
#include <netlink/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

namespace xveth::netlink {
namespace {

constexpr int code_kernel = 100;
// How long a list that others change meanwhile is read again, and the longest pause between two readings. A writer that
// changes nf_tables every few milliseconds interrupts nearly every reading on a busy machine, so a count would run out.
constexpr std::chrono::seconds dump_patience(5);
constexpr std::chrono::milliseconds dump_longest_pause(16);
// A datagram of a dump is at most 32 KiB; one object never comes near.
constexpr std::size_t datagram_size = 64 * 1024;

Error kernel_error(int err, std::string_view what, const std::string& sentence) {
    Error error = errno_error(err, what).with_code(code_kernel);
    if (!sentence.empty()) error.text += " (kernel: " + sentence + ")";
    return error;
}

// The attributes behind the errno: in an error message also behind the copy of our request, unless it is capped.
Attributes extended_ack(const Received& answer) {
    if ((answer.raw().nlmsg_flags & NLM_F_ACK_TLVS) == 0) return {};
    if (answer.raw().nlmsg_type == NLMSG_DONE) return answer.attributes<int>();
    if ((answer.raw().nlmsg_flags & NLM_F_CAPPED) == 0) return {};
    return answer.attributes<nlmsgerr>();
}

}  // namespace

Result<void> verdict_of(const Received& answer, std::string_view what) {
    const int err = answer.header<int>();
    if (err == 0) return ok();
    return kernel_error(-err, what, extended_ack(answer).text(NLMSGERR_ATTR_MSG));
}

Result<Socket> Socket::open(const Netns& ns, int protocol) {
    auto scope = NetnsScope::enter(ns);
    if (!scope) return std::move(scope.error()).with_code(code_kernel);
    Socket socket{std::unique_ptr<nl_sock, Free>(nl_socket_alloc())};
    // nl_connect() folds errno into numbers of its own, but leaves it in place.
    if (socket.socket_ == nullptr || nl_connect(socket.socket_.get(), protocol) != 0)
        return errno_error(errno, "open a netlink socket").with_code(code_kernel);
    // The kernel's own sentence in errors, without a copy of the request.
    if (auto on = socket.switch_on(NETLINK_EXT_ACK); !on) return std::move(on.error());
    if (auto on = socket.switch_on(NETLINK_CAP_ACK); !on) return std::move(on.error());
    // Dumps of one device or table are filtered by the kernel only for those who ask strictly.
    if (protocol == NETLINK_ROUTE) {
        if (auto on = socket.switch_on(NETLINK_GET_STRICT_CHK); !on) return std::move(on.error());
    }
    return socket;
}

Result<void> Socket::switch_on(int option) {
    const int on = 1;
    if (::setsockopt(nl_socket_get_fd(socket_.get()), SOL_NETLINK, option, &on, sizeof on) == 0) return ok();
    return errno_error(errno, "set up a netlink socket").with_code(code_kernel);
}

std::uint32_t Socket::stamp(Message& message) {
    const std::uint32_t sequence = nl_socket_use_seq(socket_.get());
    message.raw()->nlmsg_seq = sequence;
    message.raw()->nlmsg_pid = nl_socket_get_local_port(socket_.get());
    return sequence;
}

Result<std::uint32_t> Socket::send(Message& message, int flags, std::string_view what) {
    if (!message.complete()) return kernel_error(EMSGSIZE, what, {});
    const std::uint32_t sequence = stamp(message);
    nlmsghdr* header = message.raw();
    header->nlmsg_flags = static_cast<std::uint16_t>(header->nlmsg_flags | NLM_F_REQUEST | flags);
    if (nl_sendto(socket_.get(), header, header->nlmsg_len) < 0) return kernel_error(errno, what, {});
    return sequence;
}

Result<std::vector<Received>> Socket::receive(int flags, std::string_view what) {
    alignas(nlmsghdr) std::array<char, datagram_size> buffer;
    ssize_t size = 0;
    do {
        size = ::recv(nl_socket_get_fd(socket_.get()), buffer.data(), buffer.size(), flags | MSG_TRUNC);
    } while (size < 0 && errno == EINTR);
    if (size < 0 && errno == EAGAIN && (flags & MSG_DONTWAIT) != 0) return std::vector<Received>{};
    if (size < 0) return kernel_error(errno, what, {});
    if (static_cast<std::size_t>(size) > buffer.size()) return kernel_error(EMSGSIZE, what, {});

    std::vector<Received> messages;
    int left = static_cast<int>(size);
    for (auto* at = reinterpret_cast<nlmsghdr*>(buffer.data()); nlmsg_ok(at, left); at = nlmsg_next(at, &left))
        messages.emplace_back(*at);
    return messages;
}

Result<void> Socket::execute(Message& message, std::string_view what) {
    auto sequence = send(message, NLM_F_ACK, what);
    if (!sequence) return std::move(sequence.error());
    for (;;) {
        auto answers = receive(0, what);
        if (!answers) return std::move(answers.error());
        for (const auto& answer : *answers)
            if (answer.raw().nlmsg_seq == *sequence && answer.raw().nlmsg_type == NLMSG_ERROR)
                return verdict_of(answer, what);
    }
}

// With an acknowledgement, because some requests are granted without an answer (a qdisc that the kernel hides).
Result<Received> Socket::get(Message& message, std::string_view what) {
    auto sequence = send(message, NLM_F_ACK, what);
    if (!sequence) return std::move(sequence.error());
    std::optional<Received> object;
    for (;;) {
        auto answers = receive(0, what);
        if (!answers) return std::move(answers.error());
        for (auto& answer : *answers) {
            if (answer.raw().nlmsg_seq != *sequence) continue;
            if (answer.raw().nlmsg_type != NLMSG_ERROR) {
                object.emplace(std::move(answer));
                continue;
            }
            if (auto verdict = verdict_of(answer, what); !verdict) return std::move(verdict.error());
            if (!object) return kernel_error(ENOENT, what, {});
            return std::move(*object);
        }
    }
}

// Whether the kernel finished without being interrupted.
Result<bool> Socket::dump_once(Message& message, std::string_view what, std::vector<Received>& objects) {
    auto sequence = send(message, NLM_F_DUMP, what);
    if (!sequence) return std::move(sequence.error());
    bool whole = true;
    for (;;) {
        auto answers = receive(0, what);
        if (!answers) return std::move(answers.error());
        for (auto& answer : *answers) {
            if (answer.raw().nlmsg_seq != *sequence) continue;
            if ((answer.raw().nlmsg_flags & NLM_F_DUMP_INTR) != 0) whole = false;
            const int type = answer.raw().nlmsg_type;
            if (type == NLMSG_ERROR || type == NLMSG_DONE) {
                if (auto verdict = verdict_of(answer, what); !verdict) return std::move(verdict.error());
                return whole;
            }
            objects.push_back(std::move(answer));
        }
    }
}

Result<std::vector<Received>> Socket::dump(Message& message, std::string_view what) {
    const auto last = std::chrono::steady_clock::now() + dump_patience;
    for (std::chrono::milliseconds pause(1);; pause = std::min(2 * pause, dump_longest_pause)) {
        std::vector<Received> objects;
        auto whole = dump_once(message, what, objects);
        if (!whole && whole.error().errno_value != EINTR) return std::move(whole.error());
        if (whole && *whole) return objects;
        if (std::chrono::steady_clock::now() > last) break;
        std::this_thread::sleep_for(pause);
    }
    Error error = kernel_error(EINTR, what, {});
    error.text += ": the list changed while it was read, for " + std::to_string(dump_patience.count()) + " s";
    return error;
}

Result<void> Socket::execute_batch(std::vector<Message>& messages, std::string_view what) {
    std::vector<char> bytes;
    for (auto& message : messages) {
        if (!message.complete()) return kernel_error(EMSGSIZE, what, {});
        static_cast<void>(stamp(message));
        const auto* start = reinterpret_cast<const char*>(message.raw());
        bytes.insert(bytes.end(), start, start + NLMSG_ALIGN(message.raw()->nlmsg_len));
    }
    if (nl_sendto(socket_.get(), bytes.data(), bytes.size()) < 0) return kernel_error(errno, what, {});

    Result<void> outcome = ok();
    bool answered = false;
    for (;;) {
        auto answers = receive(MSG_DONTWAIT, what);
        if (!answers) return std::move(answers.error());
        if (answers->empty()) break;
        for (const auto& answer : *answers) {
            if (answer.raw().nlmsg_type != NLMSG_ERROR) continue;
            answered = true;
            if (auto verdict = verdict_of(answer, what); outcome && !verdict) outcome = std::move(verdict);
        }
    }
    if (!answered) return kernel_error(EIO, what, {});
    return outcome;
}

Result<void> Socket::subscribe(int group) {
    if (::setsockopt(fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) == 0) return ok();
    return errno_error(errno, "subscribe to netlink group " + std::to_string(group)).with_code(code_kernel);
}

Result<std::vector<Received>> Socket::take_notices(std::string_view what) { return receive(MSG_DONTWAIT, what); }

int Socket::fd() const { return nl_socket_get_fd(socket_.get()); }

}  // namespace xveth::netlink
