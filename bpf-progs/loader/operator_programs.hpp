// SPDX-License-Identifier: Apache-2.0
// XDP programs of the node's operator: object files in a directory of theirs, loaded once for each container that runs
// one. Such an instance has maps of its own, which are pinned where the container can be shown them:
//     <bpffs>/xveth/pods/<pod uid or container id>/<ifname>/<map>
// Whose they are is said by <bpffs>/xveth/v<layout>/<netns cookie>/instances/<attachment's hash>, a symbolic link that
// holds that place: it is made first and removed last, so that what belongs to an attachment is found from its hash.
//
// An interface beside `Objects`, with a fake of its own (loader/fake_programs.hpp). Nothing here takes locks.
// Error codes: 105 the file, the program in it or the verifier; 101 attach; 102 maps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/netns.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xveth::bpf {

struct ProgramChoice {
    std::string object;   // a file's name in the directory
    std::string program;  // a function; empty: the object's only XDP program
};

struct ProgramTraits {
    std::string name;
    bool frags = false;  // takes multi-buffer frames: a veth's peer may have a large MTU
};

// A loaded program with maps of its own. It lives while this, its link or its pins do.
struct ProgramInstance {
    ProgramTraits traits;
    std::uint32_t id = 0;
    UniqueFd program;
    std::vector<std::pair<std::string, UniqueFd>> maps;  // those that the object names; by the name of their pin
};

// Where an instance's maps are pinned.
struct InstancePlace {
    std::string attachment;  // its hash
    std::string directory;   // "<pod uid or container id>/<ifname>", without dots
};

// What becomes of the maps when a running program is replaced.
enum class MapReuse : std::uint8_t { none, keep };

class OperatorPrograms {
public:
    virtual ~OperatorPrograms() = default;

    // Reads the file and finds the program in it; nothing is loaded.
    virtual Result<ProgramTraits> find(const ProgramChoice& choice) = 0;
    // Loads it; nothing is pinned or attached. `keep`: with the maps that are pinned at `place` where name and definition
    // are the same; a map whose definition changed is an error. The error's text ends with libbpf's and the verifier's words.
    virtual Result<ProgramInstance> load(const ProgramChoice& choice, MapReuse reuse, const InstancePlace& place) = 0;
    // The instance that the link `pin` holds, with its pinned maps.
    virtual Result<ProgramInstance> open(const std::string& pin, const InstancePlace& place) = 0;

    // Pins the instance's maps at `place`: those that are there already stay, others there go. A place that another
    // attachment had becomes this one's. By the holder of the node lock.
    virtual Result<void> publish_maps(const ProgramInstance& instance, const InstancePlace& place) = 0;
    // Where an attachment's maps are; nothing when it has none.
    virtual Result<std::optional<std::string>> find_place(const std::string& attachment) = 0;
    // Unpins them, unless the place has become another attachment's. By the holder of the node lock.
    virtual Result<void> remove_maps_if_present(const InstancePlace& place) = 0;
    virtual Result<std::vector<InstancePlace>> list_places() = 0;

    // As Objects::attach(): the link's pin is found and removed there.
    virtual Result<void> attach(const ProgramInstance& instance, const Netns& ns, std::uint32_t ifindex,
                                const std::string& pin) = 0;
    // Exchanges the program of a link: no frame misses both. Refused (EPERM) unless `from` is what the link holds.
    virtual Result<void> replace(const std::string& pin, const ProgramInstance& from, const ProgramInstance& to) = 0;
};

// The kernel's. `cookie` and `bpffs` as for open_pinned_objects(); `directory`: the operator's, with the object files.
[[nodiscard]] std::unique_ptr<OperatorPrograms> open_operator_programs(std::uint64_t cookie, const std::string& bpffs,
                                                                       const std::string& directory);

}  // namespace xveth::bpf
