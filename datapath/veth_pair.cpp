// SPDX-License-Identifier: Apache-2.0
#include "datapath/veth_pair.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/files.hpp"

namespace xveth::datapath {
namespace {

using netlink::Link;

// Locally administered, unicast. Both MACs are given at creation: set later, they would race with udev's.
Mac local_unicast(Mac mac) {
    mac.bytes[0] = static_cast<std::uint8_t>((mac.bytes[0] & 0xfcU) | 0x02U);
    return mac;
}

Mac random_mac() {
    Mac mac;
    if (::getrandom(mac.bytes.data(), mac.bytes.size(), 0) != static_cast<ssize_t>(mac.bytes.size()))
        mac.bytes = {0, 0, 0, 0, 0, static_cast<std::uint8_t>(::getpid())};
    return local_unicast(mac);
}

// The host end's MAC follows from its alias: the kernel takes no alias with the creation, so this is what tells a pair
// whose making was cut off before it had one from a stranger's.
Mac host_mac(const std::string& alias) {
    Mac mac;
    std::uint64_t hash = hash64(alias);
    for (auto& byte : mac.bytes) {
        byte = static_cast<std::uint8_t>(hash);
        hash >>= 8U;
    }
    return local_unicast(mac);
}

bool is_ours(const Link& link, const std::string& alias) {
    if (link.kind != "veth") return false;
    return link.alias == alias || (link.alias.empty() && link.mac == host_mac(alias));
}

Error name_is_taken(const Link& stranger) {
    const std::string kind = stranger.kind.empty() ? "device" : stranger.kind + " device";
    const std::string alias = stranger.alias.empty() ? "without an alias" : "of alias \"" + stranger.alias + "\"";
    return {.code = 100,
            .errno_value = EEXIST,
            .text = "create host end " + stranger.name + ": the node has a " + kind + " of this name, " + alias +
                    ", that xveth did not make",
            .hint = "rename or remove it: ip link set " + stranger.name + " name OTHER"};
}

Result<Link> get_link(netlink::Rtnl& rtnl, const std::string& name) {
    auto link = rtnl.find_link(name);
    if (!link) return std::move(link.error());
    if (!*link) return errno_error(ENODEV, "read back " + name).with_code(100);
    return std::move(**link);
}

Result<void> await_carrier_of(netlink::Rtnl& rtnl, const Link& end) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (;;) {
        auto now = rtnl.find_link(end.index);  // since Linux 6.8 this makes the kernel notice at once
        if (!now) return std::move(now.error());
        if (!*now) return errno_error(ENODEV, "wait for the carrier of " + end.name).with_code(100);
        if ((*now)->running) return ok();
        if (std::chrono::steady_clock::now() >= deadline)
            return errno_error(ETIMEDOUT, "wait for the carrier of " + end.name).with_code(100);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace

std::uint32_t queues_for(std::uint32_t wanted) {
    const long possible = ::sysconf(_SC_NPROCESSORS_CONF);
    const auto cpus = static_cast<std::uint32_t>(std::max(possible, 1L));
    return wanted == 0 ? cpus : std::min(wanted, cpus);
}

Result<std::optional<Link>> find_host_end(Node& node, const std::string& name, const std::string& alias) {
    auto link = node.rtnl.find_link(name);
    if (link && *link && !is_ours(**link, alias)) return std::optional<Link>{};
    return link;
}

Result<void> remove_veth_pair_if_present(Node& node, const std::string& name, const std::string& alias) {
    auto link = find_host_end(node, name, alias);
    if (!link) return std::move(link.error());
    if (!*link) return ok();
    return node.rtnl.remove_link_if_present((*link)->index);
}

Result<VethPair> create_veth_pair(Node& node, const Netns& container_ns, netlink::Rtnl& container,
                                  const VethPairSpec& spec) {
    if (auto stale = remove_veth_pair_if_present(node, spec.host_name, spec.alias); !stale)
        return std::move(stale.error());
    auto stranger = node.rtnl.find_link(spec.host_name);
    if (!stranger) return std::move(stranger.error());
    if (*stranger) return name_is_taken(**stranger);
    const netlink::VethSpec veth{.host = {.netns_fd = node.ns.fd(),
                                          .name = spec.host_name,
                                          .mac = host_mac(spec.alias),
                                          .no_ipv6_autoconf = true},
                                 .container = {.netns_fd = container_ns.fd(),
                                               .name = spec.container_name,
                                               .mac = spec.container_mac.value_or(random_mac()),
                                               .no_ipv6_autoconf = true},
                                 .mtu = spec.mtu,
                                 .queues = spec.queues};
    if (auto created = node.rtnl.create_veth(veth); !created) return std::move(created.error());

    auto host = get_link(node.rtnl, spec.host_name);
    if (!host) return std::move(host.error());
    if (auto named = node.rtnl.set_alias(host->index, spec.alias); !named) return std::move(named.error());
    auto inner = get_link(container, spec.container_name);
    if (!inner) return std::move(inner.error());
    return VethPair{.host = std::move(*host), .container = std::move(*inner)};
}

Result<void> await_carrier(Node& node, netlink::Rtnl& container, const VethPair& pair) {
    if (auto inner = await_carrier_of(container, pair.container); !inner) return inner;
    return await_carrier_of(node.rtnl, pair.host);
}

}  // namespace xveth::datapath
