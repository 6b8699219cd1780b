// SPDX-License-Identifier: Apache-2.0
#include "bench/programs.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <xvb_counting.skel.h>

#include <cerrno>
#include <cstring>

#include "bench/topology.hpp"

namespace xveth::bench {
namespace {

const bpf_program* program_of(const xvb_counting& object, Role role) {
    switch (role) {
        case Role::drop:
            return object.progs.xvb_drop;
        case Role::answer:
            return object.progs.xvb_answer;
        case Role::hand_on:
            return object.progs.xvb_hand_on;
        case Role::pass:
            break;
    }
    return object.progs.xvb_pass;
}

}  // namespace

Result<UniqueFd> attach_natively(const Netns& ns, const std::string& device, const bpf_program* program) {
    auto ifindex = ifindex_of(ns, device);
    if (!ifindex) return std::move(ifindex.error());
    auto inside = NetnsScope::enter(ns);
    if (!inside) return std::move(inside.error());
    bpf_link_create_opts options{};
    options.sz = sizeof(options);
    options.flags = XDP_FLAGS_DRV_MODE;
    UniqueFd link{::bpf_link_create(::bpf_program__fd(program), static_cast<int>(*ifindex), BPF_XDP, &options)};
    if (!link.valid())
        return errno_error(errno, std::string("attach ") + ::bpf_program__name(program) + " to " + device);
    return link;
}

void Receiver::Unload::operator()(xvb_counting* object) const { xvb_counting::destroy(object); }

Result<Receiver> Receiver::attach(const Netns& ns, const std::string& device, Role role,
                                  const std::optional<Mac>& next) {
    Receiver receiver;
    receiver.object_.reset(xvb_counting::open_and_load());
    if (!receiver.object_) return errno_error(errno, "load the receiving XDP programs");
    if (next) {
        std::memcpy(receiver.object_->bss->next_mac, next->bytes.data(), next->bytes.size());
        receiver.object_->bss->has_next = true;
    }
    auto link = attach_natively(ns, device, program_of(*receiver.object_, role));
    if (!link) return std::move(link.error());
    receiver.link_ = std::move(*link);
    return receiver;
}

Result<std::vector<std::uint64_t>> Receiver::counted() const {
    const std::uint32_t key = 0;
    std::vector<std::uint64_t> per_cpu(static_cast<std::size_t>(::libbpf_num_possible_cpus()));
    if (::bpf_map_lookup_elem(::bpf_map__fd(object_->maps.counted), &key, per_cpu.data()) != 0)
        return errno_error(errno, "read the frame counter");
    return per_cpu;
}

}  // namespace xveth::bench
