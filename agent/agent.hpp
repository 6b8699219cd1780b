// SPDX-License-Identifier: Apache-2.0
// What xvethd does: notices which functions of chains run an XDP program.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/file_lock.hpp"
#include "base/netns.hpp"
#include "base/result.hpp"
#include "netlink/link_monitor.hpp"

namespace xveth::agent {

using Say = std::function<void(const std::string& level, const std::string& message)>;

class Agent {
public:
    // Listens and is then known to run: an ADD after this writes down what it finds, and what changes later is heard.
    [[nodiscard]] static Result<Agent> start(Say say);
    // Looks at every function; then whenever a device changes, until `stop_fd` is readable.
    [[nodiscard]] Result<void> run(int stop_fd);
    // Looks once at everything.
    [[nodiscard]] Result<void> look_at_all();
    Agent(Agent&&) = default;
    Agent& operator=(Agent&&) = delete;
    ~Agent() { lock_.remove_file(); }

private:
    Agent(Say say, FileLock lock, std::unique_ptr<netlink::LinkMonitor> monitor)
        : say_(std::move(say)), lock_(std::move(lock)), monitor_(std::move(monitor)) {}
    Result<void> take_notices();

    Say say_;
    FileLock lock_;
    std::unique_ptr<netlink::LinkMonitor> monitor_;
};

}  // namespace xveth::agent
