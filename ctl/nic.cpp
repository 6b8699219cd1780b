// SPDX-License-Identifier: Apache-2.0
#include "datapath/nic.hpp"

#include "ctl/commands.hpp"
#include "datapath/node.hpp"

namespace xveth::ctl {

Result<Output> detach_nic(attachment::Node& node, const std::string& name) {
    auto nic = node.path.rtnl.find_link(name);
    if (!nic) return std::move(nic.error());
    if (!*nic) return Error{.code = 0, .errno_value = 0, .text = name + ": there is no such device", .hint = {}};
    Output nothing{.text = name + " runs no program of xveth\n"};
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (!*loaded) return nothing;

    auto lock = datapath::NodeLock::acquire(node.path);
    if (!lock) return std::move(lock.error());
    auto link = node.path.bpf.find_link(datapath::nic_pin(static_cast<std::uint32_t>((*nic)->index)));
    if (!link) return std::move(link.error());
    if (!*link) return nothing;
    if (auto detached = datapath::detach_nic(node.path, *lock, **nic); !detached)
        return std::move(detached.error()).in("detach " + name);
    return Output{.text = name + " is detached\n"};
}

}  // namespace xveth::ctl
