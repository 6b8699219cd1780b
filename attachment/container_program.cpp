// SPDX-License-Identifier: Apache-2.0
#include "attachment/container_program.hpp"

#include <algorithm>

#include "attachment/chains.hpp"
#include "attachment/container_requests.hpp"

namespace xveth::attachment {
namespace {

// bpffs refuses names with dots. No id and no interface's name has '%'.
std::string without_dots(std::string name) {
    std::replace(name.begin(), name.end(), '.', '%');
    return name;
}

std::string pod_uid(const Request& request) {
    for (const auto& [key, value] : parse_cni_args(request.args))
        if (key == "K8S_POD_UID") return value;
    return {};
}

}  // namespace

Result<std::optional<ProgramRecord>> wanted_program(const NetConf& conf, const Request& request) {
    constexpr std::size_t longest_file_name = 255;
    if (conf.container_xdp != ContainerXdp::program) return std::optional<ProgramRecord>{};
    const std::string uid = pod_uid(request);
    const std::string owner = uid.empty() ? request.container_id : uid;
    if (!is_valid_name(owner) || owner.size() > longest_file_name)
        return Error{.code = 7,
                     .errno_value = 0,
                     .text = std::string(uid.empty() ? "CNI_CONTAINERID" : "CNI_ARGS key \"K8S_POD_UID\"") +
                             ": value \"" + owner + "\" cannot name the directory of the program's maps",
                     .hint = {}};
    return std::optional{ProgramRecord{.object = conf.container_program->object,
                                       .program = conf.container_program->program,
                                       .maps = without_dots(owner) + "/" + without_dots(request.ifname)}};
}

bpf::ProgramChoice choice_of(const ProgramRecord& program) {
    return {.object = program.object, .program = program.program};
}

bpf::InstancePlace place_of(const AttachmentRecord& record) {
    return {.attachment = record.key.hash(), .directory = record.program ? record.program->maps : ""};
}

Result<std::optional<bpf::ProgramInstance>> load_program(Node& node, AttachmentRecord& record) {
    if (!record.program) return std::optional<bpf::ProgramInstance>{};
    auto loaded = node.path.programs.load(choice_of(*record.program), bpf::MapReuse::none, place_of(record));
    if (!loaded) return std::move(loaded.error());
    record.program->program = loaded->traits.name;
    record.program->frags = loaded->traits.frags;
    record.program->id = loaded->id;
    return std::optional{std::move(*loaded)};
}

datapath::ArmSpec arm_spec(const NetConf& conf, const AttachmentRecord& record,
                           const std::optional<bpf::ProgramInstance>& program) {
    return {.pin = record.key.hash(),
            .managed = conf.container_xdp == ContainerXdp::managed,
            .host_program = host_program(record),
            .program = program ? &*program : nullptr,
            .maps = record.program ? record.program->maps : "",
            .guarded = conf.protected_by.has_value()};
}

}  // namespace xveth::attachment
