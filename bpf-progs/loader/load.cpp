// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/load.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>

#include "base/files.hpp"
#include "base/scope_exit.hpp"
#include "bpf-progs/include/abi.h"
#include "bpf-progs/loader/log_capture.hpp"
#include "bpf-progs/loader/map.hpp"
#include "bpf-progs/loader/object_file.hpp"
#include "xv_programs.skel.h"

namespace xveth::bpf {
namespace {

constexpr std::size_t cache_bytes_per_slot = 128;             // a cache entry on one CPU, with the allocator's share
constexpr std::size_t cache_budget = std::size_t{64} << 20U;  // for all CPUs together

struct Destroy {
    void operator()(::xv_programs* objects) const { xv_programs__destroy(objects); }
    void operator()(struct bpf_link* link) const { bpf_link__destroy(link); }
    void operator()(struct btf* btf) const { btf__free(btf); }
};
using Skeleton = std::unique_ptr<::xv_programs, Destroy>;
using LinkHandle = std::unique_ptr<struct bpf_link, Destroy>;
using BtfHandle = std::unique_ptr<struct btf, Destroy>;

std::uint32_t cache_slots() {
    const std::size_t affordable = cache_budget / (cache_bytes_per_slot * possible_cpus());
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(std::bit_floor(affordable), 256, XV_CACHE_SLOTS));
}

// `traced`: with the program that counts redirect errors, which needs permission to trace.
Result<Skeleton> load_objects(bool conntrack, bool traced) {
    LogCapture log;
    Skeleton objects{xv_programs__open()};
    if (!objects) return load_error(errno, log);
    objects->rodata->xv_has_conntrack = conntrack ? 1 : 0;
    objects->rodata->xv_cache_mask = cache_slots() - 1;
    bpf_map__set_max_entries(objects->maps.xv_cache, cache_slots());
    bpf_program__set_autoload(objects->progs.xv_redirect_err, traced);
    if (const int err = xv_programs__load(objects.get()); err != 0) return load_error(-err, log);
    return objects;
}

// Tracing may be forbidden (lockdown, seccomp) where XDP is not; then redirect errors go uncounted.
Result<Skeleton> load_best(bool conntrack) {
    auto traced = load_objects(conntrack, true);
    if (traced) return traced;
    return load_objects(conntrack, false);
}

// Attaches xv_redirect_err; false where that is not possible.
bool start_tracing(const Skeleton& objects, const std::string& path) {
    if (bpf_program__fd(objects->progs.xv_redirect_err) < 0) return false;
    const LogCapture silent;
    const LinkHandle link{bpf_program__attach(objects->progs.xv_redirect_err)};
    return link && bpf_obj_pin(bpf_link__fd(link.get()), path.c_str()) == 0;
}

Result<void> describe_node(const Skeleton& objects, bool traced) {
    struct bpf_map_info info{};
    std::uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(bpf_map__fd(objects->maps.xv_ports), &info, &size) != 0)
        return errno_error(errno, "ask for the id of xv_ports").with_code(106);
    xv_node node{};
    node.flags = (objects->rodata->xv_has_conntrack != 0 ? std::uint32_t{XV_NODE_CONNTRACK} : 0U) |
                 (traced ? std::uint32_t{XV_NODE_TRACE} : 0U);
    node.next_port = 1;
    node.next_epoch = 1;
    node.ports_map_id = info.id;
    const std::uint32_t zero = 0;
    if (bpf_map_update_elem(bpf_map__fd(objects->maps.xv_node), &zero, &node, BPF_ANY) != 0)
        return errno_error(errno, "write xv_node").with_code(106);
    return ok();
}

Result<void> stage(const Skeleton& objects, const std::string& dir) {
    for (const char* below : {"/maps", "/programs", "/links"})
        if (auto made = make_directories(dir + below, 0700); !made) return std::move(made.error()).or_code(106);
    if (auto pinned = pin_maps(objects->obj, dir + "/maps"); !pinned) return pinned;
    if (auto pinned = pin_programs(objects->obj, dir + "/programs"); !pinned) return pinned;
    return describe_node(objects, start_tracing(objects, dir + "/trace"));
}

}  // namespace

bool kernel_has_conntrack_functions() {
    const LogCapture silent;
    const BtfHandle kernel{btf__load_vmlinux_btf()};
    if (!kernel) return false;
    const auto has = [](const struct btf* btf) {
        // The second one is younger (6.0): without it a flow could not be handed over to conntrack.
        return btf__find_by_name_kind(btf, "bpf_xdp_ct_lookup", BTF_KIND_FUNC) > 0 &&
               btf__find_by_name_kind(btf, "bpf_xdp_ct_alloc", BTF_KIND_FUNC) > 0;
    };
    if (has(kernel.get())) return true;
    const BtfHandle module{btf__load_module_btf("nf_conntrack", kernel.get())};
    return module && has(module.get());
}

Result<void> load_and_publish(const PinPaths& paths, bool conntrack) {
    if (auto mounted = ensure_bpffs(paths.bpffs()); !mounted) return mounted;
    remove_pins(paths.staging());
    const ScopeExit discard{[&] { remove_pins(paths.staging()); }};
    auto objects = load_best(conntrack);
    if (!objects) return std::move(objects.error());
    if (auto staged = stage(*objects, paths.staging()); !staged) return staged;
    if (::rename(paths.staging().c_str(), paths.node().c_str()) == 0) return ok();
    if (errno == EEXIST || errno == ENOTEMPTY) return ok();
    return errno_error(errno, "publish " + paths.node()).with_code(106);
}

}  // namespace xveth::bpf
