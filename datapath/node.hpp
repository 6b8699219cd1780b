// SPDX-License-Identifier: Apache-2.0
// A node: one host network namespace with everything that its ports share.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/file_lock.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"
#include "base/sysctl.hpp"
#include "bpf-progs/loader/bridges.hpp"
#include "bpf-progs/loader/objects.hpp"
#include "bpf-progs/loader/operator_programs.hpp"
#include "netlink/nftables.hpp"
#include "netlink/rtnl.hpp"

namespace xveth::datapath {

struct Node {
    const Netns& ns;
    netlink::Kernel& kernel;
    netlink::Rtnl& rtnl;     // of `ns`
    netlink::Nftables& nft;  // of `ns`
    bpf::Objects& bpf;
    bpf::Bridges& bridges;
    bpf::OperatorPrograms& programs;
    Sysctls& sysctls;
    std::string lock_path;  // the node lock's file
    std::chrono::milliseconds lock_patience{std::chrono::seconds(20)};
};

// Proof that the node lock is held. What it guards: loading the shared objects, NIC ports, allocation of port ids, and
// the check-then-insert of addresses, whose a directory of program maps is. Everything of one attachment alone is guarded by that attachment's lock, which is
// always taken first.
class NodeLock {
public:
    // Code 11 ("try again later") when another process holds it for longer than the node's patience.
    [[nodiscard]] static Result<NodeLock> acquire(const Node& node);

private:
    explicit NodeLock(FileLock lock) : lock_(std::move(lock)) {}
    FileLock lock_;
};

// By which conntrack forgives a TCP flow that it has not seen from its beginning (docs/design/0003).
inline const std::string conntrack_liberal = "net/netfilter/nf_conntrack_tcp_be_liberal";

// Opens the shared objects, loading them first where this is the node's first port. What could not be prepared and is not
// needed goes to `notes`.
[[nodiscard]] Result<void> ensure_objects(Node& node, std::vector<std::string>& notes);

}  // namespace xveth::datapath
