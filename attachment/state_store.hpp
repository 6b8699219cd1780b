// SPDX-License-Identifier: Apache-2.0
// What xveth remembers of its attachments: one JSON file each, below <run dir>/<netns cookie>/<network>/. The files are
// gone with a reboot, like the devices. A file that cannot be read counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/address.hpp"
#include "base/result.hpp"

namespace xveth::attachment {

// (network, container id, ifname) names an attachment; everything else is found from it.
struct AttachmentKey {
    std::string network;
    std::string container_id;
    std::string ifname;

    // 12 hex digits: host end "xv<hash>", pins "<hash>h" and "<hash>c", state file "<hash>.json".
    [[nodiscard]] std::string hash() const;
    // IFALIAS of the host end: "xveth:<network>/<container id>/<ifname>", cut to the kernel's 255 bytes.
    [[nodiscard]] std::string alias() const;
    auto operator<=>(const AttachmentKey&) const = default;
};

// The operator's program at the container's end.
struct ProgramRecord {
    std::string object;   // file
    std::string program;  // function
    std::string maps;     // directory of its maps, below pods/
    bool frags = false;   // takes multi-buffer frames
    std::uint32_t id = 0;
    std::uint32_t next_id = 0;  // while a replacement is under way: the new one's
};

// A place in a chain.
struct ChainRecord {
    std::string name;
    std::uint16_t position = 0;      // of a function; 0 = a container that the chain protects
    bool bypass_on_failure = false;  // of a function: else frames are dropped while it is gone
    bool stack_path_passes = false;  // of a protected container: what no chain carries is delivered
};

// Written before anything is made (the intent: `complete` false), and again as the last step of ADD.
struct AttachmentRecord {
    AttachmentKey key;
    bool complete = false;
    bool bridged = false;       // a port of its network's bridge
    bool chained = false;       // we armed an existing veth; DEL leaves the devices alone
    std::string owner = "cni";  // "cni" or "oci-hook"
    std::string netns_path;
    std::string container_xdp;  // "managed", "free", "program"
    std::optional<ProgramRecord> program;
    std::string host_end;  // name
    std::uint32_t host_ifindex = 0;
    std::uint32_t container_ifindex = 0;
    std::uint32_t port = 0;  // port id; 0 = none yet
    std::vector<IpAddress> addresses;
    bool masqueraded = false;
    std::optional<ChainRecord> chain;
    std::string ipam_type;
    std::string conf;  // the configuration that ADD got: DEL by GC frees the lease with it
    std::string args;  // CNI_ARGS of that ADD
    // Features of a chained device as we found them, to be put back: (name, on).
    std::vector<std::pair<std::string, bool>> container_features, host_features;
    std::optional<std::string> pod;  // namespace/name from CNI_ARGS, for people
};

class StateStore {
public:
    // `directory`: <run dir>/<netns cookie>.
    explicit StateStore(std::string directory) : directory_(std::move(directory)) {}
    virtual ~StateStore() = default;
    StateStore(const StateStore&) = delete;
    StateStore& operator=(const StateStore&) = delete;

    virtual Result<void> put(const AttachmentRecord& record);
    virtual Result<std::optional<AttachmentRecord>> find(const AttachmentKey& key);
    virtual Result<void> remove_if_present(const AttachmentKey& key);  // and its directory when empty
    virtual Result<std::vector<AttachmentRecord>> list(const std::string& network);
    virtual Result<std::vector<AttachmentRecord>> list_all();
    [[nodiscard]] std::string lock_path(const AttachmentKey& key) const;  // <directory>/locks/<hash>
    Result<std::vector<std::string>> list_lock_paths();                   // of attachments
    [[nodiscard]] std::string node_lock_path() const;                     // <directory>/locks/node
    [[nodiscard]] std::string agent_lock_path() const;                    // held by xvethd while it runs

private:
    std::string directory_;
};

}  // namespace xveth::attachment
