// SPDX-License-Identifier: Apache-2.0
#include "attachment/ipam.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "attachment/delegate_process.hpp"
#include "attachment/json.hpp"

namespace xveth::attachment {
namespace {

constexpr int delegate_error = 103;

Error fault(std::string text) {
    return {.code = delegate_error, .errno_value = 0, .text = std::move(text), .hint = {}};
}

// The first regular file of that name, as the runtimes search; the execute bit is left to execve().
// The text avoids "not found": a widely used runtime library takes a DEL error with these words for success.
Result<std::string> find_executable(const NetConf& conf, const Request& request) {
    std::string searched;
    for (const std::string& directory : request.plugin_path) {
        if (directory.empty()) continue;
        const std::string path = directory + "/" + conf.ipam_type;
        struct stat status{};
        if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) return path;
        searched += (searched.empty() ? "" : ":") + directory;
    }
    return fault("no executable of this name in CNI_PATH \"" + searched + "\"")
        .with_hint("install the plugin there, or correct ipam.type");
}

// What a delegate said when it failed: its own code and text, or what there is to say without.
Error delegate_failure(const DelegateExit& exit) {
    const std::string how = exit.signal != 0 ? "was killed by signal " + std::to_string(exit.signal)
                                             : "ended with status " + std::to_string(exit.status);
    constexpr std::size_t quoted = 200;
    auto json = parse_json(exit.output);
    const Json* code = json ? find_member_any_case(*json, "code") : nullptr;
    if (code == nullptr || !code->is_number_integer())
        return fault(how + (exit.output.empty() ? " and said nothing" : ": " + exit.output.substr(0, quoted)));

    const Json* message = find_member_any_case(*json, "msg");
    const Json* details = find_member_any_case(*json, "details");
    Error error = fault(message != nullptr && message->is_string() ? message->get<std::string>() : how);
    if (code->get<std::int64_t>() > 0 && code->get<std::int64_t>() <= 0xffff) error.code = code->get<int>();
    if (details != nullptr && details->is_string()) error.hint = details->get<std::string>();
    return error;
}

// An error object is an error whatever the exit status.
bool is_error_object(const std::string& output) {
    auto json = parse_json(output);
    const Json* code = json ? find_member_any_case(*json, "code") : nullptr;
    return code != nullptr && code->is_number_integer() && *code != 0 && find_member_any_case(*json, "msg") != nullptr;
}

// One call of the delegate; its output when it succeeded.
class Delegate {
public:
    Delegate(std::string path, const Request& request, std::chrono::milliseconds patience)
        : path_(std::move(path)), request_(request), deadline_(std::chrono::steady_clock::now() + patience) {}

    Result<std::string> call(const char* verb, const std::string& input) {
        auto exit = run_delegate({.path = path_,
                                  .input = input,
                                  .environment = delegate_environment(verb, request_),
                                  .deadline = deadline_});
        if (!exit) return std::move(exit.error()).or_code(delegate_error);
        if (exit->signal != 0 || exit->status != 0 || is_error_object(exit->output)) return delegate_failure(*exit);
        return std::move(exit->output);
    }

