// SPDX-License-Identifier: Apache-2.0
#include "cni-plugin/protocol.hpp"

#include <algorithm>
#include <array>

#include "attachment/json.hpp"

namespace xveth::cni {
namespace {

struct Command {
    std::string_view name;
    Verb verb;
    Result<std::string> (*run)(const Call&, const Verbs&);
};

constexpr std::array<Command, 6> commands{{{"ADD", Verb::add, run_add},
                                           {"DEL", Verb::del, run_del},
                                           {"CHECK", Verb::check, run_check},
                                           {"GC", Verb::gc, run_gc},
                                           {"STATUS", Verb::status, run_status},
                                           {"VERSION", Verb::version, run_version}}};

Reply about() {
    std::string list;
    for (const std::string& version : attachment::supported_versions()) list += (list.empty() ? "" : ", ") + version;
    return {.out = {},
            .err = "xveth " XVETH_VERSION
                   ": a CNI plugin whose every container port is an XDP port\n"
                   "CNI protocol versions supported: " +
                   list +
                   "\n"
                   "It is run by a container runtime, with CNI_COMMAND in its environment.\n",
            .exit_code = 0};
}

// The version that the caller spoke, as far as it can be told; ours otherwise.
std::string spoken_version(const std::string& input) {
    auto json = attachment::parse_json(input);
    const attachment::Json* version = json ? attachment::find_member(*json, "cniVersion") : nullptr;
    if (version != nullptr && version->is_string() && attachment::is_supported_version(version->get<std::string>()))
        return version->get<std::string>();
    return attachment::supported_versions().back();
}

Result<std::string> run_command(const Command& command, const Lookup& environment, std::string input,
                                const Verbs& verbs) {
    auto request = read_request(environment, command.verb);
    if (!request) return std::move(request.error());
    return command.run({.request = std::move(*request), .input = std::move(input)}, verbs);
}

Result<std::string> dispatch(const std::string& name, const Lookup& environment, const std::string& input,
                             const Verbs& verbs) {
    const auto* command = std::ranges::find(commands, std::string_view(name), &Command::name);
    if (command == commands.end())
        return Error{.code = 4,
                     .errno_value = 0,
                     .text = "environment: CNI_COMMAND=\"" + name + "\" is not ADD, DEL, CHECK, GC, STATUS or VERSION",
                     .hint = {}};
    return run_command(*command, environment, input, verbs);
}

void log_failure(const Error& error, const Lookup& environment, const Verbs& verbs) {
    verbs.log("error", error.text,
              {{"verb", value_of(environment, "CNI_COMMAND")},
               {"containerID", value_of(environment, "CNI_CONTAINERID")},
               {"ifname", value_of(environment, "CNI_IFNAME")},
               {"code", std::to_string(error.code)},
               {"hint", error.hint}});
}

}  // namespace

Result<void> require_version(const attachment::NetConf& conf, const std::string& oldest, const char* verb) {
    if (attachment::compare_versions(conf.cni_version, oldest) >= 0) return ok();
    return Error{.code = 1,
                 .errno_value = 0,
                 .text = "key \"cniVersion\": value \"" + conf.cni_version + "\": incompatible with " + verb +
                         ", which is a verb since " + oldest,
                 .hint = {}};
}

Reply refuse(const Error& error, const std::string& version) {
    constexpr int internal_error = 999;
    attachment::OrderedJson out;
    out["cniVersion"] = version;
    out["code"] = error.code == 0 ? internal_error : error.code;
    out["msg"] = error.text;
    if (!error.hint.empty()) out["details"] = error.hint;
    return {.out = attachment::dump_json(out), .err = {}, .exit_code = 1};
}

Reply answer(const Lookup& environment, const ReadInput& read_input, const Verbs& verbs) {
    const std::string command = value_of(environment, "CNI_COMMAND");
    if (command.empty()) return about();
    auto input = read_input();
    auto out = input ? dispatch(command, environment, *input, verbs)
                     : Result<std::string>(std::move(input.error()).with_code(5));
    if (out) return {.out = std::move(*out), .err = {}, .exit_code = 0};
    log_failure(out.error(), environment, verbs);
    return refuse(out.error(), spoken_version(input ? *input : std::string{}));
}

}  // namespace xveth::cni
