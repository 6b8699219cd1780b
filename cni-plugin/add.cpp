// SPDX-License-Identifier: Apache-2.0
#include "cni-plugin/verbs.hpp"

namespace xveth::cni {

Result<std::string> run_add(const Call& call, const Verbs& verbs) {
    auto conf = attachment::parse_net_conf(call.input, call.request.args, call.request.ifname);
    if (!conf) return std::move(conf.error());
    auto result = verbs.add(*conf, call.request);
    if (!result) return std::move(result.error());
    return attachment::encode_result(*result, conf->cni_version);
}

}  // namespace xveth::cni
