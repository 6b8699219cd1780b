// SPDX-License-Identifier: Apache-2.0
#include "ctl/ports.hpp"

#include <algorithm>

namespace xveth::ctl {

std::string Port::name() const {
    if (link) return link->name;
    return "ifindex " + std::to_string(entry.ifindex);
}

std::string attachment_name(const attachment::AttachmentKey& key) {
    return key.network + "/" + key.container_id + "/" + key.ifname;
}

std::string maps_directory(const attachment::AttachmentRecord& record) {
    return "/sys/fs/bpf/xveth/pods/" + record.program->maps;
}

Result<std::vector<Port>> list_ports(attachment::Node& node) {
    std::vector<Port> ports;
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (!*loaded) return ports;
    auto entries = node.path.bpf.list_ports();
    if (!entries) return std::move(entries.error());
    auto records = node.store.list_all();
    if (!records) return std::move(records.error());
    for (const auto& [id, entry] : *entries) {
        Port port{.id = id, .entry = entry, .link = {}, .record = {}};
        auto link = node.path.rtnl.find_link(netlink::IfIndex{entry.ifindex});
        if (!link) return std::move(link.error());
        port.link = std::move(*link);
        const auto record = std::ranges::find_if(*records, [&, number = static_cast<std::uint32_t>(id)](const auto& r) {
            return r.port == number && r.host_ifindex == port.entry.ifindex;
        });
        if (record != records->end() && !port.is_nic()) port.record = *record;
        ports.push_back(std::move(port));
    }
    return ports;
}

}  // namespace xveth::ctl
