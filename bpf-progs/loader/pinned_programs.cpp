// SPDX-License-Identifier: Apache-2.0
// OperatorPrograms over the pins of a node.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/files.hpp"
#include "bpf-progs/loader/attach.hpp"
#include "bpf-progs/loader/bpffs.hpp"
#include "bpf-progs/loader/operator_object.hpp"
#include "bpf-progs/loader/operator_programs.hpp"

namespace xveth::bpf {
namespace {

Result<std::uint32_t> id_of_map(int fd, const std::string& name) {
    struct bpf_map_info info{};
    std::uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0)
        return errno_error(errno, "ask about map " + name).with_code(102);
    return info.id;
}

class PinnedPrograms final : public OperatorPrograms {
public:
    PinnedPrograms(std::uint64_t cookie, const std::string& bpffs, std::string directory)
        : paths_(cookie, bpffs), directory_(std::move(directory)) {}

    Result<ProgramTraits> find(const ProgramChoice& choice) override;
    Result<ProgramInstance> load(const ProgramChoice& choice, MapReuse reuse, const InstancePlace& place) override;
    Result<ProgramInstance> open(const std::string& pin, const InstancePlace& place) override;
    Result<void> publish_maps(const ProgramInstance& instance, const InstancePlace& place) override;
    Result<std::optional<std::string>> find_place(const std::string& attachment) override;
    Result<void> remove_maps_if_present(const InstancePlace& place) override;
    Result<std::vector<InstancePlace>> list_places() override;
    Result<void> attach(const ProgramInstance& instance, const Netns& ns, std::uint32_t ifindex,
                        const std::string& pin) override;
    Result<void> replace(const std::string& pin, const ProgramInstance& from, const ProgramInstance& to) override;

private:
    [[nodiscard]] std::string maps_at(const InstancePlace& place) const {
        return paths_.pods() + "/" + place.directory;
    }
    [[nodiscard]] std::string entry_of(const std::string& attachment) const {
        return paths_.instances() + "/" + attachment;
    }
    Result<void> claim(const InstancePlace& place);
    Result<bool> is_others(const InstancePlace& place);
    static Result<void> unpin_strangers(const ProgramInstance& instance, const std::string& directory);

    PinPaths paths_;
    std::string directory_;
};

Result<ProgramTraits> PinnedPrograms::find(const ProgramChoice& choice) {
    auto object = OperatorObject::open(directory_, choice);
    if (!object) return std::move(object.error());
    return object->traits();
}

Result<ProgramInstance> PinnedPrograms::load(const ProgramChoice& choice, MapReuse reuse, const InstancePlace& place) {
    auto object = OperatorObject::open(directory_, choice);
    if (!object) return std::move(object.error());
    if (reuse == MapReuse::keep)
        if (auto reused = object->reuse_maps(maps_at(place)); !reused) return std::move(reused.error());
    return object->load();
}

Result<ProgramInstance> PinnedPrograms::open(const std::string& pin, const InstancePlace& place) {
    auto link = find_pinned_link(paths_.link(pin));
    if (!link) return std::move(link.error());
    if (!*link || (*link)->ifindex == 0)
        return errno_error(ENOLINK, "XDP link " + pin).with_code(101).with_hint("recreate the container");
    ProgramInstance instance;
    instance.id = (*link)->program_id;
    instance.program = UniqueFd{bpf_prog_get_fd_by_id(instance.id)};
    if (!instance.program.valid())
        return errno_error(errno, "open program " + std::to_string(instance.id)).with_code(101);
    auto names = list_pins(maps_at(place));
    if (!names) return std::move(names.error()).with_code(102);
    for (auto& name : *names) {
        auto map = open_pin(maps_at(place) + "/" + name);
        if (!map) return std::move(map.error()).with_code(102);
        instance.maps.emplace_back(std::move(name), std::move(*map));
    }
    return instance;
}

// -- the maps' place

Result<std::optional<std::string>> PinnedPrograms::find_place(const std::string& attachment) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink(entry_of(attachment).c_str(), target.data(), target.size());
    if (length >= 0) return std::optional{std::string(target.data(), static_cast<std::size_t>(length))};
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<std::string>{};
    return errno_error(errno, "read " + entry_of(attachment)).with_code(102);
}

Result<std::vector<InstancePlace>> PinnedPrograms::list_places() {
    auto attachments = list_pins(paths_.instances());
    if (!attachments) return std::move(attachments.error()).with_code(102);
    std::vector<InstancePlace> places;
    for (const auto& attachment : *attachments) {
        auto directory = find_place(attachment);
        if (!directory) return std::move(directory.error());
        if (*directory) places.push_back({.attachment = attachment, .directory = std::move(**directory)});
    }
    return places;
}

