// SPDX-License-Identifier: Apache-2.0
#include "bench/cni.hpp"

#include <chrono>

#include "bench/host_tools.hpp"

namespace xveth::bench {
namespace {

constexpr auto pod_subnet = "10.91.0.0/16";

nlohmann::json range_of(Addresses addresses) {
    if (addresses == Addresses::crowd) return {{"subnet", pod_subnet}, {"rangeStart", "10.91.128.0"}};
    return {{"subnet", pod_subnet}, {"rangeEnd", "10.91.127.255"}};
}

nlohmann::json configuration(const NetworkChoice& choice, Addresses addresses, const std::string& data_dir) {
    nlohmann::json config = {{"cniVersion", "1.0.0"},
                             {"name", "xvbench"},
                             {"type", peer_name(choice.peer)},
                             {"ipam",
                              {{"type", "host-local"},
                               {"dataDir", data_dir},
                               {"ranges", nlohmann::json::array({nlohmann::json::array({range_of(addresses)})})},
                               {"routes", {{{"dst", "0.0.0.0/0"}}}}}}};
    if (choice.peer == Peer::bridge) {
        config["bridge"] = "xvbench0";
        config["isGateway"] = true;
    }
    if (choice.peer == Peer::xveth) {
        config["mode"] = "route";
        config["nic"] = choice.nic;
        config["containerXdp"] = choice.container_xdp;
    }
    config.update(choice.keys);
    return config;
}

// Neither of the plugins' bridges ("xvbench0", "xvb-…"), nor the node's own port of one ("xvbr-…").
bool is_host_end(const std::string& device) {
    return device != "xvbench0" && !device.starts_with("xvb-") && !device.starts_with("xvbr-");
}

// Takes from an ADD result what the bench needs; the host's end is the veth that is in no sandbox and is no bridge.
void read_result(const std::string& text, CniNetwork::Outcome& outcome) {
    const auto result = nlohmann::json::parse(text, nullptr, false);
    if (result.is_discarded()) return;
    for (const auto& ip : result.value("ips", nlohmann::json::array()))
        outcome.address = ip.value("address", "").substr(0, ip.value("address", "").find('/'));
    for (const auto& interface : result.value("interfaces", nlohmann::json::array()))
        if (!interface.value("sandbox", "").empty())
            outcome.mac = interface.value("mac", "");
        else if (is_host_end(interface.value("name", "")))
            outcome.host_end = interface.value("name", "");
}

}  // namespace

std::string peer_name(Peer peer) {
    switch (peer) {
        case Peer::ptp:
            return "ptp";
        case Peer::bridge:
            return "bridge";
        case Peer::xveth:
            break;
    }
    return "xveth";
}

CniNetwork::CniNetwork(const Settings& settings, const NetworkChoice& choice, Addresses addresses,
                       const std::string& data_dir)
    : binary_((choice.peer == Peer::xveth ? settings.bin_dir : settings.cni_path) + "/" + peer_name(choice.peer)),
      path_(settings.bin_dir + ":" + settings.cni_path),
      configuration_(configuration(choice, addresses, data_dir).dump()) {}

Result<CniNetwork::Outcome> CniNetwork::run(const std::string& command, const std::string& container_id,
                                            const std::string& netns_path) const {
    const std::vector<std::string> environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                                                  "CNI_COMMAND=" + command,
                                                  "CNI_CONTAINERID=" + container_id,
                                                  "CNI_NETNS=" + netns_path,
                                                  "CNI_IFNAME=eth0",
                                                  "CNI_PATH=" + path_};
    const auto start = std::chrono::steady_clock::now();
    auto done = run_process({binary_}, environment, configuration_);
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    if (!done) return std::move(done.error());
    if (done->status != 0)
        return Error{
            .code = 0, .errno_value = 0, .text = binary_ + " " + command + ": " + done->out + done->err, .hint = {}};
    Outcome outcome{
        .milliseconds = spent.count(), .max_rss_kib = done->usage.ru_maxrss, .address = {}, .host_end = {}, .mac = {}};
    read_result(done->out, outcome);
    if (command == "ADD" && (outcome.address.empty() || outcome.host_end.empty()))
        return Error{.code = 0, .errno_value = 0, .text = binary_ + ": no usable ADD result: " + done->out, .hint = {}};
    return outcome;
}

}  // namespace xveth::bench
