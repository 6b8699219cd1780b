// SPDX-License-Identifier: Apache-2.0
// Where a node's objects are pinned, and the bpffs that holds them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xveth::bpf {

class PinPaths {
public:
    PinPaths(std::uint64_t cookie, std::string bpffs) : bpffs_(std::move(bpffs)), cookie_(std::to_string(cookie)) {}

    [[nodiscard]] const std::string& bpffs() const { return bpffs_; }
    [[nodiscard]] std::string layout() const;  // <bpffs>/xveth/v<layout>
    [[nodiscard]] std::string node() const { return layout() + "/" + cookie_; }
    // Where the objects are pinned before they are published under node(): by the holder of the node lock alone.
    [[nodiscard]] std::string staging() const { return node() + "-new"; }
    [[nodiscard]] std::string map(const std::string& name) const { return node() + "/maps/" + name; }
    [[nodiscard]] std::string program(const std::string& name) const { return node() + "/programs/" + name; }
    [[nodiscard]] std::string links() const { return node() + "/links"; }
    [[nodiscard]] std::string link(const std::string& pin) const { return links() + "/" + pin; }
    // Instances of the operator's programs: whose maps are where, and the maps.
    [[nodiscard]] std::string instances() const { return node() + "/instances"; }
    [[nodiscard]] std::string pods() const { return bpffs_ + "/xveth/pods"; }

private:
    std::string bpffs_;
    std::string cookie_;
};

// Mounts sysfs at /sys unless it is there: libbpf reads the kernel's types below it.
[[nodiscard]] Result<void> ensure_sysfs();
// Mounts a bpffs at `path` unless one is there.
[[nodiscard]] Result<void> ensure_bpffs(const std::string& path);
// The object pinned at `path`; errno_value ENOENT when there is none.
[[nodiscard]] Result<UniqueFd> open_pin(const std::string& path);
[[nodiscard]] Result<bool> pin_exists(const std::string& path);
[[nodiscard]] Result<void> unpin_if_present(const std::string& path);
// Names in a directory; none when it does not exist.
[[nodiscard]] Result<std::vector<std::string>> list_pins(const std::string& dir);
// Removes a directory of pins and everything below it; what cannot be removed stays.
void remove_pins(const std::string& dir);

}  // namespace xveth::bpf
