// SPDX-License-Identifier: Apache-2.0
#include "cni-plugin/verbs.hpp"

namespace xveth::cni {

Result<std::string> run_del(const Call& call, const Verbs& verbs) {
    auto conf =
        attachment::parse_net_conf(call.input, call.request.args, call.request.ifname, attachment::Purpose::remove);
    if (!conf) return std::move(conf.error());
    if (auto done = verbs.del(*conf, call.request); !done) return std::move(done.error());
    return std::string{};
}

}  // namespace xveth::cni
