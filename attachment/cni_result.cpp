// SPDX-License-Identifier: Apache-2.0
#include "attachment/cni_result.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "attachment/cni_result_json.hpp"
#include "attachment/json.hpp"

namespace xveth::attachment {
namespace {

constexpr std::uint32_t u32_max = std::numeric_limits<std::uint32_t>::max();

// ---- encoding

void set_text(OrderedJson& object, const char* key, const std::string& value) {
    if (!value.empty()) object[key] = value;
}

void set_list(OrderedJson& object, const char* key, const std::vector<std::string>& values) {
    if (!values.empty()) object[key] = values;
}

void set_number(OrderedJson& object, const char* key, const std::optional<std::uint32_t>& value) {
    if (value) object[key] = *value;
}

void set_gateway(OrderedJson& object, const char* key, const std::optional<IpAddress>& gateway) {
    if (gateway) object[key] = gateway->to_string();
}

OrderedJson encode_dns(const CniDns& dns) {
    OrderedJson out = OrderedJson::object();
    set_list(out, "nameservers", dns.nameservers);
    set_text(out, "domain", dns.domain);
    set_list(out, "search", dns.search);
    set_list(out, "options", dns.options);
    return out;
}

OrderedJson encode_interface(const CniInterface& interface, bool with_1_1_members) {
    OrderedJson out;
    out["name"] = interface.name;
    set_text(out, "mac", interface.mac);
    if (with_1_1_members) {
        if (interface.mtu != 0) out["mtu"] = interface.mtu;
    }
    set_text(out, "sandbox", interface.sandbox);
    if (with_1_1_members) {
        set_text(out, "socketPath", interface.socket_path);
        set_text(out, "pciID", interface.pci_id);
    }
    return out;
}

OrderedJson encode_route(const CniRoute& route, bool with_1_1_members) {
    OrderedJson out;
    out["dst"] = route.destination.to_string();
    set_gateway(out, "gw", route.gateway);
    if (!with_1_1_members) return out;
    set_number(out, "mtu", route.mtu);
    set_number(out, "advmss", route.advmss);
    set_number(out, "priority", route.priority);
    set_number(out, "table", route.table);
    set_number(out, "scope", route.scope);
    return out;
}

OrderedJson encode_ip(const CniIp& ip, std::size_t interfaces, bool with_family) {
    OrderedJson out;
    if (with_family) out["version"] = ip.address.address.family == Family::ipv4 ? "4" : "6";
    if (ip.interface && *ip.interface < interfaces) out["interface"] = *ip.interface;
    out["address"] = ip.address.to_string();
    set_gateway(out, "gateway", ip.gateway);
    return out;
}

// Up to 0.2.0: one object per family, which holds that family's routes too.
void encode_family(OrderedJson& out, const CniResult& result, Family family, const char* key) {
    const auto ip =
        std::ranges::find_if(result.ips, [&](const CniIp& i) { return i.address.address.family == family; });
    if (ip == result.ips.end()) return;
    OrderedJson object;
    object["ip"] = ip->address.to_string();
    set_gateway(object, "gateway", ip->gateway);
    for (const CniRoute& route : result.routes)
        if (route.destination.address.family == family) object["routes"].push_back(encode_route(route, false));
    out[key] = std::move(object);
}

void encode_lists(OrderedJson& out, const CniResult& result, const std::string& version) {
    const bool with_family = compare_versions(version, "1.0.0") < 0;
    const bool with_1_1_members = compare_versions(version, "1.1.0") >= 0;
    for (const CniInterface& interface : result.interfaces)
        out["interfaces"].push_back(encode_interface(interface, with_1_1_members));
    for (const CniIp& ip : result.ips) out["ips"].push_back(encode_ip(ip, result.interfaces.size(), with_family));
    for (const CniRoute& route : result.routes) out["routes"].push_back(encode_route(route, with_1_1_members));
}

// ---- decoding: a Decoder walks one document and remembers the first thing that is wrong with it.

class Decoder {
public:
    CniResult read(const Json& json, const std::string& version);
    [[nodiscard]] const std::string& fault() const { return fault_; }

private:
    void read_family(const Json& json, const char* key, Family family, CniResult& result);
    CniInterface read_interface(const Json& json);
    CniIp read_ip(const Json& json, const char* address_key);
    CniRoute read_route(const Json& json);
    CniDns read_dns(const Json& json);

