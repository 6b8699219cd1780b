// SPDX-License-Identifier: Apache-2.0
#include "attachment/delegate_process.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <thread>

#include "base/unique_fd.hpp"

namespace xveth::attachment {
namespace {

constexpr std::size_t output_limit = 4U << 20U;

using Clock = std::chrono::steady_clock;

// An anonymous file that holds `content`, read from its start: unlike with a pipe nobody has to feed the child while
// reading its output, and a child that never reads raises no SIGPIPE.
Result<UniqueFd> file_with(const std::string& content) {
    UniqueFd fd{::memfd_create("xveth-stdin", MFD_CLOEXEC)};
    if (!fd.valid()) return errno_error(errno, "make the plugin's stdin");
    for (std::size_t done = 0; done < content.size();) {
        const ssize_t n = ::pwrite(fd.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
        if (n < 0 && errno != EINTR) return errno_error(errno, "write the plugin's stdin");
        if (n > 0) done += static_cast<std::size_t>(n);
    }
    return fd;
}

struct ExecArguments {
    const char* path;
    char* const* argv;
    char* const* envp;
    int input;
    int output;
    pid_t parent;
};

// Runs in the child, which shares our memory until execve() (vfork): system calls only. Returns errno.
int exec_in_child(const ExecArguments& arguments) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != arguments.parent) return ESRCH;  // we died before prctl() was heard
    ::signal(SIGPIPE, SIG_DFL);                         // an ignored signal would stay ignored
    if (::dup2(arguments.input, STDIN_FILENO) < 0 || ::dup2(arguments.output, STDOUT_FILENO) < 0) return errno;
    ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    ::execve(arguments.path, arguments.argv, arguments.envp);
    return errno;
}

// vfork() and not fork(): an ADD waits for it, and copying page tables costs more than everything else here.
[[gnu::noinline]] Result<pid_t> spawn(const ExecArguments& arguments) {
    volatile int exec_errno = 0;
    const pid_t pid = ::vfork();
    if (pid == 0) {
        exec_errno = exec_in_child(arguments);
        ::_exit(127);
    }
    if (pid < 0) return errno_error(errno, "start " + std::string(arguments.path));
    if (exec_errno == 0) return pid;
    ::waitpid(pid, nullptr, 0);
    return errno_error(exec_errno, "execute " + std::string(arguments.path));
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
}

// Somebody who is installing the plugin has it open for writing (ETXTBSY): that passes soon.
Result<pid_t> spawn_when_installed(const DelegateCall& call, int input, int output) {
    std::vector<std::string> arguments{call.path};
    std::vector<std::string> environment = call.environment;
    const auto argv = pointers_to(arguments);
    const auto envp = pointers_to(environment);
    const auto give_up = std::min(call.deadline, Clock::now() + std::chrono::seconds(5));
    for (;;) {
        auto pid = spawn({.path = call.path.c_str(),
                          .argv = argv.data(),
                          .envp = envp.data(),
                          .input = input,
                          .output = output,
                          .parent = ::getpid()});
        if (pid || pid.error().errno_value != ETXTBSY || Clock::now() >= give_up) return pid;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

int milliseconds_until(Clock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

// Takes what the pipe holds now. False at end of file; an output beyond the limit is left in the pipe.
bool drain(int pipe, std::string& output) {
    std::array<char, 16384> buffer{};
    while (output.size() <= output_limit) {
        const ssize_t n = ::read(pipe, buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return true;
        if (n == 0) return false;
        output.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return true;
}

// Collects output until the process itself ends; a process that it left behind may hold the pipe for longer.
Result<std::string> collect(int process, int pipe, Clock::time_point deadline) {
    std::string output;
    std::array<pollfd, 2> watched{
        {{.fd = process, .events = POLLIN, .revents = 0}, {.fd = pipe, .events = POLLIN, .revents = 0}}};
    for (;;) {
        const int ready = ::poll(watched.data(), watched.size(), milliseconds_until(deadline));
        if (ready < 0 && errno != EINTR) return errno_error(errno, "wait for the plugin");
        if (ready == 0)
            return Error{
                .code = 0, .errno_value = ETIMEDOUT, .text = "it did not answer in time and was killed", .hint = {}};
        const bool open = drain(pipe, output);
        if (!open) watched[1].fd = -1;  // poll() ignores it then
        if (output.size() > output_limit)
            return Error{
                .code = 0, .errno_value = EMSGSIZE, .text = "it wrote more than 4 MiB and was killed", .hint = {}};
        if (watched[0].revents != 0) break;
    }
    (void)drain(pipe, output);  // what it wrote between the last read and its end
    return output;
}

// Kills the group while its leader is still a zombie, so that the number cannot be another group's yet.
DelegateExit end_group(pid_t leader) {
    ::kill(-leader, SIGKILL);
    int status = 0;
    while (::waitpid(leader, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFSIGNALED(status)) return {.status = 0, .signal = WTERMSIG(status), .output = {}};
    return {.status = WEXITSTATUS(status), .signal = 0, .output = {}};
}

}  // namespace

std::vector<std::string> delegate_environment(const std::string& verb, const Request& request) {
    std::string path;
    for (const std::string& directory : request.plugin_path) path += (path.empty() ? "" : ":") + directory;
    const std::array<std::pair<std::string, std::string>, 6> own{{{"CNI_COMMAND", verb},
                                                                  {"CNI_CONTAINERID", request.container_id},
                                                                  {"CNI_NETNS", request.netns_path},
                                                                  {"CNI_IFNAME", request.ifname},
                                                                  {"CNI_ARGS", args_without_own_keys(request.args)},
                                                                  {"CNI_PATH", path}}};
    std::vector<std::string> environment;
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view variable = *entry;
        const auto is_ours = [&](const auto& pair) { return variable.starts_with(pair.first + "="); };
        if (std::ranges::none_of(own, is_ours)) environment.emplace_back(variable);
    }
    for (const auto& [name, value] : own) environment.push_back(name + "=" + value);
    return environment;
}

Result<DelegateExit> run_delegate(const DelegateCall& call) {
    auto input = file_with(call.input);
    if (!input) return std::move(input.error());
    std::array<int, 2> ends{};
    // Only our end is non-blocking: the flag belongs to the open file, and a pipe's ends are two.
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error(errno, "make the plugin's stdout");
    const UniqueFd read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    if (::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) return errno_error(errno, "make the plugin's stdout");

    auto pid = spawn_when_installed(call, input->get(), write_end.get());
    if (!pid) return std::move(pid.error());
    write_end.reset();
    const UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0))};
    const int pidfd_errno = errno;
    auto output = process.valid() ? collect(process.get(), read_end.get(), call.deadline)
                                  : Result<std::string>(errno_error(pidfd_errno, "watch the plugin"));
    DelegateExit exit = end_group(*pid);
    if (!output) return std::move(output.error());
    exit.output = std::move(*output);
    return exit;
}

}  // namespace xveth::attachment
