// SPDX-License-Identifier: Apache-2.0
// xvethd: the node's agent. Optional: without it containers come and go as well, and a chain notices only a function that
// is gone. Ends on SIGTERM and SIGINT and leaves everything as it is. Exit status: 0 told to end, 1 usage, 2 failed.
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "agent/agent.hpp"
#include "attachment/log.hpp"
#include "base/unique_fd.hpp"

namespace {

using namespace xveth;

enum Exit : int { well = 0, usage = 1, failed = 2 };

int fail(const Error& error) {
    std::cerr << "xvethd: " << error.text << '\n';
    return failed;
}

// Readable once the process is told to end.
UniqueFd ending_signals() {
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, nullptr);
    return UniqueFd{::signalfd(-1, &ending, SFD_CLOEXEC)};
}

int run() {
    const UniqueFd stop = ending_signals();
    if (!stop.valid()) return fail(errno_error(errno, "signalfd"));
    const char* path = std::getenv("XVETH_LOG");
    const attachment::Log log{path == nullptr ? "/var/log/xveth.log" : path};
    auto agent = agent::Agent::start([&log](const std::string& level, const std::string& message) {
        log.write(level, message, {{"agent", "xvethd"}});
    });
    if (!agent) return fail(agent.error());
    if (auto looked = agent->look_at_all(); !looked) return fail(looked.error());
    std::cout << "xvethd: watching" << std::endl;
    if (auto ended = agent->run(stop.get()); !ended) return fail(ended.error());
    return well;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{
        "Watches which functions of chains run an XDP program, on this node (the network namespace that it runs in)."};
    app.set_version_flag("--version", "xvethd " XVETH_VERSION);
    try {
        app.parse(argc, argv);
        return run();
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);
        std::cerr << "xvethd: " << e.what() << ": see xvethd --help\n";
        return usage;
    } catch (const std::exception& e) {
        return fail({.code = 0, .errno_value = 0, .text = std::string("internal error: ") + e.what(), .hint = {}});
    }
}
