// SPDX-License-Identifier: Apache-2.0
// chain-limiter FRAMES_A_SECOND: the first function of the example.
#include <cstdlib>

#include "examples/chain/function.hpp"
#include "xv_limiter.skel.h"

int main(int argc, char** argv) {
    const unsigned long long rate = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
    if (rate == 0) {
        std::fputs("usage: chain-limiter FRAMES_A_SECOND\n", stderr);
        return 2;
    }
    xv_limiter* limiter = xv_limiter::open();
    if (limiter == nullptr) return example::fail("open the program");
    limiter->rodata->rate = rate;
    limiter->rodata->burst = rate;
    if (xv_limiter::load(limiter) != 0) return example::fail("load the program");
    return example::run_function(limiter->progs.limit, bpf_map__fd(limiter->maps.frames));
}
