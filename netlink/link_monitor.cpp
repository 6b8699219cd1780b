// SPDX-License-Identifier: Apache-2.0
#include "netlink/link_monitor.hpp"

#include <linux/rtnetlink.h>

#include <cerrno>
#include <utility>

#include "netlink/messages.hpp"
#include "netlink/socket.hpp"

namespace xveth::netlink {
namespace {

class SystemLinkMonitor final : public LinkMonitor {
public:
    explicit SystemLinkMonitor(Socket socket) : socket_(std::move(socket)) {}
    [[nodiscard]] int fd() const override { return socket_.fd(); }
    Result<LinkNotices> take() override;

private:
    Socket socket_;
};

// A bridge tells of its ports in messages of the same type: they know a part of the device only.
bool is_of_a_device(const Received& message) {
    const int type = message.raw().nlmsg_type;
    return (type == RTM_NEWLINK || type == RTM_DELLINK) && message.header<ifinfomsg>().ifi_family == AF_UNSPEC;
}

Result<LinkNotices> SystemLinkMonitor::take() {
    LinkNotices notices;
    for (;;) {
        auto messages = socket_.take_notices("listen for changes of devices");
        if (!messages && messages.error().errno_value == ENOBUFS) {
            notices.missed = true;
            continue;
        }
        if (!messages) return std::move(messages.error());
        if (messages->empty()) return notices;
        for (const auto& message : *messages)
            if (is_of_a_device(message))
                notices.list.push_back({.link = parse_link(message), .gone = message.raw().nlmsg_type == RTM_DELLINK});
    }
}

}  // namespace

Result<std::unique_ptr<LinkMonitor>> open_link_monitor(const Netns& ns) {
    auto socket = Socket::open(ns, NETLINK_ROUTE);
    if (!socket) return std::move(socket.error());
    if (auto joined = socket->subscribe(RTNLGRP_LINK); !joined) return std::move(joined.error());
    return std::unique_ptr<LinkMonitor>(std::make_unique<SystemLinkMonitor>(std::move(*socket)));
}

}  // namespace xveth::netlink
