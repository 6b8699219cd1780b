// SPDX-License-Identifier: Apache-2.0
// STATUS: would an ADD with this configuration fail now? Reads only; takes no lock and loads nothing.
#include <cerrno>

#include "attachment/lifecycle.hpp"
#include "attachment/verbs.hpp"
#include "datapath/nic.hpp"

namespace xveth::attachment {
namespace {

constexpr int cannot_add = 50;

// A required NIC has to be there, and free of other people's programs.
Result<void> check_nics(Node& node, const NetConf& conf) {
    Notes notes;
    auto nics = datapath::choose_nics(node.path.rtnl, nic_request(conf), notes);
    if (!nics) return std::move(nics.error());
    if (!conf.nic_required) return ok();
    auto loaded = node.path.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    for (const auto& nic : *nics) {
        const auto index = static_cast<std::uint32_t>(nic.index);
        if (*loaded) {
            auto ours = node.path.bpf.find_link(datapath::nic_pin(index));
            if (!ours) return std::move(ours.error());
            if (*ours && (*ours)->ifindex == index) continue;
        }
        auto foreign = node.path.bpf.attached_program(node.path.ns, index);
        if (!foreign) return std::move(foreign.error());
        if (*foreign)
            return Error{.code = cannot_add,
                         .errno_value = EBUSY,
                         .text = "NIC " + nic.name + " carries XDP program " + std::to_string((*foreign)->id) + " \"" +
                                 (*foreign)->name + "\" (" + (*foreign)->mode + "), which is not ours",
                         .hint = "detach it, or set \"nicRequired\": false"};
    }
    return ok();
}

// The operator's program is there; whether the verifier takes it shows when it is loaded.
Result<void> check_program(Node& node, const NetConf& conf) {
    if (conf.container_xdp != ContainerXdp::program) return ok();
    auto found =
        node.path.programs.find({.object = conf.container_program->object, .program = conf.container_program->program});
    if (!found) return std::move(found.error());
    return ok();
}

}  // namespace

Result<void> status(Node& node, const NetConf& conf, const Request& request) {
    if (auto nics = check_nics(node, conf); !nics) return std::move(nics.error()).with_code(cannot_add);
    if (auto program = check_program(node, conf); !program) return std::move(program.error()).with_code(cannot_add);
    if (conf.ipam_type.empty()) return ok();
    auto ipam = node.ipam.status(conf, request);
    if (ipam) return ipam;
    const int code = ipam.error().code;
    return code == 50 || code == 51 ? std::move(ipam) : Result<void>(std::move(ipam.error()).with_code(cannot_add));
}

}  // namespace xveth::attachment
