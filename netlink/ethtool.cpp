// SPDX-License-Identifier: Apache-2.0
#include <linux/ethtool.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <netlink/genl/genl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "netlink/messages.hpp"
#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

Message encode_request(std::uint16_t family, std::uint8_t command, int header_type, IfIndex device) {
    Message message(family, 0);
    message.header(genlmsghdr{.cmd = command, .version = ETHTOOL_GENL_VERSION, .reserved = 0});
    message.nest(header_type, [&](Message& header) {
        header.put_u32(ETHTOOL_A_HEADER_DEV_INDEX, static_cast<std::uint32_t>(device));
    });
    return message;
}

// visit(name, value) for each bit that a bitset lists by name.
template <class Visit>
void for_each_bit(const Attributes& bitset, Visit visit) {
    bitset.nested(ETHTOOL_A_BITSET_BITS).for_each([&](int, const Attributes& bit) {
        visit(bit.text(ETHTOOL_A_BITSET_BIT_NAME), bit.has(ETHTOOL_A_BITSET_BIT_VALUE));
    });
}

// HW lists every feature there is, with those that can be changed set; ACTIVE and NOCHANGE list what is in them.
std::map<std::string, FeatureState> parse_features(const Attributes& attributes) {
    std::map<std::string, FeatureState> features;
    for_each_bit(attributes.nested(ETHTOOL_A_FEATURES_HW),
                 [&](const std::string& name, bool in_hardware) { features[name].changeable = in_hardware; });
    for_each_bit(attributes.nested(ETHTOOL_A_FEATURES_NOCHANGE),
                 [&](const std::string& name, bool) { features[name].changeable = false; });
    for_each_bit(attributes.nested(ETHTOOL_A_FEATURES_ACTIVE),
                 [&](const std::string& name, bool) { features[name].active = true; });
    return features;
}

// Those that have another value than the wanted one. A feature that the kernel does not know is off.
std::vector<Feature> differing(const std::map<std::string, FeatureState>& now, const std::vector<Feature>& wanted) {
    std::vector<Feature> others;
    for (const auto& feature : wanted) {
        const auto known = now.find(feature.name);
        const bool active = known != now.end() && known->second.active;
        if (active != feature.on) others.push_back(feature);
    }
    return others;
}

Error refused(IfIndex device, const std::vector<Feature>& features, std::string_view why) {
    std::string text = "set features of " + device_text(device) + ":";
    for (const auto& feature : features) text += " " + feature.name + (feature.on ? " on" : " off");
    return {.code = 100, .errno_value = EOPNOTSUPP, .text = text + ": " + std::string(why), .hint = {}};
}

// `ethtool -S` by ioctl: the strings of driver statistics have no message of their own in netlink that also has values.
class StatisticsReader {
public:
    StatisticsReader(int socket, const std::string& device) : socket_(socket) {
        std::copy_n(device.begin(), std::min<std::size_t>(device.size(), IFNAMSIZ - 1), request_.ifr_name);
    }

    Result<std::map<std::string, std::uint64_t>> read() {
        ethtool_drvinfo info{};
        info.cmd = ETHTOOL_GDRVINFO;
        auto told = call(&info);
        if (!told && told.error().errno_value == EOPNOTSUPP) return std::map<std::string, std::uint64_t>{};
        if (!told) return std::move(told.error());
        if (info.n_stats == 0) return std::map<std::string, std::uint64_t>{};
        auto names = read_block<ethtool_gstrings>(ETHTOOL_GSTRINGS, info.n_stats, ETH_GSTRING_LEN);
        if (!names) return std::move(names.error());
        auto values = read_block<ethtool_stats>(ETHTOOL_GSTATS, info.n_stats, sizeof(std::uint64_t));
        if (!values) return std::move(values.error());
        return pair_up(*names, *values, info.n_stats);
    }

private:
    // A header that is followed by `count` elements.
    template <class Header>
    Result<std::vector<std::uint8_t>> read_block(std::uint32_t command, std::uint32_t count, std::size_t element) {
        Header header{};
        header.cmd = command;
        if constexpr (requires { header.string_set; }) {
            header.string_set = ETH_SS_STATS;
            header.len = count;
        } else {
            header.n_stats = count;
        }
        std::vector<std::uint8_t> block(sizeof header + count * element);
        std::memcpy(block.data(), &header, sizeof header);
        if (auto read = call(block.data()); !read) return std::move(read.error());
        block.erase(block.begin(), block.begin() + sizeof header);
        return block;
    }

    Result<void> call(void* argument) {
        request_.ifr_data = static_cast<char*>(argument);
        if (::ioctl(socket_, SIOCETHTOOL, &request_) == 0) return ok();
        return errno_error(errno, std::string("read driver statistics of ") + request_.ifr_name).with_code(100);
    }

    static std::map<std::string, std::uint64_t> pair_up(const std::vector<std::uint8_t>& names,
                                                        const std::vector<std::uint8_t>& values, std::size_t count) {
        std::map<std::string, std::uint64_t> statistics;
        for (std::size_t i = 0; i < count; ++i) {
            const auto* name = reinterpret_cast<const char*>(names.data()) + i * ETH_GSTRING_LEN;
            std::uint64_t value = 0;
            std::memcpy(&value, values.data() + i * sizeof value, sizeof value);
            statistics[std::string(name, ::strnlen(name, ETH_GSTRING_LEN))] = value;
        }
        return statistics;
    }

