// SPDX-License-Identifier: Apache-2.0
// What becomes of the devices of a namespace, as the kernel tells it: for a process that stays.
#pragma once

#include <memory>
#include <vector>

#include "base/netns.hpp"
#include "base/result.hpp"
#include "netlink/types.hpp"

namespace xveth::netlink {

struct LinkNotice {
    Link link;          // as it is after the change
    bool gone = false;  // the device has ended
};

struct LinkNotices {
    std::vector<LinkNotice> list;  // in their order
    bool missed = false;           // there were more than the kernel kept: what is known of any device may be old
};

class LinkMonitor {
public:
    virtual ~LinkMonitor() = default;
    // Readable while there is something to take.
    [[nodiscard]] virtual int fd() const = 0;
    // What came since the last time; never waits.
    virtual Result<LinkNotices> take() = 0;
};

// Hears every change from now on.
[[nodiscard]] Result<std::unique_ptr<LinkMonitor>> open_link_monitor(const Netns& ns);

}  // namespace xveth::netlink
