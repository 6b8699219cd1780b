// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/fake_programs.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>

namespace xveth::bpf {
namespace {

AttachedProgram as_attached(const ProgramInstance& instance) {
    return {.id = instance.id, .name = instance.traits.name, .mode = "native"};
}

}  // namespace

std::string FakePrograms::to_string() const {
    std::ostringstream out;
    for (const auto& [attachment, directory] : places_) out << "maps of " << attachment << ": " << directory << "\n";
    for (const auto& [directory, maps] : pins_)
        for (const auto& map : maps) out << "map pods/" << directory << "/" << map << "\n";
    return out.str();
}

Result<void> FakePrograms::step(const char* name, int code) {
    if (auto counted = faults_.step(name); !counted) return std::move(counted.error()).with_code(code);
    return ok();
}

Result<const FakePrograms::File*> FakePrograms::file_of(const ProgramChoice& choice) const {
    const auto found = files.find(choice.object);
    if (found == files.end()) return errno_error(ENOENT, choice.object).with_code(105);
    const auto& file = found->second;
    if (!choice.program.empty() && choice.program != file.traits.name)
        return errno_error(EINVAL, choice.object + ": no program " + choice.program).with_code(105);
    return &file;
}

Result<ProgramTraits> FakePrograms::find(const ProgramChoice& choice) {
    if (auto counted = step("find program", 105); !counted) return std::move(counted.error());
    auto file = file_of(choice);
    if (!file) return std::move(file.error());
    return (*file)->traits;
}

Result<ProgramInstance> FakePrograms::load(const ProgramChoice& choice, MapReuse, const InstancePlace&) {
    if (auto counted = step("load program", 105); !counted) return std::move(counted.error());
    auto file = file_of(choice);
    if (!file) return std::move(file.error());
    ProgramInstance instance{.traits = (*file)->traits, .id = next_id_++, .program = {}, .maps = {}};
    for (const auto& map : (*file)->maps) instance.maps.emplace_back(map, UniqueFd{});
    return instance;
}

Result<ProgramInstance> FakePrograms::open(const std::string& pin, const InstancePlace& place) {
    if (auto counted = step("open program", 101); !counted) return std::move(counted.error());
    const auto program = objects_.program_at(pin);
    if (!program) return errno_error(ENOLINK, "link " + pin).with_code(101);
    ProgramInstance instance{
        .traits = {.name = program->name, .frags = false}, .id = program->id, .program = {}, .maps = {}};
    if (const auto pinned = pins_.find(place.directory); pinned != pins_.end())
        for (const auto& map : pinned->second) instance.maps.emplace_back(map, UniqueFd{});
    return instance;
}

Result<void> FakePrograms::publish_maps(const ProgramInstance& instance, const InstancePlace& place) {
    if (auto counted = step("publish maps", 102); !counted) return counted;
    std::erase_if(places_, [&](const auto& entry) { return entry.second == place.directory; });
    places_[place.attachment] = place.directory;
    auto& pins = pins_[place.directory];
    pins.clear();
    for (const auto& map : instance.maps) pins.insert(map.first);
    return ok();
}

Result<std::optional<std::string>> FakePrograms::find_place(const std::string& attachment) {
    if (auto counted = step("find place", 102); !counted) return std::move(counted.error());
    const auto found = places_.find(attachment);
    return found == places_.end() ? std::optional<std::string>{} : std::optional{found->second};
}

Result<void> FakePrograms::remove_maps_if_present(const InstancePlace& place) {
    if (auto counted = step("remove maps", 102); !counted) return counted;
    const bool others = std::ranges::any_of(
        places_, [&](const auto& entry) { return entry.second == place.directory && entry.first != place.attachment; });
    if (!others) pins_.erase(place.directory);
    places_.erase(place.attachment);
    return ok();
}

Result<std::vector<InstancePlace>> FakePrograms::list_places() {
    if (auto counted = step("list places", 102); !counted) return std::move(counted.error());
    std::vector<InstancePlace> places;
    for (const auto& [attachment, directory] : places_)
        places.push_back({.attachment = attachment, .directory = directory});
    return places;
}

Result<void> FakePrograms::attach(const ProgramInstance& instance, const Netns& ns, std::uint32_t ifindex,
                                  const std::string& pin) {
    if (auto counted = step("attach program", 101); !counted) return counted;
    return objects_.attach_program(ns, ifindex, as_attached(instance), pin);
}

Result<void> FakePrograms::replace(const std::string& pin, const ProgramInstance& from, const ProgramInstance& to) {
    if (auto counted = step("replace program", 101); !counted) return counted;
    const auto program = objects_.program_at(pin);
    if (!program) return errno_error(ENOLINK, "replace the program at link " + pin).with_code(101);
    if (program->id != from.id) return errno_error(EPERM, "replace the program at link " + pin).with_code(101);
    objects_.put_program_at(pin, as_attached(to));
    return ok();
}

}  // namespace xveth::bpf
