// SPDX-License-Identifier: Apache-2.0
#include "xsk/examples/program.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <iostream>

namespace example {
namespace {

using namespace std::chrono_literals;
using xveth::xsk::Frame;
using xveth::xsk::Port;
using xveth::xsk::Verdict;

volatile std::sig_atomic_t ended = 0;

struct Counts {
    std::uint64_t frames = 0, bytes = 0, sent = 0;
};

int fail(const Program& program, const std::string& text) {
    std::cerr << program.name << ": " << text << '\n';
    return 2;
}

void end_on_signals() {
    struct sigaction action{};
    action.sa_handler = [](int) { ended = 1; };
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
}

void print(const Counts& counts, Port& port) {
    std::uint64_t lost = 0;
    xveth::xsk::FrameCount sum;
    for (const auto& queue : port.queues()) {
        const auto frames = queue.frames();
        lost += queue.lost();
        sum.free += frames.free;
        sum.receiving += frames.receiving;
        sum.sending += frames.sending;
    }
    std::cout << "frames " << counts.frames << " bytes " << counts.bytes << " sent " << counts.sent << " lost " << lost
              << " (memory: free " << sum.free << " receiving " << sum.receiving << " sending " << sum.sending << ")"
              << std::endl;
}

int serve(const Program& program, Work work, const xveth::xsk::Options& options) {
    const auto me = Identity::of(options.device);
    if (!me) return fail(program, me.error().text);
    auto port = Port::open(options);
    if (!port) return fail(program, port.error().text);
    std::cout << program.name << ": " << options.device << ", queues " << port->queues().size() << std::endl;
    Counts counts;
    const auto handle = [&](Frame& frame) {
        ++counts.frames;
        counts.bytes += frame.size;
        const Verdict verdict = answer_neighbours(*me, frame) ? Verdict::send : work(*me, frame);
        counts.sent += verdict == Verdict::send ? 1U : 0U;
        return verdict;
    };
    auto next_line = std::chrono::steady_clock::now() + 1s;
    while (ended == 0) {
        if (const auto ready = port->wait(100ms); !ready) return fail(program, ready.error().text);
        if (const auto received = port->receive(handle); !received) return fail(program, received.error().text);
        if (std::chrono::steady_clock::now() < next_line) continue;
        print(counts, *port);
        next_line += 1s;
    }
    if (const auto last = port->receive(handle); !last) return fail(program, last.error().text);
    print(counts, *port);
    return 0;
}

}  // namespace

int run(const Program& program, int argc, char** argv) {
    end_on_signals();
    CLI::App app{program.description};
    xveth::xsk::Options options;
    bool extra = false;
    app.add_option("--device", options.device, "interface of this container")->capture_default_str();
    app.add_option("--frames", options.frames, "frames of memory per queue, a power of two")->capture_default_str();
    app.add_option("--map", options.map, "the pinned XSKMAP, if it is not /run/xveth/DEVICE/xsks");
    app.add_option_function<unsigned>(
        "--patience", [&](unsigned ms) { options.patience = std::chrono::milliseconds(ms); },
        "milliseconds to wait for queues that a predecessor holds (5000)");
    if (program.extra != nullptr) app.add_flag(program.extra, extra, program.extra_description);
    CLI11_PARSE(app, argc, argv);
    return serve(program, extra ? program.extra_work : program.work, options);
}

}  // namespace example
