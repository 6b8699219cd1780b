// SPDX-License-Identifier: Apache-2.0
#include "cni-plugin/environment.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace xveth::cni {
namespace {

constexpr unsigned in(Verb verb) { return 1U << static_cast<unsigned>(verb); }

constexpr unsigned add_and_check = in(Verb::add) | in(Verb::check);
constexpr unsigned of_a_container = add_and_check | in(Verb::del);

bool is_any_value(const std::string&) { return true; }
// The working directory is the runtime's: a relative path means nothing here.
bool is_absolute(const std::string& path) { return path.starts_with('/'); }

struct Variable {
    const char* name;
    unsigned required_for;  // verbs; for the others its value does not matter
    bool (*is_valid)(const std::string&);
    const char* wanted;
};

// CNI_PATH is needed only when a delegate is looked for, which then says so.
constexpr std::array<Variable, 5> variables{{
    {"CNI_CONTAINERID", of_a_container, attachment::is_valid_name,
     "a container's id: a letter or digit, then letters, digits, '_', '.', '-'"},
    {"CNI_NETNS", add_and_check, is_absolute, "an absolute path of a network namespace"},
    {"CNI_IFNAME", of_a_container, attachment::is_valid_ifname,
     "an interface's name: 1 to 15 bytes, without white space, '/', ':', '%', and not '.' or '..'"},
    {"CNI_ARGS", 0, is_any_value, ""},
    {"CNI_PATH", 0, is_any_value, ""},
}};

Error wrong_environment(std::string text) { return {.code = 4, .errno_value = 0, .text = std::move(text), .hint = {}}; }

std::vector<std::string> split_path(const std::string& path) {
    std::vector<std::string> directories;
    for (std::size_t from = 0; from <= path.size();) {
        const std::size_t colon = std::min(path.find(':', from), path.size());
        if (colon > from) directories.push_back(path.substr(from, colon - from));
        from = colon + 1;
    }
    return directories;
}

}  // namespace

std::string value_of(const Lookup& environment, const char* name) { return environment(name).value_or(std::string{}); }

Result<attachment::Request> read_request(const Lookup& environment, Verb verb) {
    std::string missing;
    for (const Variable& variable : variables)
        if ((variable.required_for & in(verb)) != 0 && value_of(environment, variable.name).empty())
            missing += (missing.empty() ? "" : ", ") + std::string(variable.name);
    if (!missing.empty()) return wrong_environment("environment: missing " + missing);
    for (const Variable& variable : variables) {
        const std::string value = value_of(environment, variable.name);
        if ((variable.required_for & in(verb)) != 0 && !variable.is_valid(value))
            return wrong_environment("environment: " + std::string(variable.name) + "=\"" + value + "\" is not " +
                                     variable.wanted);
    }
    return attachment::Request{.container_id = value_of(environment, "CNI_CONTAINERID"),
                               .netns_path = value_of(environment, "CNI_NETNS"),
                               .ifname = value_of(environment, "CNI_IFNAME"),
                               .args = value_of(environment, "CNI_ARGS"),
                               .plugin_path = split_path(value_of(environment, "CNI_PATH"))};
}

}  // namespace xveth::cni
