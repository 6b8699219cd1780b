// SPDX-License-Identifier: Apache-2.0
// What a function's container does beside its program: attaches it to eth0, prints a line a second, detaches on SIGTERM.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <net/if.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace example {

inline int fail(const char* what) {
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    return 1;
}

inline unsigned long long frames_of(int map, std::uint32_t kind) {
    std::uint64_t frames = 0;
    (void)bpf_map_lookup_elem(map, &kind, &frames);
    return frames;
}

inline void print(int map) {
    std::printf("sent on %llu dropped %llu\n", frames_of(map, 0), frames_of(map, 1));
    std::fflush(stdout);
}

// Holds `program` at eth0 until the process is told to end. `frames`: what the program counts.
inline int run_function(const bpf_program* program, int frames) {
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, nullptr);

    const auto device = static_cast<int>(if_nametoindex("eth0"));
    bpf_link* link = device == 0 ? nullptr : bpf_program__attach_xdp(program, device);
    if (link == nullptr) return fail("attach to eth0");
    const timespec second{.tv_sec = 1, .tv_nsec = 0};
    do print(frames);
    while (sigtimedwait(&ending, nullptr, &second) < 0);
    print(frames);
    bpf_link__destroy(link);
    return 0;
}

}  // namespace example
