// SPDX-License-Identifier: Apache-2.0
#include "attachment/local_node.hpp"

#include <cerrno>
#include <utility>

namespace xveth::attachment {
namespace {

constexpr const char* bpffs = "/sys/fs/bpf";
constexpr const char* programs_directory = "/etc/xveth/programs";
constexpr const char* run_directory = "/run/xveth/";
constexpr std::chrono::seconds ipam_patience{60};

}  // namespace

LocalNode::LocalNode(Netns ns, std::uint64_t cookie, std::unique_ptr<netlink::Rtnl> rtnl,
                     std::unique_ptr<netlink::Nftables> nft)
    : ns_(std::move(ns)),
      rtnl_(std::move(rtnl)),
      nft_(std::move(nft)),
      bpf_(bpf::open_pinned_objects(cookie, bpffs)),
      bridges_(bpf::open_pinned_bridges(cookie, bpffs)),
      programs_(bpf::open_operator_programs(cookie, bpffs, programs_directory)),
      store_(run_directory + std::to_string(cookie)),
      ipam_(ipam_patience),
      path_{.ns = ns_,
            .kernel = netlink::system_kernel(),
            .rtnl = *rtnl_,
            .nft = *nft_,
            .bpf = *bpf_,
            .bridges = *bridges_,
            .programs = *programs_,
            .sysctls = sysctls_,
            .lock_path = store_.node_lock_path()},
      node_{.path = path_, .store = store_, .ipam = ipam_} {}

Result<std::unique_ptr<LocalNode>> LocalNode::open() {
    auto ns = Netns::current();
    if (!ns) return std::move(ns.error()).or_code(100);
    auto cookie = ns->cookie();
    if (!cookie && cookie.error().errno_value != ENOPROTOOPT) return std::move(cookie.error()).or_code(100);
    if (!cookie) return std::move(cookie.error()).or_code(106).with_hint("xveth needs Linux 5.14 or newer");
    auto rtnl = netlink::system_kernel().open_rtnl(*ns);
    if (!rtnl) return std::move(rtnl.error());
    auto nft = netlink::open_nftables(*ns);
    if (!nft) return std::move(nft.error());
    return std::unique_ptr<LocalNode>(new LocalNode(std::move(*ns), *cookie, std::move(*rtnl), std::move(*nft)));
}

}  // namespace xveth::attachment
