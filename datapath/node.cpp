// SPDX-License-Identifier: Apache-2.0
#include "datapath/node.hpp"

namespace xveth::datapath {
namespace {

const std::string conntrack_liberal = "net/netfilter/nf_conntrack_tcp_be_liberal";

}  // namespace

Result<NodeLock> NodeLock::acquire(const Node& node) {
    auto lock = FileLock::acquire(node.lock_path, node.lock_patience);
    if (!lock) {
        const bool busy = lock.error().errno_value == EWOULDBLOCK;
        return std::move(lock.error()).in("node lock").with_code(busy ? 11 : 104);
    }
    return NodeLock{std::move(*lock)};
}

Result<void> ensure_objects(Node& node) {
    auto loaded = node.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (*loaded) return ok();
    auto lock = NodeLock::acquire(node);
    if (!lock) return std::move(lock.error());
    // Without conntrack in the kernel the programs could not ask it, and would be loaded in their lesser form.
    (void)node.nft.load_conntrack();
    // A TCP flow that falls to the stack brings conntrack an unknown window scale: what exceeds the unscaled window would be
    // INVALID, and dropped by kube-proxy's rules. Where this cannot be set (no conntrack, read-only /proc) ADD goes on.
    (void)node.sysctls.ensure(node.ns, conntrack_liberal, "1");
    return node.bpf.ensure_loaded();
}

}  // namespace xveth::datapath
