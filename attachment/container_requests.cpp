// SPDX-License-Identifier: Apache-2.0
#include "attachment/container_requests.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "attachment/conf_values.hpp"
#include "attachment/port_keys.hpp"

namespace xveth::attachment {
namespace {

constexpr std::string_view annotation_prefix = "xveth.dev/";
constexpr std::string_view args_prefix = "XVETH_";
constexpr std::string_view first_interface = "eth0";  // the name that every CRI runtime gives a pod's first interface

constexpr std::array<std::string_view, 8> known_keys{"container-xdp", "program",   "chain",  "protected-by",
                                                     "arming",        "local-mtu", "policy", "spoof-check"};
// Keys of xveth's other programs.
constexpr std::array<std::string_view, 1> foreign_keys{"network"};

template <class Words>
bool holds(const Words& words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
}

// XVETH_CONTAINER_XDP -> container-xdp
std::string key_of_argument(std::string_view name) {
    std::string key(name.substr(args_prefix.size()));
    for (char& c : key) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return key;
}

Error refused(const Ask& ask, const std::string& why) {
    return {.code = 7, .errno_value = 0, .text = ask.origin + ": value \"" + ask.value + "\": " + why, .hint = {}};
}

Error not_permitted(const Ask& ask, const std::string& permission) {
    return refused(ask, "not permitted by " + permission + " of this network")
        .with_hint("the operator permits it in the network configuration, key \"allow\"");
}

Error not_served(const Ask& ask) { return refused(ask, "not served by this version of xveth"); }

Result<void> ask_container_xdp(const Ask& ask, const Allowance& allowance, NetConf& conf) {
    constexpr std::array<std::string_view, 4> words{"managed", "free", "program", "afxdp"};
    if (!holds(words, ask.value)) return refused(ask, "not one of managed, free, program, afxdp");
    if (!holds(allowance.container_xdp, ask.value)) return not_permitted(ask, "allow.containerXdp");
    if (ask.value == "managed")
        conf.container_xdp = ContainerXdp::managed;
    else if (ask.value == "free")
        conf.container_xdp = ContainerXdp::free;
    else if (ask.value == "program")
        conf.container_xdp = ContainerXdp::program;
    else
        return not_served(ask);
    return ok();
}

// Names a program, and by that asks for it: the permission for the program is all that it needs.
Result<void> ask_program(const Ask& ask, const Allowance& allowance, NetConf& conf) {
    auto program = parse_container_program(ask.value);
    if (!program) return refused(ask, "not OBJECT or OBJECT:PROGRAM, like limit.o:xdp_limit");
    if (!holds(allowance.programs, program->object) && !holds(allowance.programs, ask.value))
        return not_permitted(ask, "allow.programs");
    conf.container_xdp = ContainerXdp::program;
    conf.container_program = std::move(program);
    return ok();
}

Result<void> ask_chain(const Ask& ask, const Allowance& allowance, NetConf& conf) {
    auto membership = parse_chain_membership(ask.value);
    if (!membership) return refused(ask, "not CHAIN:POSITION or CHAIN:POSITION:bypass, the position from 1 to 65535");
    if (!holds(allowance.chains_to_join, membership->chain)) return not_permitted(ask, "allow.chains.join");
    conf.function_of = std::move(membership);
    return ok();
}

// Never replaces what the operator chose: that would be to loosen.
Result<void> ask_protected_by(const Ask& ask, const Allowance& allowance, NetConf& conf) {
    if (!is_valid_chain_name(ask.value)) return refused(ask, "not a chain's name");
    if (conf.protected_by && conf.protected_by->chain == ask.value) return ok();
    if (conf.protected_by)
        return refused(ask, "not permitted: the network's \"protectedBy\" is " + conf.protected_by->chain);
    if (!holds(allowance.chains_to_use, ask.value)) return not_permitted(ask, "allow.chains.use");
    conf.protected_by = {.chain = ask.value, .stack_path_passes = false};
    return ok();
}

Result<void> ask_local_mtu(const Ask& ask, const Allowance& allowance, NetConf& conf) {
    const auto mtu = parse_digits(ask.value);
    if (!mtu || !is_valid_mtu(*mtu)) return refused(ask, std::string("not ") + mtu_values);
    if (!allowance.local_mtu) return not_permitted(ask, "allow.localMtu");
    conf.local_mtu = static_cast<std::uint32_t>(*mtu);
    return ok();
}

int tightness(Policy policy) {
    switch (policy) {
        case Policy::fast:
            return 0;
        case Policy::automatic:
            return 1;
        case Policy::stack:
            return 2;
    }
    return 2;
}

Result<void> ask_policy(const Ask& ask, const Allowance&, NetConf& conf) {
    const auto policy = parse_policy(ask.value);
    if (!policy) return refused(ask, "not one of auto, stack, fast");
    if (tightness(*policy) < tightness(conf.policy))
        return refused(
            ask, "not permitted: a request can tighten the network's \"policy\" (fast, auto, stack), not loosen it");
    conf.policy = *policy;
    return ok();
}

Result<void> ask_spoof_check(const Ask& ask, const Allowance&, NetConf& conf) {
    if (ask.value != "true" && ask.value != "false") return refused(ask, "not one of true, false");
    if (ask.value == "false" && conf.spoof_check)
        return refused(ask, "not permitted: a request can tighten the network's \"spoofCheck\", not loosen it");
    conf.spoof_check = ask.value == "true";
    return ok();
}

Result<void> ask_arming(const Ask& ask, const Allowance&, NetConf&) {
    if (ask.value == "always") return ok();
    if (ask.value != "onDemand") return refused(ask, "not one of always, onDemand");
    return not_served(ask);
}

Result<void> read_container_xdp_list(const Json& allow, std::vector<std::string>& words) {
    constexpr std::array<std::string_view, 4> known{"managed", "free", "program", "afxdp"};
    const Json* list = find_member(allow, "containerXdp");
    if (list == nullptr) return ok();
    words.clear();
    const auto wrong = [](const Json& value) {
        return Error{.code = 7,
                     .errno_value = 0,
                     .text = "key \"allow.containerXdp\": value " + describe(value) +
                             " is not a list of managed, free, program, afxdp",
                     .hint = {}};
    };
    if (!list->is_array()) return wrong(*list);
    for (const Json& word : *list) {
        if (!word.is_string() || !holds(known, word.get_ref<const std::string&>())) return wrong(word);
        words.push_back(word.get<std::string>());
    }
    return ok();
}

Result<void> read_names(const Json& object, const std::string& path, const char* key, std::vector<std::string>& names) {
    auto read = read_texts(object, path + "." + key, key);
    if (!read) return std::move(read.error());
    names = std::move(*read);
    return ok();
}

Result<void> read_allowed_chains(const Json& allow, Allowance& allowance) {
    const Json* chains = find_member(allow, "chains");
    if (chains == nullptr) return ok();
    if (!chains->is_object())
        return wrong_value("allow.chains", *chains, R"(an object like {"join": ["edge"], "use": ["edge"]})");
    if (auto read = read_names(*chains, "allow.chains", "join", allowance.chains_to_join); !read) return read;
    return read_names(*chains, "allow.chains", "use", allowance.chains_to_use);
}

// What stands below "allow", as messages show it.
Result<void> read_permission(const Json& allow, const char* key, bool& flag) {
    auto read = read_flag(allow, key, flag);
    if (!read) return wrong_value(std::string("allow.") + key, *find_member(allow, key), "true or false");
    return ok();
}

}  // namespace

bool is_valid_mtu(std::uint64_t mtu) { return mtu == 0 || (mtu >= 68 && mtu <= 65535); }

std::optional<Policy> parse_policy(std::string_view word) {
    if (word == "auto") return Policy::automatic;
    if (word == "stack") return Policy::stack;
    if (word == "fast") return Policy::fast;
    return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> parse_cni_args(std::string_view args) {
    std::vector<std::pair<std::string, std::string>> pairs;
    while (!args.empty()) {
        const std::size_t end = std::min(args.find(';'), args.size());
        const std::string_view pair = args.substr(0, end);
        if (const auto equals = pair.find('='); equals != std::string_view::npos)
            pairs.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
        args.remove_prefix(std::min(end + 1, args.size()));
    }
    return pairs;
}

std::string args_without_own_keys(const std::string& args) {
    if (args.find(args_prefix) == std::string::npos) return args;
    std::string kept;
    for (const auto& [key, value] : parse_cni_args(args)) {
        if (key.starts_with(args_prefix)) continue;
        if (!kept.empty()) kept += ";";
        kept.append(key).append("=").append(value);
    }
    return kept;
}

Result<Allowance> read_allowance(const Json& plugin, std::vector<std::string>& remarks) {
    constexpr std::array<std::string_view, 5> permissions{"containerXdp", "programs", "chains", "arming", "localMtu"};
    Allowance allowance;
    const Json* allow = find_member(plugin, "allow");
    if (allow == nullptr) return allowance;
    if (!allow->is_object())
        return Error{.code = 7,
                     .errno_value = 0,
                     .text = "key \"allow\": value " + describe(*allow) + " is not an object",
                     .hint = {}};
    for (const auto& item : allow->items())
        if (!holds(permissions, item.key())) remarks.push_back("unknown key \"allow." + item.key() + "\"");
    bool arming = true;
    if (auto read = read_container_xdp_list(*allow, allowance.container_xdp); !read) return std::move(read.error());
    if (auto read = read_names(*allow, "allow", "programs", allowance.programs); !read) return std::move(read.error());
    if (auto read = read_allowed_chains(*allow, allowance); !read) return std::move(read.error());
    if (auto read = read_permission(*allow, "localMtu", allowance.local_mtu); !read) return std::move(read.error());
    if (auto read = read_permission(*allow, "arming", arming); !read) return std::move(read.error());
    return allowance;
}

namespace {

void collect_from_args(std::string_view args, Asks& asks, std::vector<std::string>& remarks) {
    for (const auto& [name, value] : parse_cni_args(args)) {
        if (!name.starts_with(args_prefix)) continue;
        const std::string key = key_of_argument(name);
        if (holds(known_keys, key))
            asks[key] = {.origin = "CNI_ARGS key \"" + name + "\"", .value = value};
        else
            remarks.push_back("unknown CNI_ARGS key \"" + name + "\"");
    }
}

// An annotation's name below the prefix: "policy" or "net1.policy". An interface's name may hold dots, a key does not.
void collect_from_annotation(const std::string& name, const Json& value, std::string_view wanted_interface, Asks& asks,
                             std::vector<std::string>& remarks) {
    const std::string_view below = std::string_view(name).substr(annotation_prefix.size());
    const std::size_t dot = below.rfind('.');
    const bool bare = dot == std::string_view::npos;
    const std::string key(bare ? below : below.substr(dot + 1));
    const std::string_view interface = bare ? std::string_view{} : below.substr(0, dot);
    if (holds(foreign_keys, key)) return;
    if (!holds(known_keys, key)) {
        remarks.push_back("unknown annotation \"" + name + "\"");
    } else if (interface == wanted_interface) {
        asks[key] = {.origin = "annotation \"" + name + "\"",
                     .value = value.is_string() ? value.get<std::string>() : describe(value)};
    }
}

}  // namespace

Asks collect_asks(const Json* annotations, std::string_view args, const std::string& ifname,
                  std::vector<std::string>& remarks) {
    Asks asks;
    collect_from_args(args, asks, remarks);
    if (annotations == nullptr || !annotations->is_object()) return asks;
    std::vector<std::string> said_already;
    const auto collect_for = [&](std::string_view interface, std::vector<std::string>& said) {
        for (auto it = annotations->begin(); it != annotations->end(); ++it)
            if (it.key().starts_with(annotation_prefix))
                collect_from_annotation(it.key(), it.value(), interface, asks, said);
    };
    if (ifname == first_interface) collect_for({}, said_already);
    collect_for(ifname, remarks);
    return asks;
}

Result<void> apply_asks(const Asks& asks, const Allowance& allowance, NetConf& conf) {
    using Apply = Result<void> (*)(const Ask&, const Allowance&, NetConf&);
    static constexpr std::array<std::pair<std::string_view, Apply>, 8> served{{{"container-xdp", ask_container_xdp},
                                                                               {"program", ask_program},
                                                                               {"chain", ask_chain},
                                                                               {"protected-by", ask_protected_by},
                                                                               {"local-mtu", ask_local_mtu},
                                                                               {"policy", ask_policy},
                                                                               {"spoof-check", ask_spoof_check},
                                                                               {"arming", ask_arming}}};
    const auto xdp = asks.find("container-xdp");
    if (xdp != asks.end() && xdp->second.value != "program" && asks.contains("program"))
        return refused(xdp->second, "contradicts the request for a program");
    for (const auto& [key, ask] : asks) {
        const auto* entry =
            std::ranges::find(served, std::string_view(key), &std::pair<std::string_view, Apply>::first);
        if (entry == served.end()) return not_served(ask);
        if (auto applied = entry->second(ask, allowance, conf); !applied) return applied;
    }
    return ok();
}

}  // namespace xveth::attachment
