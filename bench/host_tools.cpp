// SPDX-License-Identifier: Apache-2.0
#include "bench/host_tools.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <sstream>

#include "base/unique_fd.hpp"

namespace xveth::bench {
namespace {

struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> fds{};
    if (::pipe2(fds.data(), O_CLOEXEC) != 0) return errno_error(errno, "make a pipe");
    return Pipe{.read = UniqueFd{fds[0]}, .write = UniqueFd{fds[1]}};
}

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> result;
    result.reserve(words.size() + 1);
    for (auto& word : words) result.push_back(word.data());
    result.push_back(nullptr);
    return result;
}

Result<pid_t> spawn(std::vector<std::string> command, std::vector<std::string> environment, const Pipe& in,
                    const Pipe& out, const Pipe& err) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in.read.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
    pid_t pid = 0;
    const int failure = ::posix_spawn(&pid, command.front().c_str(), &actions, nullptr, pointers(command).data(),
                                      pointers(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) return errno_error(failure, "run " + command.front());
    return pid;
}

// Appends what is there; false at the end of the stream.
bool drain(const UniqueFd& fd, std::string& text) {
    std::array<char, 16384> buffer{};
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got <= 0) return got < 0 && errno == EINTR;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    return true;
}

void collect(Pipe& out, Pipe& err, ProcessResult& result) {
    while (out.read.valid() || err.read.valid()) {
        std::array<pollfd, 2> wait{{{.fd = out.read.get(), .events = POLLIN, .revents = 0},
                                    {.fd = err.read.get(), .events = POLLIN, .revents = 0}}};
        if (::poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR) return;
        if (wait[0].revents != 0 && !drain(out.read, result.out)) out.read.reset();
        if (wait[1].revents != 0 && !drain(err.read, result.err)) err.read.reset();
    }
}

// A configuration fits into a pipe's buffer, so the child need not read for this to return.
Result<void> feed(Pipe& in, std::string_view input) {
    const ssize_t put = ::write(in.write.get(), input.data(), input.size());
    in.write.reset();
    if (put != static_cast<ssize_t>(input.size()) && errno != EPIPE) return errno_error(errno, "write to a child");
    return ok();
}

}  // namespace

Result<ProcessResult> run_process(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                                  std::string_view input) {
    auto in = make_pipe();
    auto out = make_pipe();
    auto err = make_pipe();
    if (!in) return std::move(in.error());
    if (!out) return std::move(out.error());
    if (!err) return std::move(err.error());
    auto pid = spawn(command, environment, *in, *out, *err);
    if (!pid) return std::move(pid.error());
    in->read.reset();
    out->write.reset();
    err->write.reset();
    if (auto fed = feed(*in, input); !fed) return std::move(fed.error());
    ProcessResult result;
    collect(*out, *err, result);
    int status = 0;
    while (::wait4(*pid, &status, 0, &result.usage) < 0)
        if (errno != EINTR) return errno_error(errno, "wait for " + command.front());
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

Result<std::string> run_tool(const Netns& ns, const std::string& command, std::string_view input) {
    auto inside = NetnsScope::enter(ns);
    if (!inside) return std::move(inside.error());
    std::istringstream words(command);
    std::vector<std::string> arguments{"/usr/bin/env"};  // which searches the PATH given here, not xvbench's own
    for (std::string word; words >> word;) arguments.push_back(word);
    auto done = run_process(arguments, {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, input);
    if (!done) return std::move(done.error());
    if (done->status != 0)
        return Error{.code = 0, .errno_value = 0, .text = command + ": " + done->err + done->out, .hint = {}};
    return std::move(done->out);
}

Result<void> run_ip_batch(const Netns& ns, const std::string& lines) {
    auto done = run_tool(ns, "ip -batch -", lines);
    if (!done) return std::move(done.error());
    return ok();
}

Result<std::uint64_t> sum_driver_statistics(const Netns& ns, const std::string& device, std::string_view beginning,
                                            std::string_view end) {
    auto listing = run_tool(ns, "ethtool -S " + device);
    if (!listing) return std::move(listing.error());
    std::uint64_t sum = 0;
    std::istringstream lines(*listing);
    for (std::string line; std::getline(lines, line);) {
        const auto first = line.find_first_not_of(' ');
        const auto colon = line.find(": ");
        if (first == std::string::npos || colon == std::string::npos) continue;
        const auto name = std::string_view(line).substr(first, colon - first);
        std::uint64_t value = 0;
        std::from_chars(line.data() + colon + 2, line.data() + line.size(), value);
        if (name.starts_with(beginning) && name.ends_with(end)) sum += value;
    }
    return sum;
}

}  // namespace xveth::bench
