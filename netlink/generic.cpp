// SPDX-License-Identifier: Apache-2.0
// Opening a namespace, and the generic netlink families.
#include <linux/genetlink.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>

#include <array>
#include <cerrno>
#include <fcntl.h>

#include "netlink/system_rtnl.hpp"

namespace xveth::netlink {
namespace {

class SystemKernel final : public Kernel {
public:
    Result<std::unique_ptr<Rtnl>> open_rtnl(const Netns& ns) override { return SystemRtnl::open(ns); }
};

}  // namespace

Kernel& system_kernel() {
    static SystemKernel kernel;
    return kernel;
}

Result<std::unique_ptr<Rtnl>> SystemRtnl::open(const Netns& ns) {
    auto own = ns.duplicate();
    if (!own) return std::move(own.error()).or_code(100);
    auto socket = Socket::open(ns, NETLINK_ROUTE);
    if (!socket) return std::move(socket.error());
    return std::unique_ptr<Rtnl>(new SystemRtnl(std::move(*own), std::move(*socket)));
}

Result<Socket*> SystemRtnl::generic() {
    if (!generic_) {
        auto socket = Socket::open(ns_, NETLINK_GENERIC);
        if (!socket) return std::move(socket.error());
        generic_.emplace(std::move(*socket));
    }
    return &*generic_;
}

Result<std::uint16_t> SystemRtnl::genl_family(const std::string& name) {
    if (const auto known = families_.find(name); known != families_.end()) return known->second;
    auto socket = generic();
    if (!socket) return std::move(socket.error());
    Message message = make_message(GENL_ID_CTRL, 0, genlmsghdr{.cmd = CTRL_CMD_GETFAMILY, .version = 1, .reserved = 0});
    nla_put_string(message.get(), CTRL_ATTR_FAMILY_NAME, name.c_str());
    std::uint16_t id = 0;
    auto done = (*socket)->request(std::move(message), "find genl family " + name, [&](nlmsghdr* header) {
        std::array<nlattr*, CTRL_ATTR_MAX + 1> a{};
        nlmsg_parse(header, GENL_HDRLEN, a.data(), CTRL_ATTR_MAX, nullptr);
        if (a[CTRL_ATTR_FAMILY_ID] != nullptr) id = nla_get_u16(a[CTRL_ATTR_FAMILY_ID]);
    });
    if (!done) return std::move(done.error());
    families_[name] = id;
    return id;
}

}  // namespace xveth::netlink