    int socket_;
    ifreq request_{};
};

Result<UniqueFd> open_ioctl_socket(const Netns& ns) {
    auto scope = NetnsScope::enter(ns);
    if (!scope) return std::move(scope.error()).with_code(100);
    UniqueFd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    if (!socket.valid()) return errno_error(errno, "open a socket for driver statistics").with_code(100);
    return socket;
}

}  // namespace

Message encode_set_features(std::uint16_t family, IfIndex device, const std::vector<Feature>& features) {
    auto message = encode_request(family, ETHTOOL_MSG_FEATURES_SET, ETHTOOL_A_FEATURES_HEADER, device);
    message.nest(ETHTOOL_A_FEATURES_WANTED, [&](Message& bitset) {
        bitset.nest(ETHTOOL_A_BITSET_BITS, [&](Message& bits) {
            for (const auto& feature : features)
                bits.nest(ETHTOOL_A_BITSET_BITS_BIT, [&](Message& bit) {
                    bit.put_text(ETHTOOL_A_BITSET_BIT_NAME, feature.name);
                    if (feature.on) bit.put_flag(ETHTOOL_A_BITSET_BIT_VALUE);
                });
        });
    });
    return message;
}

Result<Socket*> SystemRtnl::generic() {
    if (generic_) return &*generic_;
    auto socket = Socket::open(ns_, NETLINK_GENERIC);
    if (!socket) return std::move(socket.error());
    generic_ = std::move(*socket);
    return &*generic_;
}

Result<std::uint16_t> SystemRtnl::generic_family(const std::string& name) {
    if (const auto known = generic_families_.find(name); known != generic_families_.end()) return known->second;
    auto socket = generic();
    if (!socket) return std::move(socket.error());
    Message message(GENL_ID_CTRL, 0);
    message.header(genlmsghdr{.cmd = CTRL_CMD_GETFAMILY, .version = 1, .reserved = 0})
        .put_text(CTRL_ATTR_FAMILY_NAME, name);
    auto answer = (*socket)->get(message, "look for generic netlink family " + name);
    if (!answer) return std::move(answer.error());
    return generic_families_[name] = answer->attributes<genlmsghdr>().u16(CTRL_ATTR_FAMILY_ID);
}

Result<std::map<std::string, FeatureState>> SystemRtnl::features(IfIndex device) {
    auto family = generic_family(ETHTOOL_GENL_NAME);
    if (!family) return std::move(family.error());
    auto message = encode_request(*family, ETHTOOL_MSG_FEATURES_GET, ETHTOOL_A_FEATURES_HEADER, device);
    auto answer = (*generic())->get(message, "read features of " + device_text(device));
    if (!answer) return std::move(answer.error());
    return parse_features(answer->attributes<genlmsghdr>());
}

// The kernel sets what it can and calls that a success, so the values are read back.
Result<void> SystemRtnl::set_features(IfIndex device, const std::vector<Feature>& wanted) {
    auto now = features(device);
    if (!now) return std::move(now.error());
    const auto changes = differing(*now, wanted);
    if (changes.empty()) return ok();
    auto impossible = changes;
    std::erase_if(impossible, [&](const Feature& feature) {
        const auto known = now->find(feature.name);
        return known != now->end() && known->second.changeable;
    });
    if (!impossible.empty()) return refused(device, impossible, "unknown here, or fixed");

    auto message = encode_set_features(generic_families_.at(ETHTOOL_GENL_NAME), device, changes);
    auto set = (*generic())->execute(message, "set features of " + device_text(device));
    if (!set) return set;
    auto then = features(device);
    if (!then) return std::move(then.error());
    const auto unchanged = differing(*then, wanted);
    return unchanged.empty() ? ok() : refused(device, unchanged, "the device did not follow");
}

Result<Channels> SystemRtnl::channels(IfIndex device) {
    auto family = generic_family(ETHTOOL_GENL_NAME);
    if (!family) return std::move(family.error());
    auto message = encode_request(*family, ETHTOOL_MSG_CHANNELS_GET, ETHTOOL_A_CHANNELS_HEADER, device);
    auto answer = (*generic())->get(message, "read channels of " + device_text(device));
    if (!answer) return std::move(answer.error());
    const auto attributes = answer->attributes<genlmsghdr>();
    const std::uint32_t combined = attributes.u32(ETHTOOL_A_CHANNELS_COMBINED_COUNT);
    return Channels{.rx = attributes.u32(ETHTOOL_A_CHANNELS_RX_COUNT) + combined,
                    .tx = attributes.u32(ETHTOOL_A_CHANNELS_TX_COUNT) + combined};
}

Result<std::map<std::string, std::uint64_t>> SystemRtnl::driver_statistics(IfIndex device) {
    auto link = find_link(device);
    if (!link) return std::move(link.error());
    if (!*link) return errno_error(ENODEV, "read driver statistics of " + device_text(device)).with_code(100);
    auto socket = open_ioctl_socket(ns_);
    if (!socket) return std::move(socket.error());
    return StatisticsReader(socket->get(), (*link)->name).read();
}

}  // namespace xveth::netlink
