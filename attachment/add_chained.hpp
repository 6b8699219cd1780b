// SPDX-License-Identifier: Apache-2.0
// ADD behind another plugin (prevResult): arms the veth pair that it made instead of making one. Also the steps of ADD that
// both forms take.
#pragma once

#include "attachment/lifecycle.hpp"
#include "attachment/verbs.hpp"
#include "datapath/nic.hpp"
#include "datapath/veth_pair.hpp"

namespace xveth::attachment {

// The NICs of the network, made ports of the node (under the node lock).
[[nodiscard]] Result<datapath::NicSet> ensure_network_nics(Node& node, const NetConf& conf, Notes& notes);

// Whether the port's frames may bypass netfilter and tc, by the network's policy; why not goes to the notes.
[[nodiscard]] bool may_bypass_stack(Node& node, const NetConf& conf, const datapath::NicSet& nics,
                                    const datapath::VethPair& pair, Notes& notes);

// The last step: the port with `record`'s addresses into the maps; sets record.port.
[[nodiscard]] Result<void> publish(Node& node, const NetConf& conf, const datapath::NicSet& nics,
                                   const datapath::VethPair& pair, AttachmentRecord& record, Notes& notes);

// Arms the container's interface CNI_IFNAME and its host end, as prevResult has them, and answers prevResult unchanged.
// A host end below a bridge is armed but not fast: its frames are addressed to the bridge, which carries them.
// The caller holds the attachment's lock.
[[nodiscard]] Result<CniResult> add_chained(Node& node, const NetConf& conf, const Request& request,
                                            Container& container, AttachmentRecord record, Notes& notes);

}  // namespace xveth::attachment
