// SPDX-License-Identifier: Apache-2.0
// A CNI runtime in small: it runs the real plugin binaries as containerd would.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/netns.hpp"
#include "base/result.hpp"
#include "bench/settings.hpp"

namespace xveth::bench {

enum class Peer { ptp, bridge, xveth };

[[nodiscard]] std::string peer_name(Peer peer);

// What a container is connected with: the plugin and what distinguishes this lab's configuration.
struct NetworkChoice {
    Peer peer = Peer::ptp;
    std::string container_xdp = "managed";           // xveth only
    std::string nic = {};                            // xveth only
    nlohmann::json keys = nlohmann::json::object();  // further keys of the plugin object
};

// Which half of the containers' subnet: the containers that only crowd a node have addresses, and a host-local store, of
// their own, because host-local reads all addresses of its store at every call.
enum class Addresses { measured, crowd };

// One network configuration of one node.
class CniNetwork {
public:
    // `data_dir`: where host-local keeps this network's addresses.
    CniNetwork(const Settings& settings, const NetworkChoice& choice, Addresses addresses, const std::string& data_dir);

    struct Outcome {
        double milliseconds = 0;  // from the start of the plugin's process to its end
        long max_rss_kib = 0;     // of the plugin and the IPAM plugin it ran
        std::string address;      // ADD: IPv4 address without prefix length
        std::string host_end;     // ADD: name of the veth end in the node
        std::string mac;          // ADD: of the container's end
    };
    // Runs in the calling thread's network namespace: enter the node's first.
    [[nodiscard]] Result<Outcome> run(const std::string& command, const std::string& container_id,
                                      const std::string& netns_path) const;

private:
    std::string binary_;
    std::string path_;  // CNI_PATH
    std::string configuration_;
};

}  // namespace xveth::bench
