// SPDX-License-Identifier: Apache-2.0
#include "datapath/node.hpp"

namespace xveth::datapath {

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
    return node.bpf.ensure_loaded();
}

}  // namespace xveth::datapath
