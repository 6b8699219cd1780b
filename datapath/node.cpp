// SPDX-License-Identifier: Apache-2.0
#include "datapath/node.hpp"

#include <cerrno>

namespace xveth::datapath {
namespace {

// A TCP flow that falls to the stack brings conntrack an unknown window scale: what exceeds the unscaled window would be
// INVALID, and dropped by kube-proxy's rules.
void prepare_conntrack(Node& node, std::vector<std::string>& notes) {
    // Without conntrack in the kernel the programs could not ask it, and would be loaded in their lesser form.
    (void)node.nft.load_conntrack();
    auto set = node.sysctls.ensure(node.ns, conntrack_liberal, "1");
    if (!set && set.error().errno_value != ENOENT)
        notes.push_back("TCP that leaves the fast path may be taken for invalid: " + set.error().text);
}

}  // namespace

Result<NodeLock> NodeLock::acquire(const Node& node) {
    auto lock = FileLock::acquire(node.lock_path, node.lock_patience);
    if (!lock) {
        const bool busy = lock.error().errno_value == EWOULDBLOCK;
        return std::move(lock.error()).in("node lock").with_code(busy ? 11 : 104);
    }
    return NodeLock{std::move(*lock)};
}

Result<void> ensure_objects(Node& node, std::vector<std::string>& notes) {
    auto loaded = node.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (*loaded) return ok();
    auto lock = NodeLock::acquire(node);
    if (!lock) return std::move(lock.error());
    prepare_conntrack(node, notes);
    return node.bpf.ensure_loaded();
}

}  // namespace xveth::datapath