// Whether another attachment has this place: a pod's second sandbox has the uid of its first.
Result<bool> PinnedPrograms::is_others(const InstancePlace& place) {
    auto places = list_places();
    if (!places) return std::move(places.error());
    return std::ranges::any_of(*places, [&](const InstancePlace& other) {
        return other.directory == place.directory && other.attachment != place.attachment;
    });
}

Result<void> PinnedPrograms::claim(const InstancePlace& place) {
    auto places = list_places();
    if (!places) return std::move(places.error());
    for (const auto& other : *places) {
        const bool ours = other.attachment == place.attachment;
        if (ours ? other.directory == place.directory : other.directory != place.directory) continue;
        if (auto removed = unpin_if_present(entry_of(other.attachment)); !removed)
            return std::move(removed.error()).with_code(102);
    }
    if (auto made = make_directories(paths_.instances(), 0700); !made) return std::move(made.error()).with_code(102);
    if (::symlink(place.directory.c_str(), entry_of(place.attachment).c_str()) != 0 && errno != EEXIST)
        return errno_error(errno, "make " + entry_of(place.attachment)).with_code(102);
    return ok();
}

// What is pinned in `directory` and is no map of the instance.
Result<void> PinnedPrograms::unpin_strangers(const ProgramInstance& instance, const std::string& directory) {
    auto names = list_pins(directory);
    if (!names) return std::move(names.error()).with_code(102);
    for (const auto& name : *names) {
        const std::string path = directory + "/" + name;
        const auto own = std::ranges::find(instance.maps, name, &std::pair<std::string, UniqueFd>::first);
        if (own != instance.maps.end()) {
            auto pinned = open_pin(path);
            if (!pinned) return std::move(pinned.error()).with_code(102);
            auto there = id_of_map(pinned->get(), name);
            auto wanted = id_of_map(own->second.get(), name);
            if (!there || !wanted) return std::move(there ? wanted.error() : there.error());
            if (*there == *wanted) continue;
        }
        if (auto removed = unpin_if_present(path); !removed) return std::move(removed.error()).with_code(102);
    }
    return ok();
}

Result<void> PinnedPrograms::publish_maps(const ProgramInstance& instance, const InstancePlace& place) {
    if (auto claimed = claim(place); !claimed) return claimed;
    const std::string directory = maps_at(place);
    if (auto made = make_directories(directory, 0700); !made) return std::move(made.error()).with_code(102);
    if (auto gone = unpin_strangers(instance, directory); !gone) return gone;
    for (const auto& [name, map] : instance.maps) {
        const std::string path = directory + "/" + name;
        if (bpf_obj_pin(map.get(), path.c_str()) != 0 && errno != EEXIST)
            return errno_error(errno, "pin " + path).with_code(102);
    }
    return ok();
}

Result<void> PinnedPrograms::remove_maps_if_present(const InstancePlace& place) {
    auto others = is_others(place);
    if (!others) return std::move(others.error());
    if (!*others) {
        const std::string directory = maps_at(place);
        auto names = list_pins(directory);
        if (!names) return std::move(names.error()).with_code(102);
        for (const auto& name : *names)
            if (auto removed = unpin_if_present(directory + "/" + name); !removed)
                return std::move(removed.error()).with_code(102);
        remove_directory_if_empty(directory);
        remove_directory_if_empty(directory.substr(0, directory.rfind('/')));  // of the pod
    }
    auto removed = unpin_if_present(entry_of(place.attachment));
    remove_directory_if_empty(paths_.instances());
    if (!removed) return std::move(removed.error()).with_code(102);
    return ok();
}

// -- links

Result<void> PinnedPrograms::attach(const ProgramInstance& instance, const Netns& ns, std::uint32_t ifindex,
                                    const std::string& pin) {
    return attach_and_pin(ns, ifindex, instance.program.get(), paths_.link(pin));
}

Result<void> PinnedPrograms::replace(const std::string& pin, const ProgramInstance& from, const ProgramInstance& to) {
    auto link = open_pin(paths_.link(pin));
    if (!link) return std::move(link.error()).with_code(101);
    LIBBPF_OPTS(bpf_link_update_opts, options, .flags = BPF_F_REPLACE,
                .old_prog_fd = static_cast<std::uint32_t>(from.program.get()));
    if (bpf_link_update(link->get(), to.program.get(), &options) == 0) return ok();
    return errno_error(errno, "replace program " + std::to_string(from.id) + " at link " + pin)
        .with_code(101)
        .with_hint(errno == EPERM ? "somebody else updated the link meanwhile" : "");
}

}  // namespace

std::unique_ptr<OperatorPrograms> open_operator_programs(std::uint64_t cookie, const std::string& bpffs,
                                                         const std::string& directory) {
    return std::make_unique<PinnedPrograms>(cookie, bpffs, directory);
}

}  // namespace xveth::bpf
