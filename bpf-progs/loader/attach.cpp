// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/attach.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "bpf-progs/loader/bpffs.hpp"

namespace xveth::bpf {
namespace {

std::string device(std::uint32_t ifindex) { return "device " + std::to_string(ifindex); }

// The kernel's name for a program; empty when it is gone already.
std::string program_name(std::uint32_t id) {
    const UniqueFd fd{bpf_prog_get_fd_by_id(id)};
    struct bpf_prog_info info{};
    std::uint32_t size = sizeof(info);
    if (!fd.valid() || bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0) return {};
    return info.name;
}

AttachedProgram attached(std::uint32_t id, const char* mode) {
    return {.id = id, .name = program_name(id), .mode = mode};
}

Error busy(std::uint32_t ifindex, const AttachedProgram& owner) {
    return Error{.code = 101,
                 .errno_value = EBUSY,
                 .text = device(ifindex) + " already carries XDP program " + (owner.name.empty() ? "?" : owner.name) +
                         " (id " + std::to_string(owner.id) + ", " + owner.mode + ")",
                 .hint = "its owner must remove it first; xveth never replaces a program that it did not attach"};
}

// bpf_link_create hands out no extack; these are the causes in the kernel's dev_xdp_attach and the drivers.
std::string cause(int err) {
    switch (err) {
        case ERANGE:
            return "the MTU is larger than native XDP of this device takes (on a veth: its peer's MTU)";
        case ENOSPC:
            return "the device has too few queues: on a veth the peer needs as many tx queues as this end has rx "
                   "queues";
        case EOPNOTSUPP:
            return "the driver has no native XDP";
        case ENOMEM:
            return "the kernel is out of memory, or the device has too few queues left for XDP transmission";
        case EINVAL:
            return "the driver refuses native XDP in the device's present state (MTU, LRO, queues)";
        case ENODEV:
            return "the device is gone";
        default:
            return {};
    }
}

}  // namespace

Result<std::optional<AttachedProgram>> query_program(std::uint32_t ifindex) {
    LIBBPF_OPTS(bpf_xdp_query_opts, query);
    if (const int err = bpf_xdp_query(static_cast<int>(ifindex), 0, &query); err != 0)
        return errno_error(-err, "ask for the XDP program of " + device(ifindex)).with_code(101);
    if (query.hw_prog_id != 0) return std::optional{attached(query.hw_prog_id, "offloaded")};
    if (query.drv_prog_id != 0) return std::optional{attached(query.drv_prog_id, "native")};
    if (query.skb_prog_id != 0) return std::optional{attached(query.skb_prog_id, "generic")};
    if (query.prog_id == 0) return std::optional<AttachedProgram>{};
    // A single program is told by mode and one id.
    return std::optional{attached(query.prog_id, query.attach_mode == XDP_ATTACHED_SKB  ? "generic"
                                                 : query.attach_mode == XDP_ATTACHED_HW ? "offloaded"
                                                                                        : "native")};
}

namespace {

// BPF_TCX_INGRESS and BPF_TCX_EGRESS, which headers before Linux 6.6 lack.
constexpr auto tcx_ingress = static_cast<bpf_attach_type>(46);
constexpr auto tcx_egress = static_cast<bpf_attach_type>(47);

}  // namespace

Result<bool> query_tcx(std::uint32_t ifindex, std::uint32_t own) {
    // The device goes where others have a descriptor: the kernel keeps both in a union. It holds 64 programs at most.
    for (const auto hook : {tcx_ingress, tcx_egress}) {
        std::array<std::uint32_t, 64> ids{};
        std::uint32_t count = ids.size();
        const int err = bpf_prog_query(static_cast<int>(ifindex), hook, 0, nullptr, ids.data(), &count);
        if (err == -EINVAL || err == -ENOENT) continue;  // an older kernel; nobody was ever there
        if (err != 0) return errno_error(-err, "ask for the tcx programs of " + device(ifindex)).with_code(101);
        if (std::any_of(ids.begin(), ids.begin() + count, [&](std::uint32_t id) { return id != own; })) return true;
    }
    return false;
}

// Who else is on the device is asked only after the kernel's refusal: the question costs a list of all devices.
Result<UniqueFd> create_native_link(int program_fd, std::uint32_t ifindex) {
    LIBBPF_OPTS(bpf_link_create_opts, options, .flags = XDP_FLAGS_DRV_MODE);
    UniqueFd link{bpf_link_create(program_fd, static_cast<int>(ifindex), BPF_XDP, &options)};
    if (link.valid()) return link;
    const int err = errno;
    if (err == EBUSY || err == EEXIST) {
        auto owner = query_program(ifindex);
        if (owner && *owner) return busy(ifindex, **owner);
    }
    return errno_error(err, "attach native XDP to " + device(ifindex)).with_code(101).with_hint(cause(err));
}

Result<LinkInfo> describe_link(int link_fd) {
    struct bpf_link_info info{};
    std::uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(link_fd, &info, &size) != 0)
        return errno_error(errno, "ask about a link").with_code(101);
    return LinkInfo{.ifindex = info.xdp.ifindex, .program_id = info.prog_id};
}

