// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.hpp"

#include <poll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "attachment/local_node.hpp"
#include "datapath/chain.hpp"
#include "datapath/node.hpp"

namespace xveth::agent {
namespace {

using netlink::IfIndex;

// Somebody who only looks whether an agent runs holds the lock for a moment.
constexpr std::chrono::seconds lock_patience(1);

// The node is opened anew for each look: its shared objects may have come, or been replaced, since the last one.
Result<std::vector<std::string>> look(const std::set<IfIndex>& devices) {
    std::vector<std::string> changes;
    auto local = attachment::LocalNode::open();
    if (!local) return std::move(local.error());
    auto& path = (*local)->node().path;
    auto loaded = path.bpf.open_if_loaded();
    if (!loaded) return std::move(loaded.error());
    if (!*loaded) return changes;
    auto chains = datapath::list_chains(path);
    if (!chains) return std::move(chains.error());
    if (chains->empty()) return changes;
    auto lock = datapath::NodeLock::acquire(path);
    if (!lock) return std::move(lock.error());
    auto noted = datapath::note_armed_functions(path, *lock, devices);
    if (!noted) return std::move(noted.error());
    return noted;
}

}  // namespace

Result<Agent> Agent::start(Say say) {
    auto ns = Netns::current();
    if (!ns) return std::move(ns.error());
    auto monitor = netlink::open_link_monitor(*ns);
    if (!monitor) return std::move(monitor.error());
    auto local = attachment::LocalNode::open();
    if (!local) return std::move(local.error());
    auto lock = FileLock::acquire((*local)->node().store.agent_lock_path(), lock_patience);
    if (!lock && lock.error().errno_value == EWOULDBLOCK)
        return Error{.code = 0, .errno_value = EBUSY, .text = "another xvethd runs on this node", .hint = {}};
    if (!lock) return std::move(lock.error());
    return Agent(std::move(say), std::move(*lock), std::move(*monitor));
}

Result<void> Agent::look_at_all() {
    auto changes = look({});
    if (!changes) return std::move(changes.error());
    for (const auto& change : *changes) say_("info", change);
    return ok();
}

// The notices only say where to look: a chain may have changed since, under the node lock.
Result<void> Agent::take_notices() {
    auto notices = monitor_->take();
    if (!notices) return std::move(notices.error());
    if (notices->missed) return look_at_all();
    std::set<IfIndex> devices;
    for (const auto& notice : notices->list)
        if (!notice.gone && notice.link.kind == "veth") devices.insert(notice.link.index);
    if (devices.empty()) return ok();
    auto changes = look(devices);
    if (!changes) return std::move(changes.error());
    for (const auto& change : *changes) say_("info", change);
    return ok();
}

Result<void> Agent::run(int stop_fd) {
    std::array<pollfd, 2> ready{
        {{.fd = stop_fd, .events = POLLIN, .revents = 0}, {.fd = monitor_->fd(), .events = POLLIN, .revents = 0}}};
    for (;;) {
        if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return errno_error(errno, "poll");
        if (ready[0].revents != 0) return ok();
        if (ready[1].revents == 0) continue;
        // What could not be done now is done at the next change, or said again.
        if (auto taken = take_notices(); !taken) say_("error", taken.error().text);
    }
}

}  // namespace xveth::agent
