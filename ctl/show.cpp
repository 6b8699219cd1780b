// SPDX-License-Identifier: Apache-2.0
#include "attachment/json.hpp"
#include "ctl/commands.hpp"
#include "ctl/ports.hpp"
#include "ctl/table.hpp"

namespace xveth::ctl {
namespace {

using attachment::AttachmentRecord;
using attachment::OrderedJson;

OrderedJson record_to_json(const AttachmentRecord& record) {
    OrderedJson out;
    out["attachment"] = attachment_name(record.key);
    out["network"] = record.key.network;
    out["containerID"] = record.key.container_id;
    out["ifname"] = record.key.ifname;
    out["pod"] = record.pod ? OrderedJson(*record.pod) : OrderedJson(nullptr);
    out["netns"] = record.netns_path;
    out["hostEnd"] = record.host_end;
    out["ifindex"] = record.host_ifindex;
    out["addresses"] = OrderedJson::array();
    for (const IpAddress& address : record.addresses) out["addresses"].push_back(address.to_string());
    out["port"] = record.port;
    out["containerXdp"] = record.container_xdp;
    if (record.program)
        out["program"] = {{"object", record.program->object},
                          {"program", record.program->program},
                          {"id", record.program->id},
                          {"maps", maps_directory(record)}};
    out["chained"] = record.chained;
    out["complete"] = record.complete;
    return out;
}

std::vector<std::string> record_to_line(const AttachmentRecord& record) {
    std::string addresses;
    for (const IpAddress& address : record.addresses) addresses += (addresses.empty() ? "" : ",") + address.to_string();
    return {record.host_end,
            addresses.empty() ? "-" : addresses,
            std::to_string(record.port),
            record.program ? record.program->object + ":" + record.program->program : record.container_xdp,
            record.complete ? "yes" : "no",
            record.pod.value_or("-"),
            attachment_name(record.key)};
}

}  // namespace

Result<Output> show_attachments(attachment::Node& node, Form form) {
    auto records = node.store.list_all();
    if (!records) return std::move(records.error());
    if (form == Form::json) {
        OrderedJson out;
        out["attachments"] = OrderedJson::array();
        for (const AttachmentRecord& record : *records) out["attachments"].push_back(record_to_json(record));
        return Output{.text = attachment::dump_json(out) + "\n"};
    }
    std::vector<std::vector<std::string>> lines{
        {"HOST END", "ADDRESSES", "PORT", "XDP", "COMPLETE", "POD", "ATTACHMENT"}};
    for (const AttachmentRecord& record : *records) lines.push_back(record_to_line(record));
    return Output{.text = format_table(lines)};
}

}  // namespace xveth::ctl
