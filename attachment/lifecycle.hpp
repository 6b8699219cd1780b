// SPDX-License-Identifier: Apache-2.0
// What several verbs share: who is meant, the attachment's lock, the container's namespace, and taking down.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "attachment/state_store.hpp"
#include "attachment/verbs.hpp"
#include "base/file_lock.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"
#include "datapath/addressing.hpp"
#include "datapath/nic.hpp"
#include "netlink/rtnl.hpp"

namespace xveth::attachment {

[[nodiscard]] AttachmentKey key_of(const NetConf& conf, const Request& request);

// One verb at a time on one attachment. The lock's file goes with its holder, whatever way the verb ends.
class AttachmentLock {
public:
    explicit AttachmentLock(FileLock lock) : lock_(std::move(lock)) {}
    AttachmentLock(AttachmentLock&&) = default;
    AttachmentLock& operator=(AttachmentLock&&) = delete;
    ~AttachmentLock() { lock_.remove_file(); }

private:
    FileLock lock_;
};

// Code 11 when another process holds it for too long.
[[nodiscard]] Result<AttachmentLock> lock_attachment(const Node& node, const AttachmentKey& key);

// The container's namespace, entered only to open what works there.
struct Container {
    Netns ns;
    std::unique_ptr<netlink::Rtnl> rtnl;
};

// Code 4 for a path that is no network namespace, 8 for the node's own.
[[nodiscard]] Result<Container> open_container(Node& node, const Request& request);

// Name of the host end: "xv" and the key's hash.
[[nodiscard]] std::string host_end_name(const AttachmentKey& key);

// Takes down all that an ADD of `record`'s attachment may have made, but the lease and the record: map entries,
// programs, masquerading, devices; a chained device gets its offloads back. Every step is tried, the first error
// returned. `record` may be incomplete (an ADD that was killed) or made up from its key alone (a lost record).
[[nodiscard]] Result<void> take_down(Node& node, const AttachmentRecord& record);

// The NICs that a configuration means.
[[nodiscard]] datapath::NicRequest nic_request(const NetConf& conf);

// Layer 3 of an attachment: from what IPAM answered (ADD) or from what ADD answered (CHECK).
// `path_mtu`: MTU of destinations beyond the node's containers where the link's is larger, else 0.
[[nodiscard]] datapath::AddressPlan plan_addresses(const NetConf& conf, const CniResult& result,
                                                   std::uint32_t path_mtu);

// MTU of the pair: `path_mtu`, or the larger localMtu where it is on. The default (65000) holds for IPv4-only routed
// networks whose program takes multi-buffer frames (xv_pod's; `frags`: the operator's does); sockets that ignore a route's
// MTU would lose IPv6 datagrams.
[[nodiscard]] std::uint32_t link_mtu(const NetConf& conf, std::uint32_t path_mtu, bool frags);

}  // namespace xveth::attachment
