// SPDX-License-Identifier: Apache-2.0
// The programs, maps and links of one node (a host network namespace), pinned below
//     <bpffs>/xveth/v<layout>/<netns cookie>/
//       maps/<map name>   programs/xv_nic, xv_host, xv_pod, xv_bridge (bridges.hpp)   links/<hex>h (host end) <hex>c (container end) nic-<ifindex>
//
// `Objects` is an interface so that callers can be tested against a fake that remembers (loader/fake_objects.hpp).
// Nothing here takes locks: callers that load, allocate or change maps hold the node lock (datapath).
// Error codes: 101 attach, 102 maps, 106 kernel feature missing; text has the kernel's words.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/address.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"
#include "bpf-progs/include/abi.h"

namespace xveth::bpf {

enum class PortId : std::uint32_t { none = 0 };
enum class ChainId : std::uint16_t { none = 0 };
enum class Program : std::uint8_t { nic, host, pod, bridge, function, egress };

// What sits at a pinned link.
struct LinkInfo {
    std::uint32_t ifindex = 0;  // 0: its device or namespace is gone
    std::uint32_t program_id = 0;
};

// A program that somebody attached to a device.
struct AttachedProgram {
    std::uint32_t id = 0;
    std::string name;
    std::string mode;  // "native", "generic", "offloaded"
};

struct FastCounter {
    std::uint64_t frames = 0;
    std::uint64_t bytes = 0;
};

struct PortStats {
    FastCounter to_port;
    FastCounter from_port;
    std::map<std::uint32_t, std::uint64_t> reasons;  // enum xv_reason -> frames, all CPUs added up
};

struct HopStats {
    std::uint64_t in = 0, out = 0, dropped = 0;
};

class Objects {
public:
    virtual ~Objects() = default;

    // -- the node's shared objects
    // Opens the pinned objects, or loads and pins them (all or nothing: published by rename of the directory).
    // Mounts a bpffs where there is none. Cheap when they are there: nothing is verified again.
    virtual Result<void> ensure_loaded() = 0;
    // Opens them if pinned; false when this node has none. Never loads or mounts.
    virtual Result<bool> open_if_loaded() = 0;
    // Whether the loaded programs can ask conntrack (rule 3): false = only flows between containers are fast.
    [[nodiscard]] virtual bool has_conntrack() const = 0;
    // Id of a loaded program (bpf_prog_info.id).
    virtual Result<std::uint32_t> program_id(Program program) = 0;

    // -- links. `pin` is a file name below links/: hex digits and a letter (bpffs refuses dots).
    // Attaches natively to `ifindex` of namespace `ns` and pins. A device that carries somebody else's program is an
    // error (errno EBUSY) naming its id, name and mode; it is never touched.
    virtual Result<void> attach(const Netns& ns, std::uint32_t ifindex, Program program, const std::string& pin) = 0;
    virtual Result<std::optional<LinkInfo>> find_link(const std::string& pin) = 0;
    // Removes the pin, which detaches; success when there is none.
    virtual Result<void> remove_link_if_present(const std::string& pin) = 0;
    virtual Result<std::vector<std::string>> list_links() = 0;
    // Who is on a device of namespace `ns`; nothing when nobody.
    virtual Result<std::optional<AttachedProgram>> attached_program(const Netns& ns, std::uint32_t ifindex) = 0;
    // Whether BPF programs sit at a device's tcx hooks (Linux 6.6), which no list of tc filters shows.
    virtual Result<bool> has_tcx_programs(const Netns& ns, std::uint32_t ifindex) = 0;

    // -- ports. The id is chosen here: the next free one, with a new epoch.
    virtual Result<PortId> allocate_port(const xv_port& port) = 0;         // fills epoch; also enters xv_port_of
    virtual Result<void> update_port(PortId id, const xv_port& port) = 0;  // keeps epoch
    virtual Result<xv_port> get_port(PortId id) = 0;                       // ifindex 0 = free
    virtual Result<std::optional<PortId>> find_port(std::uint32_t ifindex) = 0;
    virtual Result<std::vector<std::pair<PortId, xv_port>>> list_ports() = 0;
    // Removes the port from every map (xv_ports, xv_port_of, xv_sources, xv_fast_to, counters, reasons); success when free.
    virtual Result<void> free_port(PortId id) = 0;

    // -- redirect targets (xv_ports). The device is resolved in the calling thread's namespace: the node's.
    virtual Result<void> put_target(PortId id, std::uint32_t ifindex) = 0;  // reads it back
    virtual Result<std::optional<std::uint32_t>> find_target(PortId id) = 0;
    virtual Result<void> remove_target_if_present(PortId id) = 0;

    // -- addresses
    virtual Result<void> put_endpoint(const IpAddress& address, PortId id) = 0;
    virtual Result<std::optional<PortId>> find_endpoint(const IpAddress& address) = 0;
    virtual Result<std::vector<std::pair<IpAddress, PortId>>> list_endpoints() = 0;
    // Removes it only if it leads to `id`: an address may have passed to another attachment.
    virtual Result<void> remove_endpoint_if_of(const IpAddress& address, PortId id) = 0;
    virtual Result<void> put_source(PortId id, const IpPrefix& prefix) = 0;   // allowedSources
    virtual Result<void> put_fast_to(PortId id, const IpPrefix& prefix) = 0;  // fastPathTo

    // -- chains
    virtual Result<std::vector<std::pair<ChainId, xv_chain>>> list_chains() = 0;
    virtual Result<ChainId> allocate_chain(const std::string& name) = 0;
    // In force when it returns: verdicts that were cached before are asked anew.
    virtual Result<void> put_chain_slot(ChainId id, std::uint32_t index, const xv_chain_slot& slot) = 0;
    virtual Result<void> free_chain(ChainId id) = 0;
    virtual Result<HopStats> hop_stats(ChainId id, std::uint32_t index) = 0;
    virtual Result<void> attach_egress(const Netns& ns, std::uint32_t ifindex, const std::string& pin) = 0;

    // Makes every cached verdict be asked anew. Call after any change of ports or endpoints.
    virtual Result<void> bump_generation() = 0;

    // -- counters
    virtual Result<PortStats> stats(PortId id) = 0;
};

// The kernel's. `cookie`: the node's; `bpffs`: where it is mounted ("/sys/fs/bpf").
[[nodiscard]] std::unique_ptr<Objects> open_pinned_objects(std::uint64_t cookie, const std::string& bpffs);

// User-visible name of a reason ("pass_fragment", "drop_spoofed", "error_no_xmit"); "reason_N" for an unknown one.
[[nodiscard]] std::string reason_name(std::uint32_t reason);

}  // namespace xveth::bpf
