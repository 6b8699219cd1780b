// SPDX-License-Identifier: Apache-2.0
// The one class that speaks to the kernel over netlink. Private to this folder.
#pragma once

#include <netlink/socket.h>

#include <memory>
#include <string_view>
#include <vector>

#include "base/netns.hpp"
#include "base/result.hpp"
#include "netlink/message.hpp"

namespace xveth::netlink {

// A netlink socket bound in one namespace, where it stays: the calling thread is there only while it is opened.
// Errors have code 100, the kernel's errno and its own sentence: "WHAT: Invalid argument (kernel: mtu greater than …)".
// The kernel works on a request within the sending system call, so answers wait for us, never we for them.
class Socket {
public:
    [[nodiscard]] static Result<Socket> open(const Netns& ns, int protocol);

    // Sends and takes the kernel's yes or no.
    [[nodiscard]] Result<void> execute(Message& message, std::string_view what);
    // Asks for one object. errno ENOENT also when the kernel grants the request without an answer.
    [[nodiscard]] Result<Received> get(Message& message, std::string_view what);
    // Asks for all objects. What the kernel marks as interrupted by changes is asked again, five times at most; then
    // errno_value is EINTR.
    [[nodiscard]] Result<std::vector<Received>> dump(Message& message, std::string_view what);
    // Sends several messages at once (an nfnetlink batch: all of them take effect or none) and takes all the answers; the
    // first error counts.
    [[nodiscard]] Result<void> execute_batch(std::vector<Message>& messages, std::string_view what);
    // Hears what the kernel tells everybody of `group` (RTNLGRP_*); such a socket is for nothing else.
    [[nodiscard]] Result<void> subscribe(int group);
    // The next of it; nothing when there is nothing yet. errno_value is ENOBUFS when some was lost.
    [[nodiscard]] Result<std::vector<Received>> take_notices(std::string_view what);
    [[nodiscard]] int fd() const;

private:
    struct Free {
        void operator()(nl_sock* socket) const { nl_socket_free(socket); }
    };
    explicit Socket(std::unique_ptr<nl_sock, Free> socket) : socket_(std::move(socket)) {}

    [[nodiscard]] Result<void> switch_on(int option);
    [[nodiscard]] std::uint32_t stamp(Message& message);
    [[nodiscard]] Result<std::uint32_t> send(Message& message, int flags, std::string_view what);
    [[nodiscard]] Result<bool> dump_once(Message& message, std::string_view what, std::vector<Received>& objects);
    // One datagram, as the messages in it; empty when `flags` has MSG_DONTWAIT and nothing is there.
    [[nodiscard]] Result<std::vector<Received>> receive(int flags, std::string_view what);

    std::unique_ptr<nl_sock, Free> socket_;
};

// What an NLMSG_ERROR or NLMSG_DONE message says; success for errno 0.
[[nodiscard]] Result<void> verdict_of(const Received& answer, std::string_view what);

}  // namespace xveth::netlink
