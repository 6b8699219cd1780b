// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/load_bridge.hpp"

#include <bpf/libbpf.h>

#include <cerrno>
#include <memory>

#include "bpf-progs/loader/object_file.hpp"
#include "xv_bridge_programs.skel.h"

namespace xveth::bpf {
namespace {

struct Destroy {
    void operator()(::xv_bridge_programs* objects) const { xv_bridge_programs__destroy(objects); }
};

Result<void> pin_once(int fd, const std::string& path) {
    if (auto stale = unpin_if_present(path); !stale) return std::move(stale.error()).with_code(106);
    return pin(fd, path);
}

}  // namespace

Result<void> load_bridge(const PinPaths& paths) {
    const std::string maps = paths.node() + "/maps";
    LogCapture log;
    const std::unique_ptr<::xv_bridge_programs, Destroy> objects{xv_bridge_programs__open()};
    if (!objects) return load_error(errno, log);
    if (auto shared = reuse_pinned_maps(objects->obj, maps); !shared) return shared;
    if (const int err = xv_bridge_programs__load(objects.get()); err != 0) return load_error(-err, log);
    if (auto pinned = pin_maps(objects->obj, maps); !pinned) return pinned;
    if (auto pinned = pin_once(bpf_program__fd(objects->progs.xv_untag), paths.program("xv_untag")); !pinned)
        return pinned;
    return pin_once(bpf_program__fd(objects->progs.xv_bridge), paths.program("xv_bridge"));
}

}  // namespace xveth::bpf
