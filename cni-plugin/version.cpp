// SPDX-License-Identifier: Apache-2.0
#include "attachment/json.hpp"
#include "cni-plugin/verbs.hpp"

namespace xveth::cni {

Result<std::string> run_version(const Call& call, const Verbs&) {
    auto question = attachment::parse_json(call.input);
    const attachment::Json* asked = question ? attachment::find_member(*question, "cniVersion") : nullptr;
    const bool named = asked != nullptr && asked->is_string() && *asked != "";
    attachment::OrderedJson answer;
    answer["cniVersion"] = named ? asked->get<std::string>() : attachment::supported_versions().back();
    answer["supportedVersions"] = attachment::supported_versions();
    return attachment::dump_json(answer);
}

}  // namespace xveth::cni
