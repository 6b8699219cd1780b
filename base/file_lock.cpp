// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>

#include "base/files.hpp"

namespace xveth {
namespace {

// True when `path` still names the file that `fd` has open.
bool still_named(int fd, const std::string& path) {
    struct stat mine{};
    struct stat named{};
    return ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0 && mine.st_dev == named.st_dev &&
           mine.st_ino == named.st_ino;
}

}  // namespace

Result<FileLock> FileLock::acquire(const std::string& path, std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (auto pause = std::chrono::microseconds(200);; pause = std::min(pause * 2, std::chrono::microseconds(10'000))) {
        if (auto made = make_parents(path, 0700); !made) return std::move(made.error());
        UniqueFd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
        if (!fd.valid() && errno != ENOENT) return errno_error(errno, "open lock file " + path);
        if (fd.valid()) {
            if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
                if (still_named(fd.get(), path)) return FileLock{std::move(fd), path};
                continue;  // its last holder removed it; take the new one
            }
            if (errno != EWOULDBLOCK && errno != EINTR) return errno_error(errno, "lock " + path);
        }
        if (std::chrono::steady_clock::now() >= deadline) return errno_error(EWOULDBLOCK, "wait for the lock " + path);
        std::this_thread::sleep_for(pause);
    }
}

// Shared, so that two who look at once do not take each other for the holder.
Result<bool> FileLock::is_held(const std::string& path) {
    const UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
    if (!fd.valid() && errno == ENOENT) return false;
    if (!fd.valid()) return errno_error(errno, "open lock file " + path);
    if (::flock(fd.get(), LOCK_SH | LOCK_NB) == 0) return false;
    if (errno == EWOULDBLOCK) return true;
    return errno_error(errno, "look at the lock " + path);
}

void FileLock::remove_file() {
    if (fd_.valid()) ::unlink(path_.c_str());
}

}  // namespace xveth
