// SPDX-License-Identifier: Apache-2.0
#include "attachment/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>

#include "attachment/json.hpp"
#include "base/files.hpp"
#include "base/unique_fd.hpp"

namespace xveth::attachment {
namespace {

// "2025-03-01T12:00:00.123Z"
std::string timestamp() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    std::tm utc{};
    ::gmtime_r(&now.tv_sec, &utc);
    std::array<char, 32> seconds{};
    std::array<char, 8> millis{};
    std::strftime(seconds.data(), seconds.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    std::snprintf(millis.data(), millis.size(), ".%03dZ", static_cast<int>(now.tv_nsec / 1'000'000) % 1000);
    return std::string(seconds.data()) + millis.data();
}

}  // namespace

void Log::write(std::string_view level, std::string_view message, const LogFields& fields) const {
    OrderedJson line;
    line["time"] = timestamp();
    line["level"] = level;
    line["message"] = message;
    for (const auto& [name, value] : fields) line[name] = value;
    const std::string text = dump_json(line) + "\n";

    if (!make_parents(path_, 0755)) return;
    // Without O_NONBLOCK a FIFO that nobody reads would hold up the verb.
    const UniqueFd fd{::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640)};
    if (!fd.valid()) return;
    // A short write is not completed: another process's line may already follow.
    if (::write(fd.get(), text.data(), text.size()) < 0) return;
}

}  // namespace xveth::attachment
