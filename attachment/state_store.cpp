// SPDX-License-Identifier: Apache-2.0
#include "attachment/state_store.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "attachment/json.hpp"
#include "base/files.hpp"

namespace xveth::attachment {
namespace {

constexpr std::string_view suffix = ".json";

// Names of a directory's entries; nothing when there is no such directory.
Result<std::vector<std::string>> entries_of(const std::string& directory) {
    const auto close = [](DIR* dir) { ::closedir(dir); };
    const std::unique_ptr<DIR, decltype(close)> dir{::opendir(directory.c_str()), close};
    if (!dir && (errno == ENOENT || errno == ENOTDIR)) return std::vector<std::string>{};
    if (!dir) return errno_error(errno, "list " + directory).with_code(104);
    std::vector<std::string> names;
    for (;;) {
        errno = 0;
        const dirent* entry = ::readdir(dir.get());
        if (entry == nullptr && errno != 0) return errno_error(errno, "list " + directory).with_code(104);
        if (entry == nullptr) break;
        const std::string name = &entry->d_name[0];
        if (name != "." && name != "..") names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
}

// A network's directory below the store's. Names are long as one likes, file names are not; a network's name never
// begins with '_'.
std::string directory_name(const std::string& network) {
    constexpr std::size_t longest = 128;
    if (network.size() <= longest) return network;
    std::array<char, 20> hex{};
    std::snprintf(hex.data(), hex.size(), "_%016llx", static_cast<unsigned long long>(hash64(network)));
    return hex.data();
}

OrderedJson features_to_json(const std::vector<std::pair<std::string, bool>>& features) {
    OrderedJson out = OrderedJson::object();
    for (const auto& [name, on] : features) out[name] = on;
    return out;
}

OrderedJson program_to_json(const ProgramRecord& program) {
    OrderedJson out;
    out["object"] = program.object;
    out["program"] = program.program;
    out["maps"] = program.maps;
    out["frags"] = program.frags;
    out["id"] = program.id;
    out["nextId"] = program.next_id;
    return out;
}

ProgramRecord program_from_json(const Json& in) {
    return {.object = in.at("object"),
            .program = in.at("program"),
            .maps = in.at("maps"),
            .frags = in.at("frags"),
            .id = in.at("id"),
            .next_id = in.at("nextId")};
}

OrderedJson chain_to_json(const ChainRecord& chain) {
    OrderedJson out;
    out["name"] = chain.name;
    out["position"] = chain.position;
    out["bypassOnFailure"] = chain.bypass_on_failure;
    out["stackPathPasses"] = chain.stack_path_passes;
    return out;
}

ChainRecord chain_from_json(const Json& in) {
    return {.name = in.at("name"),
            .position = in.at("position"),
            .bypass_on_failure = in.at("bypassOnFailure").get<bool>(),
            .stack_path_passes = in.at("stackPathPasses").get<bool>()};
}

std::string encode(const AttachmentRecord& record) {
    OrderedJson out;
    out["network"] = record.key.network;
    out["containerID"] = record.key.container_id;
    out["ifname"] = record.key.ifname;
    out["complete"] = record.complete;
    out["chained"] = record.chained;
    if (record.bridged) out["bridged"] = true;
    out["owner"] = record.owner;
    out["netns"] = record.netns_path;
    out["containerXdp"] = record.container_xdp;
    if (record.program) out["program"] = program_to_json(*record.program);
    out["hostEnd"] = record.host_end;
    out["hostIfindex"] = record.host_ifindex;
    out["containerIfindex"] = record.container_ifindex;
    out["port"] = record.port;
    out["addresses"] = OrderedJson::array();
    for (const IpAddress& address : record.addresses) out["addresses"].push_back(address.to_string());
    out["masqueraded"] = record.masqueraded;
    out["ipamType"] = record.ipam_type;
    out["conf"] = record.conf;
    out["args"] = record.args;
    out["containerFeatures"] = features_to_json(record.container_features);
    out["hostFeatures"] = features_to_json(record.host_features);
    if (record.chain) out["chain"] = chain_to_json(*record.chain);
    if (record.pod) out["pod"] = *record.pod;
    return dump_json(out) + "\n";
}

std::vector<std::pair<std::string, bool>> features_from_json(const Json& object) {
    std::vector<std::pair<std::string, bool>> out;
    for (const auto& [name, on] : object.items()) out.emplace_back(name, on.get<bool>());
    return out;
}

// Throws on a member that is missing or of another type: the file is then broken as a whole.
AttachmentRecord decode(const Json& in) {
    AttachmentRecord record;
    record.key = {.network = in.at("network"), .container_id = in.at("containerID"), .ifname = in.at("ifname")};
    record.complete = in.at("complete").get<bool>();
    record.chained = in.at("chained").get<bool>();
    if (const Json* bridged = find_member(in, "bridged")) record.bridged = bridged->get<bool>();
    record.owner = in.at("owner");
    record.netns_path = in.at("netns");
    record.container_xdp = in.at("containerXdp");
    record.host_end = in.at("hostEnd");
    record.host_ifindex = in.at("hostIfindex");
    record.container_ifindex = in.at("containerIfindex");
    record.port = in.at("port");
    for (const Json& text : in.at("addresses"))
        if (const auto address = IpAddress::parse(text.get_ref<const std::string&>()))
            record.addresses.push_back(*address);
    record.masqueraded = in.at("masqueraded").get<bool>();
    record.ipam_type = in.at("ipamType");
    record.conf = in.at("conf");
    record.args = in.at("args");
    record.container_features = features_from_json(in.at("containerFeatures"));
    record.host_features = features_from_json(in.at("hostFeatures"));
    if (const Json* program = find_member(in, "program")) record.program = program_from_json(*program);
    if (const Json* chain = find_member(in, "chain")) record.chain = chain_from_json(*chain);
    if (const Json* pod = find_member(in, "pod")) record.pod = pod->get<std::string>();
    return record;
}

std::optional<AttachmentRecord> read_record(const std::string& path) {
    const auto text = read_file(path);
    if (!text) return std::nullopt;
    const auto json = parse_json(*text);
    if (!json) return std::nullopt;
    try {
        return decode(*json);
    } catch (const Json::exception&) {
        return std::nullopt;
    }
}

std::string record_path(const std::string& directory, const AttachmentKey& key) {
    return directory + "/" + directory_name(key.network) + "/" + key.hash() + std::string(suffix);
}

}  // namespace

std::string AttachmentKey::hash() const {
    using namespace std::string_literals;
    const std::uint64_t h = hash64(network + "\0"s + container_id + "\0"s + ifname);
    constexpr std::uint64_t low_48 = (std::uint64_t{1} << 48U) - 1;
    std::array<char, 16> hex{};
    std::snprintf(hex.data(), hex.size(), "%012llx", static_cast<unsigned long long>((h >> 48U) ^ (h & low_48)));
    return hex.data();
}

std::string AttachmentKey::alias() const {
    constexpr std::size_t ifalias_limit = 255;  // IFALIASZ less its end
    return ("xveth:" + network + "/" + container_id + "/" + ifname).substr(0, ifalias_limit);
}

Result<void> StateStore::put(const AttachmentRecord& record) {
    auto written = write_file_atomically(record_path(directory_, record.key), encode(record));
    if (!written) return std::move(written.error()).in("remember the attachment").with_code(104);
    return ok();
}

Result<std::optional<AttachmentRecord>> StateStore::find(const AttachmentKey& key) {
    auto record = read_record(record_path(directory_, key));
    if (record && record->key != key) record.reset();
    return record;
}

Result<void> StateStore::remove_if_present(const AttachmentKey& key) {
    const std::string network_directory = directory_ + "/" + directory_name(key.network);
    const std::string file = key.hash() + std::string(suffix);
    auto names = entries_of(network_directory);
    if (!names) return std::move(names.error());
    // The record, and what an ADD that was killed while writing left: "<hash>.json.XXXXXX".
    for (const std::string& name : *names) {
        if (!name.starts_with(file)) continue;
        auto removed = remove_file_if_present(network_directory + "/" + name);
        if (!removed) return std::move(removed.error()).with_code(104);
    }
    remove_directory_if_empty(network_directory);
    return ok();
}

Result<std::vector<AttachmentRecord>> StateStore::list(const std::string& network) {
    const std::string network_directory = directory_ + "/" + directory_name(network);
    auto names = entries_of(network_directory);
    if (!names) return std::move(names.error());
    std::vector<AttachmentRecord> records;
    for (const std::string& name : *names) {
        if (!name.ends_with(suffix)) continue;
        auto record = read_record(network_directory + "/" + name);
        if (record && record->key.network == network) records.push_back(std::move(*record));
    }
    return records;
}

Result<std::vector<AttachmentRecord>> StateStore::list_all() {
    auto directories = entries_of(directory_);
    if (!directories) return std::move(directories.error());
    std::vector<AttachmentRecord> records;
    for (const std::string& directory : *directories) {
        auto names = entries_of(directory_ + "/" + directory);
        if (!names) return std::move(names.error());
        for (const std::string& name : *names) {
            if (!name.ends_with(suffix)) continue;
            auto record = read_record(directory_ + "/" + directory + "/" + name);
            if (record) records.push_back(std::move(*record));
        }
    }
    return records;
}

// A network may be called "locks": its records end in ".json", lock files do not.
std::string StateStore::lock_path(const AttachmentKey& key) const { return directory_ + "/locks/" + key.hash(); }

Result<std::vector<std::string>> StateStore::list_lock_paths() {
    auto names = entries_of(directory_ + "/locks");
    if (!names) return std::move(names.error());
    std::vector<std::string> paths;
    for (const std::string& name : *names)
        if (name.find_first_not_of("0123456789abcdef") == std::string::npos)
            paths.push_back(directory_ + "/locks/" + name);
    return paths;
}

std::string StateStore::node_lock_path() const { return directory_ + "/locks/node"; }
std::string StateStore::agent_lock_path() const { return directory_ + "/locks/node-agent"; }

}  // namespace xveth::attachment