    template <class F>
    void for_each(const Json& object, const char* key, F use);
    std::string text(const Json& object, const char* key);
    std::vector<std::string> texts(const Json& object, const char* key);
    std::optional<std::uint32_t> number(const Json& object, const char* key);
    IpPrefix prefix(const Json& object, const char* key, bool bare_is_wrong);
    std::optional<IpAddress> gateway(const Json& object, const char* key);
    void wrong(const char* key, const Json& value, const char* wanted);

    std::string fault_;
};

void Decoder::wrong(const char* key, const Json& value, const char* wanted) {
    if (fault_.empty()) fault_ = std::string("\"") + key + "\": value " + describe(value) + " is not " + wanted;
}

template <class F>
void Decoder::for_each(const Json& object, const char* key, F use) {
    const Json* list = find_member_any_case(object, key);
    if (list == nullptr) return;
    if (!list->is_array()) return wrong(key, *list, "a list");
    for (const Json& element : *list) {
        if (!element.is_object()) return wrong(key, element, "an object");
        use(element);
    }
}

std::string Decoder::text(const Json& object, const char* key) {
    const Json* value = find_member_any_case(object, key);
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    wrong(key, *value, "a string");
    return {};
}

std::vector<std::string> Decoder::texts(const Json& object, const char* key) {
    const Json* list = find_member_any_case(object, key);
    if (list == nullptr) return {};
    std::vector<std::string> out;
    if (!list->is_array()) wrong(key, *list, "a list of strings");
    for (const Json& element : *list) {
        if (element.is_string())
            out.push_back(element.get<std::string>());
        else
            wrong(key, element, "a string");
    }
    return out;
}

std::optional<std::uint32_t> Decoder::number(const Json& object, const char* key) {
    const Json* value = find_member_any_case(object, key);
    if (value == nullptr) return std::nullopt;
    const auto parsed = as_unsigned(*value);
    if (parsed && *parsed <= u32_max) return static_cast<std::uint32_t>(*parsed);
    wrong(key, *value, "an unsigned 32-bit number");
    return std::nullopt;
}

IpPrefix Decoder::prefix(const Json& object, const char* key, bool bare_is_wrong) {
    const Json* value = find_member_any_case(object, key);
    const std::string content = text(object, key);
    if (const auto parsed = IpPrefix::parse(content)) return *parsed;
    const auto bare = IpAddress::parse(content);
    if (bare && !bare_is_wrong) return IpPrefix::host(*bare);
    wrong(key, value == nullptr ? Json() : *value, "an address with a prefix length");
    return {};
}

// Absent and empty mean none.
std::optional<IpAddress> Decoder::gateway(const Json& object, const char* key) {
    const std::string content = text(object, key);
    if (content.empty()) return std::nullopt;
    const auto parsed = IpAddress::parse(content);
    if (!parsed) wrong(key, *find_member_any_case(object, key), "an IP address");
    return parsed;
}

CniInterface Decoder::read_interface(const Json& json) {
    return {.name = text(json, "name"),
            .mac = text(json, "mac"),
            .sandbox = text(json, "sandbox"),
            .mtu = number(json, "mtu").value_or(0),
            .socket_path = text(json, "socketPath"),
            .pci_id = text(json, "pciID")};
}

CniIp Decoder::read_ip(const Json& json, const char* address_key) {
    CniIp ip{.address = prefix(json, address_key, true), .gateway = gateway(json, "gateway"), .interface = {}};
    // Some plugins say -1 for "no interface".
    const Json* index = find_member_any_case(json, "interface");
    const bool none = index != nullptr && index->is_number_integer() && index->get<std::int64_t>() < 0;
    if (!none) ip.interface = number(json, "interface");
    return ip;
}

CniRoute Decoder::read_route(const Json& json) {
    return {.destination = prefix(json, "dst", false),
            .gateway = gateway(json, "gw"),
            .mtu = number(json, "mtu"),
            .advmss = number(json, "advmss"),
            .priority = number(json, "priority"),
            .table = number(json, "table"),
            .scope = number(json, "scope")};
}

CniDns Decoder::read_dns(const Json& json) {
    const Json* dns = find_member_any_case(json, "dns");
    if (dns == nullptr) return {};
    if (!dns->is_object()) wrong("dns", *dns, "an object");
    return {.nameservers = texts(*dns, "nameservers"),
            .search = texts(*dns, "search"),
            .options = texts(*dns, "options"),
            .domain = text(*dns, "domain")};
}

void Decoder::read_family(const Json& json, const char* key, Family family, CniResult& result) {
    const Json* object = find_member_any_case(json, key);
    if (object == nullptr) return;
    if (!object->is_object()) return wrong(key, *object, "an object");
    result.ips.push_back(read_ip(*object, "ip"));
    if (result.ips.back().address.address.family != family) wrong(key, *object, "of that family");
    for_each(*object, "routes", [&](const Json& route) { result.routes.push_back(read_route(route)); });
}

CniResult Decoder::read(const Json& json, const std::string& version) {
    CniResult result;
    if (compare_versions(version, "0.3.0") < 0) {
        read_family(json, "ip4", Family::ipv4, result);
        read_family(json, "ip6", Family::ipv6, result);
    } else {
        for_each(json, "interfaces", [&](const Json& i) { result.interfaces.push_back(read_interface(i)); });
        for_each(json, "ips", [&](const Json& i) { result.ips.push_back(read_ip(i, "address")); });
        for_each(json, "routes", [&](const Json& r) { result.routes.push_back(read_route(r)); });
    }
    result.dns = read_dns(json);
    return result;
}

std::array<std::uint64_t, 3> version_numbers(const std::string& version) {
    std::array<std::uint64_t, 3> numbers{};
    std::size_t from = 0;
    for (auto& number : numbers) {
        const std::size_t dot = std::min(version.find('.', from), version.size());
        number = parse_digits(std::string_view(version).substr(from, dot - from)).value_or(0);
        if (dot == version.size()) break;
        from = dot + 1;
    }
    return numbers;
}

}  // namespace

const std::vector<std::string>& supported_versions() {
    static const std::vector<std::string> versions{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
    return versions;
}

bool is_supported_version(const std::string& version) {
    return std::ranges::find(supported_versions(), version) != supported_versions().end();
}

int compare_versions(const std::string& a, const std::string& b) {
    const auto left = version_numbers(a);
    const auto right = version_numbers(b);
    if (left < right) return -1;
    return left == right ? 0 : 1;
}

std::string encode_result(const CniResult& result, const std::string& version) {
    OrderedJson out;
    out["cniVersion"] = version;
    if (compare_versions(version, "0.3.0") < 0) {
        encode_family(out, result, Family::ipv4, "ip4");
        encode_family(out, result, Family::ipv6, "ip6");
    } else {
        encode_lists(out, result, version);
    }
    out["dns"] = encode_dns(result.dns);
    return dump_json(out);
}

Result<CniResult> decode_result(const std::string& json, const std::string& assumed_version) {
    auto parsed = parse_json(json);
    if (!parsed) return std::move(parsed.error()).in("CNI result");
    if (parsed->is_null()) return CniResult{};  // what the runtimes' library takes for an empty result
    return decode_result(*parsed, assumed_version);
}

Result<CniResult> decode_result(const Json& json, const std::string& assumed_version) {
    const auto malformed = [](const std::string& why) {
        return Error{.code = 6, .errno_value = 0, .text = "CNI result: " + why, .hint = {}};
    };
    if (!json.is_object()) return malformed("value " + describe(json) + " is no object");

    const Json* own = find_member_any_case(json, "cniVersion");
    const bool has_own = own != nullptr && own->is_string() && *own != "";
    const std::string version = has_own ? own->get<std::string>() : assumed_version;
    if (!is_supported_version(version)) return malformed("its cniVersion \"" + version + "\" is unknown to xveth");

    Decoder decoder;
    CniResult result = decoder.read(json, version);
    if (!decoder.fault().empty()) return malformed(decoder.fault());
    return result;
}

}  // namespace xveth::attachment