namespace {

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// A link whose device is gone is what a lost DEL left.
Result<void> remove_dead_link(const std::string& path) {
    auto link = find_pinned_link(path);
    if (!link) return std::move(link.error());
    return *link && (*link)->ifindex == 0 ? detach_and_unpin(path) : ok();
}

Result<void> pin_link(const UniqueFd& link, const std::string& path) {
    if (bpf_obj_pin(link.get(), path.c_str()) == 0) return ok();
    if (errno != EEXIST) return errno_error(errno, "pin link " + name_of(path)).with_code(101);
    if (auto removed = remove_dead_link(path); !removed) return removed;
    if (bpf_obj_pin(link.get(), path.c_str()) != 0)
        return errno_error(errno, "pin link " + name_of(path)).with_code(101);
    return ok();
}

}  // namespace

Result<void> attach_and_pin(const Netns& ns, std::uint32_t ifindex, int program_fd, const std::string& path) {
    auto scope = NetnsScope::enter(ns);
    if (!scope) return std::move(scope.error()).or_code(101);
    auto link = create_native_link(program_fd, ifindex);
    if (!link) return std::move(link.error());
    return pin_link(*link, path);
}

Result<void> attach_egress_and_pin(const Netns& ns, std::uint32_t ifindex, int program_fd, const std::string& path) {
    auto scope = NetnsScope::enter(ns);
    if (!scope) return std::move(scope.error()).or_code(101);
    const UniqueFd link{bpf_link_create(program_fd, static_cast<int>(ifindex), tcx_egress, nullptr)};
    if (link.valid()) return pin_link(link, path);
    if (errno == EINVAL)
        return Error{.code = 106,
                     .errno_value = EINVAL,
                     .text = "attach tc to " + device(ifindex) + ": this kernel has no tcx hooks",
                     .hint = "chains need Linux 6.6"};
    return errno_error(errno, "attach tc to " + device(ifindex)).with_code(101);
}

Result<std::optional<LinkInfo>> find_pinned_link(const std::string& path) {
    auto link = open_pin(path);
    if (!link && link.error().errno_value == ENOENT) return std::optional<LinkInfo>{};
    if (!link) return std::move(link.error()).with_code(101);
    auto info = describe_link(link->get());
    if (!info) return std::move(info.error());
    return std::optional{*info};
}

Result<void> detach_and_unpin(const std::string& path) {
    auto link = open_pin(path);
    if (!link && link.error().errno_value == ENOENT) return ok();
    // Removing the pin alone would detach some time later, in a worker of the kernel.
    if (link && bpf_link_detach(link->get()) != 0 && errno != ENOLINK && errno != ENODEV && errno != EOPNOTSUPP)
        return errno_error(errno, "detach link " + name_of(path)).with_code(101);
    auto removed = unpin_if_present(path);
    if (!removed) return std::move(removed.error()).with_code(101);
    return ok();
}

Result<std::uint32_t> id_of_program(int program_fd) {
    struct bpf_prog_info info{};
    std::uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(program_fd, &info, &size) != 0)
        return errno_error(errno, "ask for a program's id").with_code(101);
    return info.id;
}

}  // namespace xveth::bpf
