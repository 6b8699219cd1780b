// SPDX-License-Identifier: Apache-2.0
// The node's ports, each with what else is known of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attachment/state_store.hpp"
#include "attachment/verbs.hpp"
#include "base/result.hpp"
#include "bpf-progs/loader/objects.hpp"
#include "netlink/types.hpp"

namespace xveth::ctl {

struct Port {
    bpf::PortId id = bpf::PortId::none;
    bpf::xv_port entry{};
    std::optional<netlink::Link> link;                   // its device; absent: gone
    std::optional<attachment::AttachmentRecord> record;  // a container's; absent: a NIC, or a lost record

    [[nodiscard]] bool is_nic() const { return (entry.flags & bpf::XV_PORT_NIC) != 0; }
    [[nodiscard]] std::string number() const { return std::to_string(static_cast<std::uint32_t>(id)); }
    [[nodiscard]] std::string name() const;  // of the device, or "ifindex N" when it is gone
};

// "network/container/ifname"
[[nodiscard]] std::string attachment_name(const attachment::AttachmentKey& key);

// Where the maps of an attachment's program are pinned. It has one.
[[nodiscard]] std::string maps_directory(const attachment::AttachmentRecord& record);

// Empty where nothing is loaded.
[[nodiscard]] Result<std::vector<Port>> list_ports(attachment::Node& node);

}  // namespace xveth::ctl
