// SPDX-License-Identifier: Apache-2.0
#include "cni-plugin/wiring.hpp"

#include <chrono>

#include "attachment/local_node.hpp"
#include "attachment/verbs.hpp"

namespace xveth::cni {
namespace {

using attachment::CniResult;
using attachment::Log;
using attachment::LogFields;
using attachment::NetConf;
using attachment::Node;
using attachment::Notes;
using attachment::Request;

// Runs `work` on the local node, with what it has to say in the log. Failures are logged by the protocol.
template <class T, class Work>
Result<T> run_logged(const Log& log, const char* verb, const NetConf& conf, const Request& request, Work work) {
    const auto start = std::chrono::steady_clock::now();
    auto local = attachment::LocalNode::open();
    if (!local) return std::move(local.error());
    Notes notes = conf.remarks;
    Result<T> result = work((*local)->node(), notes);

    LogFields fields{
        {"verb", verb}, {"network", conf.name}, {"containerID", request.container_id}, {"ifname", request.ifname}};
    if (conf.pod) fields.emplace_back("pod", *conf.pod);
    for (const std::string& note : notes) log.write("warning", note, fields);
    const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
    fields.emplace_back("microseconds", std::to_string(taken.count()));
    if (result) log.write("info", "done", fields);
    return result;
}

// STATUS comes every few seconds and leaves no trace when all is well.
Result<void> run_status_quietly(const NetConf& conf, const Request& request) {
    auto local = attachment::LocalNode::open();
    if (!local) return std::move(local.error()).with_code(50);
    return attachment::status((*local)->node(), conf, request);
}

}  // namespace

Verbs system_verbs(const Log& log) {
    return {.add =
                [&log](const NetConf& conf, const Request& request) {
                    return run_logged<CniResult>(log, "ADD", conf, request, [&](Node& node, Notes& notes) {
                        return attachment::add(node, conf, request, notes);
                    });
                },
            .del =
                [&log](const NetConf& conf, const Request& request) {
                    return run_logged<void>(log, "DEL", conf, request, [&](Node& node, Notes& notes) {
                        return attachment::del(node, conf, request, notes);
                    });
                },
            .check =
                [&log](const NetConf& conf, const Request& request) {
                    return run_logged<void>(log, "CHECK", conf, request,
                                            [&](Node& node, Notes&) { return attachment::check(node, conf, request); });
                },
            .gc =
                [&log](const NetConf& conf, const Request& request) {
                    return run_logged<void>(log, "GC", conf, request, [&](Node& node, Notes& notes) {
                        return attachment::gc(node, conf, request, notes);
                    });
                },
            .status = run_status_quietly,
            .log = [&log](std::string_view level, std::string_view message,
                          const LogFields& fields) { log.write(level, message, fields); }};
}

}  // namespace xveth::cni
