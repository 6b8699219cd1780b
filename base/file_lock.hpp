// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xveth {

// An exclusive flock on a file, released at destruction or by the kernel when the process dies. The file is made when
// absent (mode 0600, parents too) and its removal by an owner is noticed: the lock is then taken on the new file.
class FileLock {
public:
    // Waits at most `patience`; errno_value is EWOULDBLOCK when another process still holds it then.
    [[nodiscard]] static Result<FileLock> acquire(const std::string& path, std::chrono::milliseconds patience);
    // Whether another process holds it now; a file that is not there is held by nobody. Makes nothing.
    [[nodiscard]] static Result<bool> is_held(const std::string& path);
    // Removes the lock file while holding it; a waiter then makes a new one.
    void remove_file();

private:
    FileLock(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
    UniqueFd fd_;
    std::string path_;
};

}  // namespace xveth
