// SPDX-License-Identifier: Apache-2.0
// What the tests against the real kernel share: namespaces of their own, and short ways to say what must succeed.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/netns.hpp"
#include "base/result.hpp"
#include "netlink/rtnl.hpp"

namespace xveth::netlink::test {

// The value, or a test that ends here with the error's text.
template <class T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().text);
    return std::move(*result);
}
inline void must(Result<void> result) {
    if (!result) throw std::runtime_error(result.error().text);
}
template <class T>
T must_have(Result<std::optional<T>> result) {
    auto value = must(std::move(result));
    if (!value) throw std::runtime_error("absent");
    return std::move(*value);
}

// A namespace that nobody else sees, and its Rtnl.
struct Place {
    Netns ns = must(Netns::create());
    std::unique_ptr<Rtnl> rtnl = must(system_kernel().open_rtnl(ns));

    // Runs a command of the shell in it.
    void run(const std::string& command) const {
        const auto inside = must(NetnsScope::enter(ns));
        if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
    }
};

inline VethSpec veth_between(const Place& host, const Place& container, std::uint32_t mtu = 1500,
                             std::uint32_t queues = 2) {
    return {.host = {.netns_fd = host.ns.fd(),
                     .name = "xvhost",
                     .mac = *Mac::parse("02:fc:00:00:00:01"),
                     .no_ipv6_autoconf = true},
            .container = {.netns_fd = container.ns.fd(),
                          .name = "eth0",
                          .mac = *Mac::parse("02:fc:00:00:00:02"),
                          .no_ipv6_autoconf = true},
            .mtu = mtu,
            .queues = queues};
}

// A host and a container namespace with a pair between them, both ends up.
struct Pair {
    Place host;
    Place container;
    Link outer;
    Link inner;

    explicit Pair(std::uint32_t queues = 2) {
        must(host.rtnl->create_veth(veth_between(host, container, 1500, queues)));
        outer = must_have(host.rtnl->find_link("xvhost"));
        inner = must_have(container.rtnl->find_link("eth0"));
        must(host.rtnl->set_up(outer.index, true));
        must(container.rtnl->set_up(inner.index, true));
    }
};

inline IpAddress ip(const std::string& text) { return *IpAddress::parse(text); }
inline IpPrefix prefix(const std::string& text) { return *IpPrefix::parse(text); }

}  // namespace xveth::netlink::test