    // Versions that the delegate names; nothing when it does not answer the question.
    std::vector<std::string> versions(const std::string& asked_with) {
        OrderedJson question;
        question["cniVersion"] = asked_with;
        std::vector<std::string> out;
        const auto answer = call("VERSION", dump_json(question));
        const auto json = answer ? parse_json(*answer) : Result<Json>(answer.error());
        const Json* list = json ? find_member_any_case(*json, "supportedVersions") : nullptr;
        if (list == nullptr || !list->is_array()) return out;
        for (const Json& version : *list)
            if (version.is_string()) out.push_back(version.get<std::string>());
        return out;
    }

private:
    std::string path_;
    const Request& request_;
    std::chrono::steady_clock::time_point deadline_;
};

// The newest version that both sides speak and that is older than `limit`.
std::optional<std::string> newest_common_version(const std::vector<std::string>& theirs, const std::string& limit) {
    std::optional<std::string> newest;
    for (const std::string& version : supported_versions())
        if (compare_versions(version, limit) < 0 && std::ranges::find(theirs, version) != theirs.end())
            newest = version;
    return newest;
}

// The configuration as an older plugin of `version` would have got it.
Result<std::string> in_older_version(const NetConf& conf, const std::string& version) {
    auto json = parse_json(conf.raw);
    if (!json) return std::move(json.error());
    (*json)["cniVersion"] = version;
    if (conf.prev_result) {
        auto result = parse_json(encode_result(*conf.prev_result, version));
        if (!result) return std::move(result.error());
        (*json)["prevResult"] = std::move(*result);
    }
    return json->dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct Answer {
    std::string output;
    std::string version;  // in which it was asked
};

// The configuration goes to the delegate byte for byte. Only a delegate that refuses its version (code 1), because it is
// older than the network's, is asked again in the newest version that it names.
Result<Answer> ask(const NetConf& conf, const Request& request, std::chrono::milliseconds patience, const char* verb) {
    auto path = find_executable(conf, request);
    if (!path) return std::move(path.error());
    Delegate delegate(std::move(*path), request, patience);
    auto output = delegate.call(verb, conf.raw);
    if (output) return Answer{.output = std::move(*output), .version = conf.cni_version};
    if (output.error().code != 1) return std::move(output.error());

    const auto theirs = delegate.versions(conf.cni_version);
    const auto older = newest_common_version(theirs, conf.cni_version);
    if (!older || std::ranges::find(theirs, conf.cni_version) != theirs.end()) return std::move(output.error());
    auto input = in_older_version(conf, *older);
    if (!input) return std::move(input.error());
    output = delegate.call(verb, *input);
    if (!output) return std::move(output.error());
    return Answer{.output = std::move(*output), .version = *older};
}

std::string plugin_phrase(const NetConf& conf) { return "IPAM plugin \"" + conf.ipam_type + "\""; }

Result<void> tell(const NetConf& conf, const Request& request, std::chrono::milliseconds patience, const char* verb) {
    auto answer = ask(conf, request, patience, verb);
    if (!answer) return std::move(answer.error()).in(plugin_phrase(conf));
    return ok();
}

// GC and STATUS are verbs of 1.1.0. Older delegates refuse the version (1), miss a container (3) or a variable, or do not
// know the verb (4): they have nothing to say. One that speaks the network's version is believed, unless it still does
// not know the verb.
Result<void> tell_if_known(const NetConf& conf, const Request& request, std::chrono::milliseconds patience,
                           const char* verb) {
    auto path = find_executable(conf, request);
    if (!path) return std::move(path.error()).in(plugin_phrase(conf));
    Delegate delegate(std::move(*path), request, patience);
    auto output = delegate.call(verb, conf.raw);
    if (output) return ok();
    const int code = output.error().code;
    if (code == 4) return ok();
    if (code == 1 || code == 3) {
        const auto theirs = delegate.versions(conf.cni_version);
        if (std::ranges::find(theirs, conf.cni_version) == theirs.end()) return ok();
    }
    return std::move(output.error()).in(plugin_phrase(conf));
}

}  // namespace

Result<CniResult> ExecIpam::add(const NetConf& conf, const Request& request) {
    auto answer = ask(conf, request, deadline_, "ADD");
    if (!answer) return std::move(answer.error()).in(plugin_phrase(conf));
    auto result = decode_result(answer->output, answer->version);
    if (!result) return std::move(result.error()).in(plugin_phrase(conf)).with_code(delegate_error);
    return std::move(*result);
}

Result<void> ExecIpam::del(const NetConf& conf, const Request& request) {
    return tell(conf, request, deadline_, "DEL");
}

Result<void> ExecIpam::check(const NetConf& conf, const Request& request) {
    return tell(conf, request, deadline_, "CHECK");
}

Result<void> ExecIpam::gc(const NetConf& conf, const Request& request) {
    return tell_if_known(conf, request, deadline_, "GC");
}

Result<void> ExecIpam::status(const NetConf& conf, const Request& request) {
    return tell_if_known(conf, request, deadline_, "STATUS");
}

}  // namespace xveth::attachment
