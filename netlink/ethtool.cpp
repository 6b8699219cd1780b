// SPDX-License-Identifier: Apache-2.0
#include <linux/ethtool.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/unique_fd.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

Message ethtool_message(std::uint16_t family, std::uint8_t command, int header_attribute, IfIndex device) {
    Message message = make_message(family, 0, genlmsghdr{.cmd = command, .version = 1, .reserved = 0});
    nlattr* header = nla_nest_start(message.get(), header_attribute | NLA_F_NESTED);
    nla_put_u32(message.get(), ETHTOOL_A_HEADER_DEV_INDEX, static_cast<std::uint32_t>(device));
    nla_nest_end(message.get(), header);
    return message;
}

// The names in a bit set that lists its members (no mask).
std::set<std::string> names_of(nlattr* bitset) {
    std::set<std::string> names;
    if (bitset == nullptr) return names;
    nlattr* bits = nla_find(static_cast<nlattr*>(nla_data(bitset)), nla_len(bitset), ETHTOOL_A_BITSET_BITS);
    if (bits == nullptr) return names;
    nlattr* bit = nullptr;
    int left = 0;
    nla_for_each_nested(bit, bits, left) {
        nlattr* name = nla_find(static_cast<nlattr*>(nla_data(bit)), nla_len(bit), ETHTOOL_A_BITSET_BIT_NAME);
        if (name != nullptr) names.emplace(nla_get_string(name));
    }
    return names;
}

void put_wanted(nl_msg* message, const std::vector<Feature>& features) {
    nlattr* wanted = nla_nest_start(message, ETHTOOL_A_FEATURES_WANTED | NLA_F_NESTED);
    nlattr* bits = nla_nest_start(message, ETHTOOL_A_BITSET_BITS | NLA_F_NESTED);
    for (const auto& feature : features) {
        nlattr* bit = nla_nest_start(message, ETHTOOL_A_BITSET_BITS_BIT | NLA_F_NESTED);
        nla_put_string(message, ETHTOOL_A_BITSET_BIT_NAME, feature.name.c_str());
        if (feature.on) nla_put_flag(message, ETHTOOL_A_BITSET_BIT_VALUE);
        nla_nest_end(message, bit);
    }
    nla_nest_end(message, bits);
    nla_nest_end(message, wanted);
}

// The old ioctl interface: statistics have no netlink form for drivers' own counters.
class EthtoolIoctl {
public:
    EthtoolIoctl(int fd, const std::string& name) : fd_(fd) { std::strncpy(request_.ifr_name, name.c_str(), IFNAMSIZ - 1); }
    bool call(void* command) {
        request_.ifr_data = static_cast<char*>(command);
        return ::ioctl(fd_, SIOCETHTOOL, &request_) == 0;
    }

private:
    int fd_;
    ifreq request_{};
};

std::uint32_t statistics_count(EthtoolIoctl& device) {
    std::array<std::uint32_t, (sizeof(ethtool_sset_info) / 4) + 1> buffer{};
    auto* info = reinterpret_cast<ethtool_sset_info*>(buffer.data());
    info->cmd = ETHTOOL_GSSET_INFO;
    info->sset_mask = 1ULL << static_cast<unsigned>(ETH_SS_STATS);
    return device.call(info) && info->sset_mask != 0 ? buffer.back() : 0;
}

}  // namespace

Result<std::map<std::string, FeatureState>> SystemRtnl::features(IfIndex device) {
    auto family = genl_family(ETHTOOL_GENL_NAME);
    if (!family) return std::move(family.error());
    std::map<std::string, FeatureState> states;
    auto done = (*generic())->request(
        ethtool_message(*family, ETHTOOL_MSG_FEATURES_GET, ETHTOOL_A_FEATURES_HEADER, device), "read features",
        [&](nlmsghdr* header) {
            std::array<nlattr*, ETHTOOL_A_FEATURES_MAX + 1> a{};
            nlmsg_parse(header, GENL_HDRLEN, a.data(), ETHTOOL_A_FEATURES_MAX, nullptr);
            for (const auto& name : names_of(a[ETHTOOL_A_FEATURES_HW])) states[name].changeable = true;
            for (const auto& name : names_of(a[ETHTOOL_A_FEATURES_ACTIVE])) states[name].active = true;
            for (const auto& name : names_of(a[ETHTOOL_A_FEATURES_NOCHANGE])) states[name].changeable = false;
        });
    if (!done) return std::move(done.error());
    return states;
}

