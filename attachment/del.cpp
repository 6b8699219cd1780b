// SPDX-License-Identifier: Apache-2.0
// DEL: everything of one attachment goes, from (network, container id, ifname) alone; as often as it is called.
#include "attachment/bridged.hpp"
#include "attachment/lifecycle.hpp"
#include "attachment/verbs.hpp"

namespace xveth::attachment {
namespace {

// Where the record is lost, names and pins still follow from the key.
AttachmentRecord record_of_key(const AttachmentKey& key) {
    AttachmentRecord record;
    record.key = key;
    record.host_end = host_end_name(key);
    return record;
}

}  // namespace

Result<void> del(Node& node, const NetConf& conf, const Request& request, Notes&) {
    const AttachmentKey key = key_of(conf, request);
    auto lock = lock_attachment(node, key);
    if (!lock) return std::move(lock.error());
    auto record = node.store.find(key);
    if (!record) return std::move(record.error());

    auto down = take_down(node, record->value_or(record_of_key(key)));
    // Behind another plugin the addresses are that plugin's; without IPAM there is no lease.
    const bool has_lease = !conf.ipam_type.empty() && !(*record && (*record)->chained);
    Result<void> freed = has_lease ? node.ipam.del(conf, request) : ok();
    if (!down) return down;
    if (!freed) return freed;
    // The record stays until all is done: a DEL that is repeated then knows what is left.
    if (auto removed = node.store.remove_if_present(key); !removed) return removed;
    // Without a record nobody knows whether there was a bridge.
    return !*record || (*record)->bridged ? remove_unused_bridge(node, key.network) : ok();
}

}  // namespace xveth::attachment
