// SPDX-License-Identifier: Apache-2.0
// The result of an ADD as a value, and its form in each version of the CNI specification.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/result.hpp"

namespace xveth::attachment {

struct CniInterface {
    std::string name;
    std::string mac;
    std::string sandbox;  // exactly the runtime's CNI_NETNS; empty = on the host
    std::uint32_t mtu = 0;
    std::string socket_path;  // of other plugins in a chain; kept
    std::string pci_id;
};

struct CniIp {
    IpPrefix address;
    std::optional<IpAddress> gateway;
    std::optional<std::uint32_t> interface;  // index into CniResult::interfaces
};

struct CniRoute {
    IpPrefix destination;
    std::optional<IpAddress> gateway;
    std::optional<std::uint32_t> mtu, advmss, priority, table, scope;
};

struct CniDns {
    std::vector<std::string> nameservers, search, options;
    std::string domain;
    [[nodiscard]] bool empty() const {
        return nameservers.empty() && search.empty() && options.empty() && domain.empty();
    }
};

struct CniResult {
    std::vector<CniInterface> interfaces;
    std::vector<CniIp> ips;
    std::vector<CniRoute> routes;
    CniDns dns;
};

// Oldest first; the last one is the newest that we speak.
[[nodiscard]] const std::vector<std::string>& supported_versions();
[[nodiscard]] bool is_supported_version(const std::string& version);
// Orders versions by number: -1, 0, 1.
[[nodiscard]] int compare_versions(const std::string& a, const std::string& b);

// The result as JSON text in exactly the form of `version`. An `interface` index outside of `interfaces` is left out:
// containerd dies of one.
[[nodiscard]] std::string encode_result(const CniResult& result, const std::string& version);
// Reads a result of any supported version: its own cniVersion decides, `assumed_version` where it has none.
// Code 6 on malformed text, with what was wrong.
[[nodiscard]] Result<CniResult> decode_result(const std::string& json, const std::string& assumed_version);

}  // namespace xveth::attachment