Result<void> SystemRtnl::set_features(IfIndex device, const std::vector<Feature>& features_wanted) {
    auto family = genl_family(ETHTOOL_GENL_NAME);
    if (!family) return std::move(family.error());
    Message message = ethtool_message(*family, ETHTOOL_MSG_FEATURES_SET, ETHTOOL_A_FEATURES_HEADER, device);
    put_wanted(message.get(), features_wanted);
    if (auto set = (*generic())->request(std::move(message), "set features"); !set) return set;
    // The kernel acknowledges a request that it could only partly fulfil.
    auto now = features(device);
    if (!now) return std::move(now.error());
    for (const auto& feature : features_wanted) {
        const auto state = now->find(feature.name);
        if ((state != now->end() && state->second.active) != feature.on)
            return Error{.code = 100,
                         .errno_value = EOPNOTSUPP,
                         .text = "feature " + feature.name + " stays " + (feature.on ? "off" : "on") + " on ifindex " +
                                 std::to_string(static_cast<std::uint32_t>(device)),
                         .hint = {}};
    }
    return ok();
}

Result<Channels> SystemRtnl::channels(IfIndex device) {
    auto family = genl_family(ETHTOOL_GENL_NAME);
    if (!family) return std::move(family.error());
    Channels channels;
    auto done = (*generic())->request(
        ethtool_message(*family, ETHTOOL_MSG_CHANNELS_GET, ETHTOOL_A_CHANNELS_HEADER, device), "read channels",
        [&](nlmsghdr* header) {
            std::array<nlattr*, ETHTOOL_A_CHANNELS_MAX + 1> a{};
            nlmsg_parse(header, GENL_HDRLEN, a.data(), ETHTOOL_A_CHANNELS_MAX, nullptr);
            const auto count = [&](std::size_t type) { return a.at(type) == nullptr ? 0 : nla_get_u32(a.at(type)); };
            const std::uint32_t combined = count(ETHTOOL_A_CHANNELS_COMBINED_COUNT);
            channels = {.rx = count(ETHTOOL_A_CHANNELS_RX_COUNT) + combined,
                        .tx = count(ETHTOOL_A_CHANNELS_TX_COUNT) + combined};
        });
    if (!done) return std::move(done.error());
    return channels;
}

Result<std::map<std::string, std::uint64_t>> SystemRtnl::driver_statistics(IfIndex device) {
    std::map<std::string, std::uint64_t> values;
    auto link = find_link(device);
    if (!link) return std::move(link.error());
    if (!*link) return errno_error(ENODEV, "read driver statistics").with_code(100);
    auto scope = NetnsScope::enter(ns_);
    if (!scope) return std::move(scope.error()).or_code(100);
    const UniqueFd fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    EthtoolIoctl ioctl(fd.get(), (*link)->name);
    const std::size_t count = statistics_count(ioctl);
    if (count == 0) return values;

    std::vector<std::uint32_t> names((sizeof(ethtool_gstrings) + count * ETH_GSTRING_LEN + 3) / 4);
    auto* strings = reinterpret_cast<ethtool_gstrings*>(names.data());
    strings->cmd = ETHTOOL_GSTRINGS;
    strings->string_set = ETH_SS_STATS;
    strings->len = static_cast<std::uint32_t>(count);
    std::vector<std::uint64_t> numbers(1 + count);
    auto* stats = reinterpret_cast<ethtool_stats*>(numbers.data());
    stats->cmd = ETHTOOL_GSTATS;
    stats->n_stats = static_cast<std::uint32_t>(count);
    if (!ioctl.call(strings) || !ioctl.call(stats)) return errno_error(errno, "read driver statistics").with_code(100);
    const char* text = reinterpret_cast<const char*>(names.data()) + sizeof(ethtool_gstrings);
    for (std::size_t i = 0; i < count; ++i)
        values[std::string(text + i * ETH_GSTRING_LEN, ::strnlen(text + i * ETH_GSTRING_LEN, ETH_GSTRING_LEN))] =
            numbers[i + 1];
    return values;
}

}  // namespace xveth::netlink
