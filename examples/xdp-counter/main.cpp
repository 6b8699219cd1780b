// SPDX-License-Identifier: Apache-2.0
// A container that counts frames at its own XDP hook: attaches to eth0, prints a line a second, and detaches on SIGTERM.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <net/if.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <numeric>
#include <vector>

#include "xv_counter.skel.h"

namespace {

constexpr const char* device = "eth0";

int fail(const char* what) {
    std::fprintf(stderr, "xdp-counter: %s %s: %s\n", what, device, std::strerror(errno));
    return 1;
}

std::uint64_t frames_of(const xv_counter& counter, std::uint32_t kind) {
    std::vector<std::uint64_t> per_cpu(static_cast<std::size_t>(libbpf_num_possible_cpus()));
    if (bpf_map_lookup_elem(bpf_map__fd(counter.maps.frames), &kind, per_cpu.data()) != 0) return 0;
    return std::accumulate(per_cpu.begin(), per_cpu.end(), std::uint64_t{0});
}

void print(const xv_counter& counter) {
    std::printf("ipv4 %llu ipv6 %llu other %llu\n", static_cast<unsigned long long>(frames_of(counter, 0)),
                static_cast<unsigned long long>(frames_of(counter, 1)),
                static_cast<unsigned long long>(frames_of(counter, 2)));
    std::fflush(stdout);
}

// Waits a second; false when it is time to end.
bool wait_for_more(const sigset_t& ending) {
    const timespec second{.tv_sec = 1, .tv_nsec = 0};
    return sigtimedwait(&ending, nullptr, &second) < 0;
}

}  // namespace

int main() {
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, nullptr);

    xv_counter* counter = xv_counter::open_and_load();
    if (counter == nullptr) return fail("load the program for");
    const auto index = static_cast<int>(if_nametoindex(device));
    bpf_link* link = index == 0 ? nullptr : bpf_program__attach_xdp(counter->progs.count, index);
    if (link == nullptr) return fail("attach to");
    do print(*counter);
    while (wait_for_more(ending));
    print(*counter);
    bpf_link__destroy(link);
    xv_counter::destroy(counter);
    return 0;
}
