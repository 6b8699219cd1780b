// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/operator_object.hpp"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "bpf-progs/loader/attach.hpp"
#include "bpf-progs/loader/bpffs.hpp"
#include "bpf-progs/loader/log_capture.hpp"
#include "bpf-progs/loader/operator_file.hpp"

namespace xveth::bpf {
namespace {

Error fault(const std::string& path, const std::string& why, std::string hint) {
    return {.code = 105, .errno_value = EINVAL, .text = path + ": " + why, .hint = std::move(hint)};
}

// Programs that a device can run: not those of devmap and cpumap entries.
bool is_for_devices(const struct bpf_program* program) {
    return bpf_program__type(program) == BPF_PROG_TYPE_XDP && bpf_program__expected_attach_type(program) == BPF_XDP;
}

std::vector<struct bpf_program*> programs_for_devices(struct bpf_object* object) {
    std::vector<struct bpf_program*> found;
    struct bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object) if (is_for_devices(program)) found.push_back(program);
    return found;
}

std::string names_of(const std::vector<struct bpf_program*>& programs) {
    std::string names;
    for (const struct bpf_program* program : programs)
        names += (names.empty() ? "" : ", ") + std::string(bpf_program__name(program));
    return names.empty() ? "none" : names;
}

// The file's name up to its first dot: libbpf names maps of global variables by it.
std::string object_name(const std::string& file) { return file.substr(0, file.find('.')); }

std::string said(const LogCapture& log) { return log.tail().empty() ? "" : " (" + log.tail() + ")"; }

// The definition of a map that is pinned already.
Result<struct bpf_map_info> definition_of(int fd, const std::string& path) {
    struct bpf_map_info info{};
    std::uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0) return errno_error(errno, "ask about " + path).with_code(102);
    // Every devmap is read-only to programs, whatever flags it was asked for with.
    if (info.type == BPF_MAP_TYPE_DEVMAP || info.type == BPF_MAP_TYPE_DEVMAP_HASH)
        info.map_flags &= ~static_cast<std::uint32_t>(BPF_F_RDONLY_PROG);
    return info;
}

// What differs between the pinned map and the new definition; empty when nothing does.
std::string difference(const struct bpf_map_info& old, const struct bpf_map* map) {
    const auto differs = [](const char* what, std::uint64_t was, std::uint64_t is) {
        return was == is ? std::string{}
                         : std::string(what) + " was " + std::to_string(was) + " and is " + std::to_string(is);
    };
    std::string text = differs("its type", old.type, bpf_map__type(map));
    if (text.empty()) text = differs("its key size", old.key_size, bpf_map__key_size(map));
    if (text.empty()) text = differs("its value size", old.value_size, bpf_map__value_size(map));
    const std::uint32_t entries = bpf_map__max_entries(map);  // 0: the kernel's or libbpf's own choice
    if (text.empty() && entries != 0) text = differs("its number of entries", old.max_entries, entries);
    if (text.empty()) text = differs("its flags", old.map_flags, bpf_map__map_flags(map));
    return text;
}

// bpffs refuses names with dots, and a slash would lead elsewhere.
Result<std::string> pin_name(const std::string& path, const struct bpf_map* map) {
    std::string name = bpf_map__name(map);
    std::replace(name.begin(), name.end(), '.', '%');
    if (name.empty() || name.find('/') != std::string::npos)
        return fault(path, "a map is called \"" + name + "\"", "name it by letters, digits and underscores");
    return name;
}

using Handle = std::unique_ptr<struct bpf_object, CloseObject>;

Handle open_object(const std::string& content, const std::string& name) {
    LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = name.c_str());
    return Handle{bpf_object__open_mem(content.data(), content.size(), &options)};
}

// libbpf believes what a file says of its sizes: some broken ones crash it. So a child opens it first, which has nothing
// to lose.
Result<void> rehearse_opening(const std::string& content, const std::string& name, const std::string& path) {
    constexpr unsigned patience_s = 10;
    const pid_t child = ::fork();
    if (child < 0) return errno_error(errno, path + ": start a process that reads it").with_code(105);
    if (child == 0) {
        const struct rlimit no_core{};
        ::setrlimit(RLIMIT_CORE, &no_core);
        ::alarm(patience_s);
        libbpf_set_print(nullptr);
        (void)open_object(content, name);
        ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (!WIFSIGNALED(status)) return ok();
    return fault(path, "not read as a BPF object: libbpf dies of it (signal " + std::to_string(WTERMSIG(status)) + ")",
                 "the file is broken: build and install it anew");
}

}  // namespace

