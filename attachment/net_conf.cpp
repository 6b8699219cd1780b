// SPDX-License-Identifier: Apache-2.0
#include "attachment/net_conf.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "attachment/cni_result_json.hpp"
#include "attachment/conf_values.hpp"
#include "attachment/container_requests.hpp"
#include "attachment/json.hpp"
#include "attachment/port_keys.hpp"

namespace xveth::attachment {
namespace {

// What the steps of reading work on.
struct Source {
    const Json& plugin;          // the plugin's object
    const Json* runtime_config;  // its runtimeConfig, or none
    const std::string& args;     // CNI_ARGS
    const std::string& ifname;
    NetConf& conf;
};

// ---- who and what: these hold for every verb

Result<void> read_version(Source& source) {
    const Json* value = find_member(source.plugin, "cniVersion");
    const bool absent = value == nullptr || *value == "";
    std::string version = absent ? "0.1.0" : describe(*value);
    if (!absent && value->is_string()) version = value->get<std::string>();
    if (!absent && (!value->is_string() || !is_supported_version(version))) {
        std::string list;
        for (const std::string& supported : supported_versions()) list += (list.empty() ? "" : ", ") + supported;
        return Error{.code = 1,
                     .errno_value = 0,
                     .text = "key \"cniVersion\": value " + describe(*value) + ": incompatible CNI version",
                     .hint = "xveth supports " + list};
    }
    source.conf.cni_version = std::move(version);
    return ok();
}

Result<void> read_name(Source& source) {
    const Json* value = find_member(source.plugin, "name");
    if (value == nullptr)
        return Error{.code = 7, .errno_value = 0, .text = "key \"name\": missing", .hint = "give the network a name"};
    if (!value->is_string() || !is_valid_name(value->get_ref<const std::string&>()))
        return wrong_value("name", *value, "a network's name (a letter or digit, then letters, digits, '_', '.', '-')");
    source.conf.name = value->get<std::string>();
    return ok();
}

// libcni writes both keys, and null for an empty list. A list that cannot be understood must never read as "none valid".
Result<void> read_valid_attachments(Source& source) {
    for (const char* key : {"cni.dev/valid-attachments", "cni.dev/attachments"}) {
        const auto it = source.plugin.find(key);
        if (it == source.plugin.end()) continue;
        auto& attachments = source.conf.valid_attachments.emplace();
        if (it->is_null()) return ok();
        if (!it->is_array()) return wrong_value(key, *it, "a list of attachments");
        for (const Json& element : *it) {
            const Json* id = find_member_any_case(element, "containerID");
            const Json* ifname = find_member_any_case(element, "ifname");
            if (id == nullptr || ifname == nullptr || !id->is_string() || !ifname->is_string())
                return wrong_value(key, element, "an object with containerID and ifname");
            attachments.emplace_back(id->get<std::string>(), ifname->get<std::string>());
        }
        return ok();
    }
    return ok();
}

Result<void> read_ipam(Source& source) {
    const Json* ipam = find_member(source.plugin, "ipam");
    if (ipam == nullptr) return ok();
    if (!ipam->is_object()) return wrong_value("ipam", *ipam, "an object");
    const Json* type = find_member(*ipam, "type");
    if (type == nullptr) return ok();
    if (!type->is_string() || type->get_ref<const std::string&>().find('/') != std::string::npos)
        return wrong_value("ipam.type", *type, "the name of an executable, without '/'");
    source.conf.ipam_type = type->get<std::string>();
    return ok();
}

// ---- the operator's choices

Result<void> read_arming(Source& source) {
    const Json* value = find_member(source.plugin, "arming");
    if (value == nullptr || *value == "always") return ok();
    if (*value == "onDemand") return not_served("arming", *value);
    return wrong_value("arming", *value, "always");
}

Result<void> refuse_keys_of_later_versions(Source& source) {
    for (const char* key : {"cpumap"})
        if (const Json* value = find_member(source.plugin, key)) return not_served(key, *value);
    return ok();
}

Result<void> read_port(Source& source) { return read_port_keys(source.plugin, source.conf); }

Result<void> read_nic(Source& source) {
    NicChoice& nic = source.conf.nic;
    const Json* value = find_member(source.plugin, "nic");
    const auto take = [&](const Json& name) {
        if (!name.is_string() || !is_valid_ifname(name.get_ref<const std::string&>())) return false;
        nic.kind = NicChoice::Kind::named;
        nic.names.push_back(name.get<std::string>());
        return true;
    };
    if (value != nullptr && *value == "none") {
        nic.kind = NicChoice::Kind::none;
    } else if (value != nullptr && *value != "auto") {
        const bool list = value->is_array() && !value->empty();
        if (list ? !std::ranges::all_of(*value, take) : !take(*value))
            return wrong_value("nic", *value, "auto, none, a device's name or a list of names");
    }
    source.conf.nic_required = nic.kind == NicChoice::Kind::named;
    return read_flag(source.plugin, "nicRequired", source.conf.nic_required);
}

Result<void> read_sizes(Source& source) {
    auto mtu = read_mtu_key(source.plugin, "mtu");
    if (!mtu) return std::move(mtu.error());
    source.conf.mtu = mtu->value_or(0);
    auto local_mtu = read_mtu_key(source.plugin, "localMtu");
    if (!local_mtu) return std::move(local_mtu.error());
    source.conf.local_mtu = *local_mtu;

    constexpr std::uint64_t kernel_limit = 4096;  // rtnetlink refuses more queues (IFLA_NUM_RX_QUEUES)
    const Json* queues = find_member(source.plugin, "queues");
    if (queues == nullptr) return ok();
    const auto number = as_unsigned_or_digits(*queues);
    if (!number || *number > kernel_limit) return wrong_value("queues", *queues, "a whole number from 0 to 4096");
    source.conf.queues = static_cast<std::uint32_t>(*number);
    return ok();
}

Result<void> read_policy(Source& source) {
    const Json* value = find_member(source.plugin, "policy");
    if (value == nullptr) return ok();
    const auto policy = value->is_string() ? parse_policy(value->get_ref<const std::string&>()) : std::nullopt;
    if (!policy) return wrong_value("policy", *value, "auto, stack or fast");
    source.conf.policy = *policy;
    return ok();
}

Result<void> read_prefix_lists(Source& source) {
    if (auto read = read_prefixes(source.plugin, "fastPathTo", source.conf.fast_path_to); !read) return read;
    if (auto read = read_prefixes(source.plugin, "allowedSources", source.conf.allowed_sources); !read) return read;
    return read_prefixes(source.plugin, "localSubnets", source.conf.local_subnets);
}

Result<void> read_flags(Source& source) {
    if (auto read = read_flag(source.plugin, "spoofCheck", source.conf.spoof_check); !read) return read;
    return read_flag(source.plugin, "ipMasq", source.conf.ip_masq);
}

// The subnets of a host-local configuration: flat, or in lists of lists. What is wrong there is host-local's to say.
void collect_subnets(const Json& node, std::vector<IpPrefix>& subnets) {
    if (const Json* subnet = find_member_any_case(node, "subnet"); subnet != nullptr && subnet->is_string())
        if (const auto prefix = IpPrefix::parse(subnet->get_ref<const std::string&>()))
            subnets.push_back(prefix->network());
}

void collect_ranges(const Json* ranges, std::vector<IpPrefix>& subnets) {
    if (ranges == nullptr || !ranges->is_array()) return;
    for (const Json& set : *ranges)
        if (set.is_array())
            for (const Json& range : set) collect_subnets(range, subnets);
}

Result<void> default_local_subnets(Source& source) {
    const Json* ipam = find_member(source.plugin, "ipam");
    auto& subnets = source.conf.local_subnets;
    if (!subnets.empty() || find_member(source.plugin, "localSubnets") != nullptr ||
        source.conf.ipam_type != "host-local")
        return ok();
    if (source.runtime_config != nullptr)
        collect_ranges(find_member_any_case(*source.runtime_config, "ipRanges"), subnets);
    collect_subnets(*ipam, subnets);
    collect_ranges(find_member(*ipam, "ranges"), subnets);
    std::ranges::sort(subnets);
    subnets.erase(std::ranges::unique(subnets).begin(), subnets.end());
    return ok();
}

// `names`: nameservers and search list go by other keys in a runtime's capability than in a configuration.
struct DnsKeys {
    const char* nameservers;
    const char* search;
};

Result<CniDns> read_dns_object(const Json& dns, const std::string& path, const DnsKeys& keys) {
    if (!dns.is_object()) return wrong_value(path, dns, "an object");
    auto nameservers = read_texts(dns, path + "." + keys.nameservers, keys.nameservers);
    if (!nameservers) return std::move(nameservers.error());
    for (const std::string& server : *nameservers)  // podman refuses a container whose nameserver is a host name
        if (!IpAddress::parse(server)) return wrong_value(path + "." + keys.nameservers, server, "an IP address");
    auto search = read_texts(dns, path + "." + keys.search, keys.search);
    if (!search) return std::move(search.error());
    auto options = read_texts(dns, path + ".options", "options");
    if (!options) return std::move(options.error());
    auto domain = read_text(dns, "domain", "a string");
    if (!domain) return std::move(domain.error());
    return CniDns{.nameservers = std::move(*nameservers),
                  .search = std::move(*search),
                  .options = std::move(*options),
                  .domain = domain->value_or("")};
}

// The runtime's capability replaces what the network says.
Result<void> read_dns(Source& source) {
    if (const Json* dns = find_member(source.plugin, "dns")) {
        auto read = read_dns_object(*dns, "dns", {.nameservers = "nameservers", .search = "search"});
        if (!read) return std::move(read.error());
        source.conf.dns = std::move(*read);
    }
    const Json* asked =
        source.runtime_config == nullptr ? nullptr : find_member_any_case(*source.runtime_config, "dns");
    if (asked == nullptr) return ok();
    auto read = read_dns_object(*asked, "runtimeConfig.dns", {.nameservers = "servers", .search = "searches"});
    if (!read) return std::move(read.error());
    if (!read->empty()) source.conf.dns = std::move(*read);
    return ok();
}

// ---- what the runtime says of one container

Result<void> read_bandwidth(Source& source) {
    const Json* bandwidth =
        source.runtime_config == nullptr ? nullptr : find_member_any_case(*source.runtime_config, "bandwidth");
    if (bandwidth == nullptr) return ok();
    for (const char* key : {"ingressRate", "egressRate"}) {
        const Json* rate = find_member_any_case(*bandwidth, key);
        if (rate != nullptr && rate->is_number() && rate->get<double>() > 0) source.conf.bandwidth_asked = true;
    }
    return ok();
}

Result<void> take_mac(Source& source, const std::string& origin, const Json& value) {
    const auto mac = value.is_string() ? Mac::parse(value.get_ref<const std::string&>()) : std::nullopt;
    if (!mac || mac->is_zero() || mac->is_multicast())
        return wrong_value(origin, value, "a unicast MAC address like 02:fc:00:00:00:01");
    source.conf.mac = mac;
    return ok();
}

// The capability wins over args.cni, which wins over CNI_ARGS; an empty string asks for nothing.
Result<void> read_mac(Source& source) {
    if (source.runtime_config != nullptr)
        if (const Json* mac = find_member_any_case(*source.runtime_config, "mac"); mac != nullptr && *mac != "")
            return take_mac(source, "runtimeConfig.mac", *mac);
    if (const Json* args = find_member(source.plugin, "args"))
        if (const Json* cni = find_member(*args, "cni"))
            if (const Json* mac = find_member(*cni, "mac"); mac != nullptr && *mac != "")
                return take_mac(source, "args.cni.mac", *mac);
    for (const auto& [key, value] : parse_cni_args(source.args))
        if (key == "MAC" && !value.empty()) return take_mac(source, "MAC (in CNI_ARGS)", value);
    return ok();
}

Result<void> read_pod(Source& source) {
    std::string pod_namespace;
    std::string name;
    for (auto& [key, value] : parse_cni_args(source.args)) {
        if (key == "K8S_POD_NAMESPACE") pod_namespace = value;
        if (key == "K8S_POD_NAME") name = value;
    }
    if (!name.empty()) source.conf.pod = pod_namespace.empty() ? name : pod_namespace + "/" + name;
    return ok();
}

Result<void> read_requests(Source& source) {
    auto allowance = read_allowance(source.plugin, source.conf.remarks);
    if (!allowance) return std::move(allowance.error());
    const Json* annotations = source.runtime_config == nullptr
                                  ? nullptr
                                  : find_member_any_case(*source.runtime_config, "io.kubernetes.cri.pod-annotations");
    const Asks asks = collect_asks(annotations, source.args, source.ifname, source.conf.remarks);
    return apply_asks(asks, *allowance, source.conf);
}

Result<void> check_port(Source& source) { return check_port_keys(source.conf); }

Result<void> read_prev_result(Source& source) {
    const Json* value = find_member(source.plugin, "prevResult");
    if (value == nullptr) return ok();
    auto result = decode_result(*value, source.conf.cni_version);
    if (!result) return std::move(result.error()).in("key \"prevResult\"").with_code(7);
    source.conf.prev_result = std::move(*result);
    return ok();
}

Result<void> remark_on_unknown_keys(Source& source) {
    constexpr std::array<std::string_view, 36> known{"type",          "name",         "cniVersion",
                                                     "cniVersions",   "mode",         "nic",
                                                     "nicRequired",   "containerXdp", "containerProgram",
                                                     "arming",        "mtu",          "localMtu",
                                                     "localSubnets",  "queues",       "cpumap",
                                                     "fastPathTo",    "policy",       "allowedSources",
                                                     "spoofCheck",    "chain",        "protectedBy",
                                                     "vlan",          "vlanTrunk",    "portIsolation",
                                                     "isGateway",     "allow",        "ipam",
                                                     "dns",           "ipMasq",       "capabilities",
                                                     "runtimeConfig", "args",         "prevResult",
                                                     "disableCheck",  "disableGC",    "loadOnlyInlinedPlugins"};
    for (const auto& item : source.plugin.items())
        if (!item.key().starts_with("cni.dev/") && std::ranges::find(known, item.key()) == known.end())
            source.conf.remarks.push_back("unknown key \"" + item.key() + "\"");
    return ok();
}

using Step = Result<void> (*)(Source&);

constexpr std::array<Step, 4> identity_steps{read_version, read_name, read_valid_attachments, read_ipam};
constexpr std::array<Step, 17> value_steps{read_arming,
                                           read_port,
                                           refuse_keys_of_later_versions,
                                           read_nic,
                                           read_sizes,
                                           read_policy,
                                           read_prefix_lists,
                                           read_flags,
                                           default_local_subnets,
                                           read_dns,
                                           read_bandwidth,
                                           read_mac,
                                           read_pod,
                                           read_requests,
                                           check_port,
                                           read_prev_result,
                                           remark_on_unknown_keys};

Result<void> read_steps(Source& source, Purpose purpose) {
    for (const Step step : identity_steps)
        if (auto read = step(source); !read) return read;
    for (const Step step : value_steps) {
        auto read = step(source);
        if (!read && purpose == Purpose::attach) return read;
        if (!read) source.conf.remarks.push_back(read.error().text);
    }
    return ok();
}

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

}  // namespace

bool is_valid_name(const std::string& name) {
    constexpr std::string_view others = "_.-";
    const auto is_fit = [&](char c) { return is_letter_or_digit(c) || others.find(c) != std::string_view::npos; };
    return !name.empty() && is_letter_or_digit(name.front()) && std::ranges::all_of(name, is_fit);
}

bool is_valid_ifname(const std::string& name) {
    constexpr std::size_t longest = 15;  // IFNAMSIZ less its end
    // The kernel takes '%' for a template ("eth%d"), and byte 0xa0 for a space.
    const auto is_unfit = [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return c == '/' || c == ':' || c == '%' || byte <= ' ' || byte == 0x7f || byte == 0xa0;
    };
    return !name.empty() && name.size() <= longest && name != "." && name != ".." &&
           std::ranges::none_of(name, is_unfit);
}

Result<NetConf> parse_net_conf(const std::string& json, const std::string& args, const std::string& ifname,
                               Purpose purpose) {
    auto plugin = parse_json(json);
    if (!plugin) return std::move(plugin.error()).in("network configuration");
    if (!plugin->is_object())
        return Error{.code = 6,
                     .errno_value = 0,
                     .text = "network configuration: " + describe(*plugin) + " is no JSON object",
                     .hint = {}};
    NetConf conf;
    conf.raw = json;
    const Json* runtime_config = find_member(*plugin, "runtimeConfig");
    Source source{.plugin = *plugin, .runtime_config = runtime_config, .args = args, .ifname = ifname, .conf = conf};
    if (auto read = read_steps(source, purpose); !read) return std::move(read.error()).in("network configuration");
    return conf;
}

}  // namespace xveth::attachment
