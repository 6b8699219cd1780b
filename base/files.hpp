// SPDX-License-Identifier: Apache-2.0
// Small files: read whole, written by temp + rename, directories made and removed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace xveth {

// Until end of file; `what` names it in an error.
[[nodiscard]] Result<std::string> read_all(int fd, const std::string& what);
[[nodiscard]] Result<void> write_all(int fd, std::string_view content, const std::string& what);
// Whole content of a file; errno_value ENOENT when absent.
[[nodiscard]] Result<std::string> read_file(const std::string& path);
// Writes a temporary file in the same directory, then renames it: a reader sees the old content or the new, never half.
// Parents are made (0700).
[[nodiscard]] Result<void> write_file_atomically(const std::string& path, std::string_view content, mode_t mode = 0600);
// Overwrites an existing file in place (sysctls).
[[nodiscard]] Result<void> overwrite_file(const std::string& path, std::string_view content);
[[nodiscard]] Result<void> remove_file_if_present(const std::string& path);
// Makes the directories above `path`.
[[nodiscard]] Result<void> make_parents(const std::string& path, mode_t mode);
[[nodiscard]] Result<void> make_directories(const std::string& dir, mode_t mode);
// Removes `dir` if it is there and empty.
void remove_directory_if_empty(const std::string& dir);

// FNV-1a, 64 bit: for names, not for secrets.
[[nodiscard]] std::uint64_t hash64(std::string_view bytes);

}  // namespace xveth
