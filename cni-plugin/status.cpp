// SPDX-License-Identifier: Apache-2.0
#include "cni-plugin/verbs.hpp"

namespace xveth::cni {

Result<std::string> run_status(const Call& call, const Verbs& verbs) {
    auto conf = attachment::parse_net_conf(call.input, call.request.args, call.request.ifname);
    if (!conf) return std::move(conf.error());
    if (auto fit = require_version(*conf, "1.1.0", "STATUS"); !fit) return std::move(fit.error());
    if (auto done = verbs.status(*conf, call.request); !done) return std::move(done.error());
    return std::string{};
}

}  // namespace xveth::cni
