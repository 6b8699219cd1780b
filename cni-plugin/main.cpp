// SPDX-License-Identifier: Apache-2.0
// Binds the protocol to the process: environment, stdin, stdout, stderr and exit status.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

#include "attachment/cni_result.hpp"
#include "attachment/log.hpp"
#include "base/files.hpp"
#include "base/unique_fd.hpp"
#include "cni-plugin/protocol.hpp"
#include "cni-plugin/wiring.hpp"

namespace {

using namespace xveth;

std::optional<std::string> environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<std::string> read_stdin() {
    if (::isatty(STDIN_FILENO) == 1) return std::string{};
    return read_all(STDIN_FILENO, "stdin");
}

// The runtime parses stdout: what a library prints goes to stderr instead. Descriptors 0 to 2 that the caller closed are
// filled, so that no file of ours becomes a plugin's stdin.
UniqueFd take_stdout() {
    while (true) {
        UniqueFd filler{::open("/dev/null", O_RDWR)};  // a plugin that we run inherits it
        if (!filler.valid() || filler.get() > STDERR_FILENO) break;
        (void)filler.release();
    }
    UniqueFd out{::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)};
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    return out;
}

}  // namespace

int main() {
    ::signal(SIGPIPE, SIG_IGN);
    const UniqueFd out = take_stdout();
    const attachment::Log log{environment("XVETH_LOG").value_or("/var/log/xveth.log")};
    cni::Reply reply;
    try {
        reply = cni::answer(environment, read_stdin, cni::system_verbs(log));
    } catch (const std::exception& e) {
        const Error internal{
            .code = 999, .errno_value = 0, .text = std::string("internal error: ") + e.what(), .hint = {}};
        reply = cni::refuse(internal, attachment::supported_versions().back());
    }
    const bool told = write_all(STDERR_FILENO, reply.err, "stderr") && write_all(out.get(), reply.out, "stdout");
    return told ? reply.exit_code : 1;
}
