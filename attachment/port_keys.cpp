// SPDX-License-Identifier: Apache-2.0
#include "attachment/port_keys.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "attachment/conf_values.hpp"

namespace xveth::attachment {
namespace {

constexpr std::uint64_t highest_position = 65535;
constexpr std::uint64_t highest_vlan = 4094;
constexpr std::size_t longest_object_name = 127;
constexpr std::size_t longest_program_name = 63;

constexpr const char* program_form =
    R"(an object like {"object": "limit.o", "program": "xdp_limit"}, a file's name and, where the file has several XDP programs, a function)";
constexpr const char* chain_form =
    R"(an object like {"name": "edge", "position": 10, "onFailure": "drop"}, the position from 1 to 65535, onFailure drop or bypass)";
constexpr const char* protection_form =
    R"(a chain's name, or an object like {"chain": "edge", "stackPath": "drop"}, stackPath drop or pass)";
constexpr const char* vlan_form = "a whole number from 1 to 4094";
constexpr const char* trunk_form = R"(a list like [{"id": 10}, {"minID": 20, "maxID": 29}], with VLANs from 1 to 4094)";

Error conflict(std::string text, std::string hint = {}) {
    return {.code = 7, .errno_value = 0, .text = std::move(text), .hint = std::move(hint)};
}

// A C function's name.
bool is_program_name(std::string_view name) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    return !name.empty() && name.size() <= longest_program_name && is_letter(name.front()) &&
           std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

bool is_object_name(const std::string& name) { return is_valid_name(name) && name.size() <= longest_object_name; }

std::optional<std::string> text_member(const Json& object, const char* key) {
    const Json* value = find_member(object, key);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return value->get<std::string>();
}

// A number from 1 to `highest`, also as digits.
std::optional<std::uint16_t> number_up_to(const Json* value, std::uint64_t highest) {
    const auto number = value == nullptr ? std::nullopt : as_unsigned_or_digits(*value);
    if (!number || *number == 0 || *number > highest) return std::nullopt;
    return static_cast<std::uint16_t>(*number);
}

std::optional<OnFailure> parse_on_failure(std::string_view word) {
    if (word == "drop") return OnFailure::drop;
    if (word == "bypass") return OnFailure::bypass;
    return std::nullopt;
}

Result<void> read_mode(const Json& plugin, NetConf& conf) {
    const Json* value = find_member(plugin, "mode");
    if (value == nullptr || *value == "route") return ok();
    if (*value != "bridge") return wrong_value("mode", *value, "route or bridge");
    conf.mode = Mode::bridge;
    return ok();
}

Result<void> read_container_xdp(const Json& plugin, NetConf& conf) {
    const Json* value = find_member(plugin, "containerXdp");
    if (value == nullptr || *value == "managed") return ok();
    if (*value == "afxdp") return not_served("containerXdp", *value);
    if (*value == "free")
        conf.container_xdp = ContainerXdp::free;
    else if (*value == "program")
        conf.container_xdp = ContainerXdp::program;
    else
        return wrong_value("containerXdp", *value, "managed, free or program");
    return ok();
}

Result<void> read_container_program(const Json& plugin, NetConf& conf) {
    const Json* value = find_member(plugin, "containerProgram");
    if (value == nullptr) return ok();
    ContainerProgram program{.object = text_member(*value, "object").value_or(""),
                             .program = text_member(*value, "program").value_or("")};
    const bool named = find_member(*value, "program") != nullptr;
    if (!is_object_name(program.object) || (named && !is_program_name(program.program)))
        return wrong_value("containerProgram", *value, program_form);
    conf.container_program = std::move(program);
    return ok();
}

Result<void> read_chain(const Json& plugin, NetConf& conf) {
    const Json* value = find_member(plugin, "chain");
    if (value == nullptr) return ok();
    const std::string name = text_member(*value, "name").value_or("");
    const auto position = number_up_to(find_member(*value, "position"), highest_position);
    const Json* failure = find_member(*value, "onFailure");
    const auto on_failure =
        failure == nullptr ? OnFailure::drop : parse_on_failure(text_member(*value, "onFailure").value_or(""));
    if (!is_valid_chain_name(name) || !position || !on_failure) return wrong_value("chain", *value, chain_form);
    conf.function_of = {.chain = name, .position = *position, .on_failure = *on_failure};
    return ok();
}

Result<void> read_protected_by(const Json& plugin, NetConf& conf) {
    const Json* value = find_member(plugin, "protectedBy");
    if (value == nullptr) return ok();
    const std::string chain =
        value->is_string() ? value->get<std::string>() : text_member(*value, "chain").value_or("");
    const Json* path = find_member(*value, "stackPath");
    if (!is_valid_chain_name(chain) || (path != nullptr && *path != "drop" && *path != "pass"))
        return wrong_value("protectedBy", *value, protection_form);
    conf.protected_by = {.chain = chain, .stack_path_passes = path != nullptr && *path == "pass"};
    return ok();
}

std::optional<VlanRange> parse_vlan_range(const Json& element) {
    const Json* id = find_member(element, "id");
    const Json* low = find_member(element, "minID");
    const Json* high = find_member(element, "maxID");
    if (id != nullptr && (low != nullptr || high != nullptr)) return std::nullopt;
    const auto first = number_up_to(id != nullptr ? id : low, highest_vlan);
    const auto last = number_up_to(id != nullptr ? id : high, highest_vlan);
    if (!first || !last || *first > *last) return std::nullopt;
    return VlanRange{.first = *first, .last = *last};
}

// As the reference bridge plugin writes them.
Result<void> read_vlans(const Json& plugin, NetConf& conf) {
    if (const Json* value = find_member(plugin, "vlan"); value != nullptr && *value != 0) {
        const auto vlan = number_up_to(value, highest_vlan);
        if (!vlan) return wrong_value("vlan", *value, vlan_form);
        conf.vlan = *vlan;
    }
    const Json* trunk = find_member(plugin, "vlanTrunk");
    if (trunk == nullptr) return ok();
    if (!trunk->is_array()) return wrong_value("vlanTrunk", *trunk, trunk_form);
    for (const Json& element : *trunk) {
        const auto range = parse_vlan_range(element);
        if (!range) return wrong_value("vlanTrunk", element, trunk_form);
        conf.vlan_trunk.push_back(*range);
    }
    return ok();
}

Result<void> check_chain(const NetConf& conf) {
    if (!conf.function_of && !conf.protected_by) return ok();
    if (conf.mode != Mode::route)
        return conflict(std::string("key \"") + (conf.function_of ? "chain" : "protectedBy") +
                        "\": chains need \"mode\": \"route\"");
    // A function's answers go to containers that the chain protects, so protected functions could feed each other for ever.
    if (conf.function_of && conf.protected_by)
        return conflict("key \"protectedBy\": a function of a chain cannot be protected by one",
                        R"(leave out "chain" or "protectedBy")");
    if (conf.function_of && conf.container_xdp == ContainerXdp::managed)
        return conflict("key \"chain\": a function needs an XDP program, and \"containerXdp\": \"managed\" allows none",
                        R"(set "containerXdp" to "free" or "program")");
    return ok();
}

// What only a router has.
Result<void> check_no_routing(const NetConf& conf) {
    const char* key = !conf.fast_path_to.empty()      ? "fastPathTo"
                      : !conf.allowed_sources.empty() ? "allowedSources"
                                                      : nullptr;
    if (key == nullptr) return ok();
    return conflict(std::string("key \"") + key + "\": needs \"mode\": \"route\"");
}

Result<void> check_bridge(const NetConf& conf) {
    if (conf.mode == Mode::bridge) return check_no_routing(conf);
    const char* key = conf.vlan != 0             ? "vlan"
                      : !conf.vlan_trunk.empty() ? "vlanTrunk"
                      : conf.port_isolation      ? "portIsolation"
                                                 : nullptr;
    if (key == nullptr) return ok();
    return conflict(std::string("key \"") + key + "\": needs \"mode\": \"bridge\"");
}

}  // namespace

bool is_valid_chain_name(const std::string& name) { return is_valid_name(name) && name.size() <= longest_chain_name; }

std::optional<ContainerProgram> parse_container_program(std::string_view text) {
    const std::size_t colon = text.find(':');
    const bool named = colon != std::string_view::npos;
    ContainerProgram program{.object = std::string(text.substr(0, colon)),
                             .program = named ? std::string(text.substr(colon + 1)) : ""};
    if (!is_object_name(program.object) || (named && !is_program_name(program.program))) return std::nullopt;
    return program;
}

std::optional<ChainMembership> parse_chain_membership(std::string_view text) {
    const std::size_t first = text.find(':');
    if (first == std::string_view::npos) return std::nullopt;
    const std::size_t second = text.find(':', first + 1);
    const auto position = parse_digits(
        text.substr(first + 1, second == std::string_view::npos ? std::string_view::npos : second - first - 1));
    const auto on_failure =
        second == std::string_view::npos ? OnFailure::drop : parse_on_failure(text.substr(second + 1));
    std::string chain(text.substr(0, first));
    if (!is_valid_chain_name(chain) || !position || *position == 0 || *position > highest_position || !on_failure)
        return std::nullopt;
    return ChainMembership{
        .chain = std::move(chain), .position = static_cast<std::uint16_t>(*position), .on_failure = *on_failure};
}

Result<void> read_port_keys(const Json& plugin, NetConf& conf) {
    for (const auto step :
         {read_mode, read_container_xdp, read_container_program, read_chain, read_protected_by, read_vlans})
        if (auto read = step(plugin, conf); !read) return read;
    if (find_member(plugin, "isGateway") != nullptr) {
        bool on = false;
        if (auto read = read_flag(plugin, "isGateway", on); !read) return read;
        conf.is_gateway = on;
    }
    return read_flag(plugin, "portIsolation", conf.port_isolation);
}

Result<void> check_port_keys(const NetConf& conf) {
    if (conf.container_xdp == ContainerXdp::program && !conf.container_program)
        return conflict(R"(key "containerProgram": missing, and "containerXdp" is "program")",
                        "name the object, and the program in it where it has several");
    if (auto checked = check_chain(conf); !checked) return checked;
    return check_bridge(conf);
}

}  // namespace xveth::attachment
