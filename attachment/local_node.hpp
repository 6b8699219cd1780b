// SPDX-License-Identifier: Apache-2.0
// The node that a process runs on: everything a verb works on, opened for the process's own network namespace.
#pragma once

#include <memory>
#include <string>

#include "attachment/ipam.hpp"
#include "attachment/state_store.hpp"
#include "attachment/verbs.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"
#include "base/sysctl.hpp"
#include "bpf-progs/loader/bridges.hpp"
#include "bpf-progs/loader/objects.hpp"
#include "bpf-progs/loader/operator_programs.hpp"
#include "datapath/node.hpp"
#include "netlink/nftables.hpp"
#include "netlink/rtnl.hpp"

namespace xveth::attachment {

class LocalNode {
public:
    // Opens sockets only: nothing is loaded, locked, mounted or written.
    [[nodiscard]] static Result<std::unique_ptr<LocalNode>> open();
    LocalNode(const LocalNode&) = delete;
    LocalNode& operator=(const LocalNode&) = delete;

    [[nodiscard]] Node& node() { return node_; }

private:
    LocalNode(Netns ns, std::uint64_t cookie, std::unique_ptr<netlink::Rtnl> rtnl,
              std::unique_ptr<netlink::Nftables> nft);

    Netns ns_;
    std::unique_ptr<netlink::Rtnl> rtnl_;
    std::unique_ptr<netlink::Nftables> nft_;
    std::unique_ptr<bpf::Objects> bpf_;
    std::unique_ptr<bpf::Bridges> bridges_;
    std::unique_ptr<bpf::OperatorPrograms> programs_;
    Sysctls sysctls_;
    StateStore store_;
    ExecIpam ipam_;
    datapath::Node path_;
    Node node_;
};

}  // namespace xveth::attachment
