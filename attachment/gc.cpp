// SPDX-License-Identifier: Apache-2.0
// GC: attachments of this network that the runtime no longer names, and map entries whose device is gone.
#include <algorithm>

#include "attachment/bridged.hpp"
#include "attachment/lifecycle.hpp"
#include "attachment/verbs.hpp"
#include "datapath/arming.hpp"
#include "datapath/chain.hpp"
#include "datapath/port.hpp"

namespace xveth::attachment {
namespace {

// Several errors, reported together.
class Errors {
public:
    void keep(const std::string& what, Result<void> step) {
        if (step) return;
        if (!first_) {
            first_ = std::move(step.error()).in(what);
        } else {
            first_->text += "; " + what + ": " + step.error().text;
        }
    }
    Result<void> take() {
        if (first_) return std::move(*first_);
        return ok();
    }

private:
    std::optional<Error> first_;
};

bool is_valid(const NetConf& conf, const AttachmentKey& key) {
    return std::ranges::any_of(*conf.valid_attachments, [&](const auto& valid) {
        return valid.first == key.container_id && valid.second == key.ifname;
    });
}

// A DEL with what the attachment's ADD was given: the network's configuration may have changed since.
Result<void> collect(Node& node, const NetConf& conf, const Request& request, const AttachmentRecord& record,
                     Notes& notes) {
    const Request as_added{.container_id = record.key.container_id,
                           .netns_path = {},
                           .ifname = record.key.ifname,
                           .args = record.args,
                           .plugin_path = request.plugin_path};
    auto added_with = parse_net_conf(record.conf, record.args, record.key.ifname);
    notes.push_back("collected " + record.key.alias());
    return del(node, added_with ? *added_with : conf, as_added, notes);
}

// Ports whose device is gone and that no record knows: a container's whose DEL never came and whose state was lost, or a
// NIC's.
Result<void> collect_lost_ports(Node& node, Notes& notes) {
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded || !*loaded) return loaded ? ok() : Result<void>(std::move(loaded.error()));
    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    auto records = node.store.list_all();
    if (!records) return std::move(records.error());
    auto ports = node.path.bpf.list_ports();
    if (!ports) return std::move(ports.error());
    for (const auto& [id, port] : *ports) {
        const bool known = std::ranges::any_of(
            *records, [&, ifindex = port.ifindex](const AttachmentRecord& r) { return r.host_ifindex == ifindex; });
        if (known) continue;
        auto link = node.path.rtnl.find_link(netlink::IfIndex{port.ifindex});
        if (!link) return std::move(link.error());
        if (*link) continue;
        auto addresses = datapath::addresses_of(node.path, id);
        if (!addresses) return std::move(addresses.error());
        if (auto gone = datapath::retire_dead_port(node.path, *lock, id, *addresses); !gone) return gone;
        notes.push_back("collected port " + std::to_string(static_cast<std::uint32_t>(id)) + ", whose device is gone");
    }
    return datapath::free_chains_without_members(node.path, *lock);
}

// Pinned links whose device is gone keep programs alive for nothing.
Result<void> collect_dead_links(Node& node, Notes& notes) {
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded || !*loaded) return loaded ? ok() : Result<void>(std::move(loaded.error()));
    auto pins = node.path.bpf.list_links();
    if (!pins) return std::move(pins.error());
    for (const auto& pin : *pins) {
        auto link = node.path.bpf.find_link(pin);
        if (!link) return std::move(link.error());
        if (!*link || (*link)->ifindex != 0) continue;
        if (auto removed = node.path.bpf.remove_link_if_present(pin); !removed) return removed;
        notes.push_back("collected link " + pin + ", whose device is gone");
    }
    return ok();
}

// Maps of an operator's program that no record knows and no link runs: a lost record's.
Result<void> collect_lost_maps(Node& node, Notes& notes) {
    auto places = node.path.programs.list_places();
    if (!places) return std::move(places.error());
    if (places->empty()) return ok();
    auto records = node.store.list_all();
    if (!records) return std::move(records.error());
    for (const auto& place : *places) {
        const auto& hash = place.attachment;
        if (std::ranges::any_of(*records, [&](const auto& record) { return record.key.hash() == hash; })) continue;
        auto link = node.path.bpf.find_link(datapath::container_pin(hash));
        if (!link) return std::move(link.error());
        if (*link && (*link)->ifindex != 0) continue;
        if (auto gone = datapath::remove_program_maps(node.path, hash, {}); !gone) return gone;
        notes.push_back("collected maps of a program in pods/" + place.directory);
    }
    return ok();
}

// Lock files of verbs that were killed before or after there was a record. One that is held is in use.
Result<void> collect_locks(Node& node) {
    auto paths = node.store.list_lock_paths();
    if (!paths) return std::move(paths.error());
    for (const auto& path : *paths)
        if (auto lock = FileLock::acquire(path, std::chrono::milliseconds(0))) lock->remove_file();
    return ok();
}

}  // namespace

Result<void> gc(Node& node, const NetConf& conf, const Request& request, Notes& notes) {
    if (!conf.valid_attachments) return ok();  // the runtime gave no list: it does not know, so nothing is garbage
    auto records = node.store.list(conf.name);
    if (!records) return std::move(records.error());
    Errors errors;
    for (const auto& record : *records)
        if (record.owner == "cni" && !is_valid(conf, record.key))
            errors.keep(record.key.container_id + "/" + record.key.ifname, collect(node, conf, request, record, notes));
    errors.keep("bridge", remove_unused_bridge(node, conf.name));
    errors.keep("lost ports", collect_lost_ports(node, notes));
    errors.keep("dead links", collect_dead_links(node, notes));
    errors.keep("lost maps", collect_lost_maps(node, notes));
    errors.keep("lock files", collect_locks(node));
    if (!conf.ipam_type.empty()) errors.keep("IPAM", node.ipam.gc(conf, request));
    return errors.take();
}

}  // namespace xveth::attachment
