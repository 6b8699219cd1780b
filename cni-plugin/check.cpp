// SPDX-License-Identifier: Apache-2.0
#include "cni-plugin/verbs.hpp"

namespace xveth::cni {

Result<std::string> run_check(const Call& call, const Verbs& verbs) {
    auto conf = attachment::parse_net_conf(call.input, call.request.args, call.request.ifname);
    if (!conf) return std::move(conf.error());
    if (auto fit = require_version(*conf, "0.4.0", "CHECK"); !fit) return std::move(fit.error());
    if (!conf->prev_result)
        return Error{.code = 7,
                     .errno_value = 0,
                     .text = "key \"prevResult\": missing; CHECK compares with what ADD answered",
                     .hint = {}};
    if (auto done = verbs.check(*conf, call.request); !done) return std::move(done.error());
    return std::string{};
}

}  // namespace xveth::cni
