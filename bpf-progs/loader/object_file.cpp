// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/object_file.hpp"

#include <bpf/bpf.h>
#include <unistd.h>

#include <cerrno>

#include "bpf-progs/loader/bpffs.hpp"

namespace xveth::bpf {

Error load_error(int err, const LogCapture& log) {
    auto error = errno_error(err, "load the XDP programs").with_code(106);
    if (!log.tail().empty()) error.text += " (" + log.tail() + ")";
    if (::access("/sys/kernel/btf/vmlinux", R_OK) != 0)
        return std::move(error).with_hint(
            "/sys/kernel/btf/vmlinux is missing: mount sysfs, or use a kernel with CONFIG_DEBUG_INFO_BTF");
    if (err == EPERM)
        return std::move(error).with_hint("needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (or CAP_SYS_ADMIN)");
    return error;
}

Result<void> pin(int fd, const std::string& path) {
    if (bpf_obj_pin(fd, path.c_str()) != 0) return errno_error(errno, "pin " + path).with_code(106);
    return ok();
}

Result<void> pin_maps(struct bpf_object* object, const std::string& dir) {
    struct bpf_map* map = nullptr;
    bpf_object__for_each_map(map, object) {
        if (bpf_map__is_internal(map)) continue;  // their names hold dots, and nobody opens them
        const std::string path = dir + "/" + bpf_map__name(map);
        auto there = pin_exists(path);
        if (!there) return std::move(there.error()).with_code(106);
        if (*there) continue;
        if (auto pinned = pin(bpf_map__fd(map), path); !pinned) return pinned;
    }
    return ok();
}

Result<void> pin_programs(struct bpf_object* object, const std::string& dir) {
    struct bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object) {
        if (bpf_program__fd(program) < 0) continue;
        if (auto pinned = pin(bpf_program__fd(program), dir + "/" + bpf_program__name(program)); !pinned) return pinned;
    }
    return ok();
}

Result<void> reuse_pinned_maps(struct bpf_object* object, const std::string& dir) {
    struct bpf_map* map = nullptr;
    bpf_object__for_each_map(map, object) {
        if (bpf_map__is_internal(map)) continue;
        const std::string name = bpf_map__name(map);
        auto pinned = open_pin(dir + "/" + name);
        if (!pinned && pinned.error().errno_value == ENOENT) continue;
        if (!pinned) return std::move(pinned.error()).with_code(106);
        if (const int err = bpf_map__reuse_fd(map, pinned->get()); err != 0)  // makes a descriptor of its own
            return errno_error(-err, "share map " + name).with_code(106);
    }
    return ok();
}

}  // namespace xveth::bpf