Result<OperatorObject> OperatorObject::open(const std::string& directory, const ProgramChoice& choice) {
    auto content = read_operator_file(directory, choice.object);
    if (!content) return std::move(content.error());
    const std::string path = directory + "/" + choice.object;
    const std::string name = object_name(choice.object);
    if (auto rehearsed = rehearse_opening(*content, name, path); !rehearsed) return std::move(rehearsed.error());
    const LogCapture log;
    Handle handle = open_object(*content, name);
    if (!handle) {
        auto error = errno_error(errno, path + ": not read as a BPF object").with_code(105);
        error.text += said(log);
        return std::move(error).with_hint("build and install it anew: clang -target bpf -O2 -g -c");
    }
    OperatorObject object{path, std::move(handle)};
    if (auto chosen = object.choose(choice.program); !chosen) return std::move(chosen.error());
    return object;
}

Result<void> OperatorObject::choose(const std::string& name) {
    const auto programs = programs_for_devices(handle_.get());
    if (name.empty() && programs.size() != 1)
        return fault(path_, "which program? Its XDP programs: " + names_of(programs), "name one: OBJECT:PROGRAM");
    program_ = name.empty() ? programs.front() : bpf_object__find_program_by_name(handle_.get(), name.c_str());
    if (program_ == nullptr)
        return fault(path_, "no program " + name + ". Its XDP programs: " + names_of(programs), "name one of these");
    const std::string section = bpf_program__section_name(program_);
    if (!is_for_devices(program_))
        return fault(path_, "program " + name + " is no XDP program: its section is \"" + section + "\"",
                     "put it into section \"xdp.frags\" or \"xdp\". The object's XDP programs: " + names_of(programs));
    traits_ = {.name = bpf_program__name(program_), .frags = section.starts_with("xdp.frags")};
    return ok();
}

Error OperatorObject::failure(int err, const std::string& log) const {
    auto error = errno_error(err, path_ + ": load program " + traits_.name).with_code(105);
    error.text += log;
    return std::move(error).with_hint("the log's last lines say what is refused; all of it: bpftool -d prog load " +
                                      path_ + " /sys/fs/bpf/try type xdp");
}

Result<void> OperatorObject::reuse_maps(const std::string& place) {
    struct bpf_map* map = nullptr;
    bpf_object__for_each_map(map, handle_.get()) {
        if (bpf_map__is_internal(map) || bpf_map__type(map) == BPF_MAP_TYPE_PROG_ARRAY) continue;
        auto name = pin_name(path_, map);
        if (!name) return std::move(name.error());
        auto pinned = open_pin(place + "/" + *name);
        if (!pinned && pinned.error().errno_value == ENOENT) continue;
        if (!pinned) return std::move(pinned.error()).with_code(102);
        auto old = definition_of(pinned->get(), place + "/" + *name);
        if (!old) return std::move(old.error());
        if (const auto what = difference(*old, map); !what.empty())
            return fault(path_, "map " + *name + " cannot be kept: " + what,
                         "--fresh-maps begins with empty maps; or recreate the container");
        if (const int err = bpf_map__reuse_fd(map, pinned->get()); err != 0)
            return errno_error(-err, path_ + ": keep map " + *name).with_code(102);
    }
    return ok();
}

Result<ProgramInstance> OperatorObject::load() {
    struct bpf_program* program = nullptr;
    bpf_object__for_each_program(program, handle_.get()) {
        // The others may be called by it, or by a map's entries; what is not for XDP would be loaded for nothing.
        const bool wanted = bpf_program__type(program) == BPF_PROG_TYPE_XDP && bpf_program__autoload(program);
        bpf_program__set_autoload(program, program == program_ || wanted);
    }
    struct bpf_map* map = nullptr;
    // A map that libbpf would pin by its name, and share between containers, becomes the instance's own.
    bpf_object__for_each_map(map, handle_.get())(void) bpf_map__set_pin_path(map, nullptr);
    {
        const LogCapture log;
        if (const int err = bpf_object__load(handle_.get()); err != 0) return failure(-err, said(log));
    }
    const auto duplicate = [](int fd) { return UniqueFd{::fcntl(fd, F_DUPFD_CLOEXEC, 0)}; };
    ProgramInstance instance{.traits = traits_, .program = duplicate(bpf_program__fd(program_)), .maps = {}};
    if (!instance.program.valid()) return errno_error(errno, path_ + ": keep the program").with_code(105);
    auto id = id_of_program(instance.program.get());
    if (!id) return std::move(id.error());
    instance.id = *id;
    bpf_object__for_each_map(map, handle_.get()) {
        if (bpf_map__is_internal(map) || bpf_map__fd(map) < 0) continue;
        auto name = pin_name(path_, map);
        if (!name) return std::move(name.error());
        instance.maps.emplace_back(std::move(*name), duplicate(bpf_map__fd(map)));
        if (!instance.maps.back().second.valid()) return errno_error(errno, path_ + ": keep a map").with_code(105);
    }
    return instance;
}

}  // namespace xveth::bpf
