// SPDX-License-Identifier: Apache-2.0
// chain-filter PORT…: the second function of the example, with the ports that stay open.
#include <cstdlib>

#include "examples/chain/function.hpp"
#include "xv_filter.skel.h"

int main(int argc, char** argv) {
    xv_filter* filter = xv_filter::open_and_load();
    if (filter == nullptr) return example::fail("load the program");
    for (int i = 1; i < argc; ++i) {
        const auto port = static_cast<std::uint16_t>(std::strtoul(argv[i], nullptr, 10));
        const std::uint8_t open = 1;
        if (port == 0 || bpf_map_update_elem(bpf_map__fd(filter->maps.open_ports), &port, &open, BPF_ANY) != 0)
            return example::fail(argv[i]);
    }
    return example::run_function(filter->progs.filter, bpf_map__fd(filter->maps.frames));
}
