// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include "attachment/json.hpp"
#include "ctl/commands.hpp"
#include "ctl/ports.hpp"
#include "ctl/table.hpp"

namespace xveth::ctl {
namespace {

using attachment::AttachmentRecord;
using attachment::OrderedJson;

OrderedJson program_to_json(const AttachmentRecord& record) {
    OrderedJson out;
    out["attachment"] = attachment_name(record.key);
    out["hostEnd"] = record.host_end;
    out["object"] = record.program->object;
    out["program"] = record.program->program;
    out["id"] = record.program->id;
    out["frags"] = record.program->frags;
    out["maps"] = maps_directory(record);
    return out;
}

// Each container's programs and maps are open at the same time while they are exchanged.
void raise_descriptor_limit() {
    struct rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<Output> list_programs(attachment::Node& node, Form form) {
    auto records = node.store.list_all();
    if (!records) return std::move(records.error());
    std::erase_if(*records, [](const AttachmentRecord& record) { return !record.program; });
    if (form == Form::json) {
        OrderedJson out;
        out["programs"] = OrderedJson::array();
        for (const AttachmentRecord& record : *records) out["programs"].push_back(program_to_json(record));
        return Output{.text = attachment::dump_json(out) + "\n"};
    }
    std::vector<std::vector<std::string>> lines{{"OBJECT", "PROGRAM", "ID", "KIND", "ATTACHMENT", "MAPS"}};
    for (const AttachmentRecord& record : *records)
        lines.push_back({record.program->object, record.program->program, std::to_string(record.program->id),
                         record.program->frags ? "frags" : "plain", attachment_name(record.key),
                         maps_directory(record)});
    return Output{.text = format_table(lines)};
}

Result<Output> replace_programs(attachment::Node& node, const attachment::ProgramSelection& selection) {
    raise_descriptor_limit();
    auto replaced = attachment::replace_programs(node, selection);
    if (!replaced) return std::move(replaced.error());
    Output output;
    for (const auto& program : *replaced)
        output.text += attachment_name(program.key) + ": " + program.file + " is program " +
                       std::to_string(program.to) + " now, was " + std::to_string(program.from) + "\n";
    if (replaced->empty()) output.text = "no container runs such a program\n";
    return output;
}

}  // namespace xveth::ctl
