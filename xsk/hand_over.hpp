// SPDX-License-Identifier: Apache-2.0
// The ways in which sockets get into their interface's XSKMAP: the map itself, or xvethd.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"
#include "xsk/xveth_xsk.hpp"

namespace xveth::xsk {

// "what: the kernel's words: remedy".
[[nodiscard]] std::unexpected<Error> failed(int err, const std::string& what, const std::string& remedy = {});

class HandOver {
public:
    [[nodiscard]] static Result<HandOver> find(const Options& options);

    Result<void> insert(std::uint32_t queue, int socket);
    [[nodiscard]] bool by_broker() const { return !map_.valid(); }
    // Why not by the map itself; empty when it is.
    [[nodiscard]] const std::string& reason() const { return reason_; }

private:
    HandOver(UniqueFd map, std::string device, std::string broker, std::string reason,
             std::chrono::milliseconds patience)
        : map_(std::move(map)),
          device_(std::move(device)),
          broker_(std::move(broker)),
          reason_(std::move(reason)),
          patience_(patience) {}

    UniqueFd map_;
    std::string device_, broker_, reason_;
    std::chrono::milliseconds patience_;
};

}  // namespace xveth::xsk
