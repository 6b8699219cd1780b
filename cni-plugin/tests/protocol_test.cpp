// SPDX-License-Identifier: Apache-2.0
// What golden files do not show: what the verbs are called with, and what is refused before anything is done.
#include "cni-plugin/protocol.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "attachment/json.hpp"

namespace xveth::cni {
namespace {

using attachment::CniResult;
using attachment::Json;
using attachment::NetConf;
using attachment::Request;

struct Seen {
    std::vector<std::string> calls;
    NetConf conf;
    Request request;
    std::vector<std::string> logged;
};

class ProtocolTest : public testing::Test {
protected:
    Reply run(const std::string& input) {
        const Lookup environment = [this](const char* name) -> std::optional<std::string> {
            const auto it = variables_.find(name);
            return it == variables_.end() ? std::nullopt : std::optional(it->second);
        };
        const auto note = [this](const char* verb) {
            return [this, verb](const NetConf& conf, const Request& request) -> Result<void> {
                seen_.calls.emplace_back(verb);
                seen_.conf = conf;
                seen_.request = request;
                return ok();
            };
        };
        const Verbs verbs{.add = [note](const NetConf& conf, const Request& request) -> Result<CniResult> {
                              if (auto noted = note("add")(conf, request); !noted) return std::move(noted.error());
                              return CniResult{};
                          },
                          .del = note("del"),
                          .check = note("check"),
                          .gc = note("gc"),
                          .status = note("status"),
                          .log =
                              [this](std::string_view level, std::string_view message, const attachment::LogFields&) {
                                  seen_.logged.push_back(std::string(level) + ": " + std::string(message));
                              }};
        return answer(
            environment,
            [&]() -> Result<std::string> {
                ++reads_;
                return input;
            },
            verbs);
    }

    int code_of(const Reply& reply) { return reply.exit_code == 0 ? 0 : Json::parse(reply.out).at("code").get<int>(); }
    std::string message_of(const Reply& reply) { return Json::parse(reply.out).at("msg").get<std::string>(); }

    std::map<std::string, std::string> variables_{
        {"CNI_COMMAND", "ADD"}, {"CNI_CONTAINERID", "c1"},       {"CNI_NETNS", "/run/netns/c1"},
        {"CNI_IFNAME", "eth0"}, {"CNI_ARGS", "IgnoreUnknown=1"}, {"CNI_PATH", "/opt/cni/bin::/usr/lib/cni"}};
    Seen seen_;
    int reads_ = 0;
    const std::string conf_ = R"({"cniVersion":"1.1.0","name":"net","type":"xveth"})";
};

TEST_F(ProtocolTest, HandsEnvironmentAndConfigurationToTheVerb) {
    EXPECT_EQ(run(conf_).exit_code, 0);
    EXPECT_THAT(seen_.calls, testing::ElementsAre("add"));
    EXPECT_EQ(seen_.request.container_id, "c1");
    EXPECT_EQ(seen_.request.netns_path, "/run/netns/c1");
    EXPECT_EQ(seen_.request.ifname, "eth0");
    EXPECT_EQ(seen_.request.args, "IgnoreUnknown=1");
    EXPECT_THAT(seen_.request.plugin_path, testing::ElementsAre("/opt/cni/bin", "/usr/lib/cni"));
    EXPECT_EQ(seen_.conf.name, "net");
    EXPECT_EQ(seen_.conf.raw, conf_);
}

TEST_F(ProtocolTest, DoesNotReadStdinWithoutACommand) {
    variables_.clear();
    const Reply reply = run(conf_);
    EXPECT_EQ(reads_, 0);
    EXPECT_EQ(reply.exit_code, 0);
    EXPECT_EQ(reply.out, "");
    EXPECT_THAT(reply.err, testing::HasSubstr("1.1.0"));
}

TEST_F(ProtocolTest, NamesEveryMissingVariable) {
    const std::map<std::string, std::vector<std::string>> required{
        {"ADD", {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"}},
        {"CHECK", {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"}},
        {"DEL", {"CNI_CONTAINERID", "CNI_IFNAME"}}};
    for (const auto& [verb, names] : required) {
        variables_ = {{"CNI_COMMAND", verb}, {"CNI_NETNS", ""}};
        const Reply reply = run(conf_);
        EXPECT_EQ(code_of(reply), 4) << verb;
        for (const auto& name : names) EXPECT_THAT(message_of(reply), testing::HasSubstr(name)) << verb;
    }
    EXPECT_THAT(seen_.calls, testing::IsEmpty());
}

TEST_F(ProtocolTest, GcStatusAndVersionNeedNoContainer) {
    for (const char* verb : {"GC", "STATUS", "VERSION"}) {
        variables_ = {{"CNI_COMMAND", verb}};
        EXPECT_EQ(run(conf_).exit_code, 0) << verb;
    }
    EXPECT_THAT(seen_.calls, testing::ElementsAre("gc", "status"));
}

TEST_F(ProtocolTest, VersionIgnoresDummyValues) {
    variables_ = {{"CNI_COMMAND", "VERSION"}, {"CNI_NETNS", "dummy"}, {"CNI_IFNAME", "a/b"}, {"CNI_CONTAINERID", "-"}};
    EXPECT_EQ(run("").exit_code, 0);
}

TEST_F(ProtocolTest, RefusesBadNamesBeforeAnythingIsDone) {
    const std::map<std::string, std::vector<std::string>> bad{
        {"CNI_CONTAINERID", {"-x", "a/b", "../a", ".a", "a b", "a\n", "ä"}},
        {"CNI_IFNAME", {"sixteen-bytes-16", ".", "..", "a/b", "a b", "a:b", "a\tb", "eth%d", "\x7f"}},
        {"CNI_NETNS", {"run/netns/x", "dummy"}}};
    const auto good = variables_;
    for (const auto& [name, values] : bad)
        for (const auto& value : values) {
            variables_ = good;
            variables_[name] = value;
            const Reply reply = run(conf_);
            EXPECT_EQ(code_of(reply), 4) << name << "=" << value;
            EXPECT_THAT(message_of(reply), testing::HasSubstr(name));
        }
    EXPECT_THAT(seen_.calls, testing::IsEmpty());
}

TEST_F(ProtocolTest, TakesLongNamesThatAreNames) {
    variables_["CNI_IFNAME"] = "fifteen-bytes15";
    variables_["CNI_CONTAINERID"] = std::string(300, 'a');
    EXPECT_EQ(run(conf_).exit_code, 0);
}

TEST_F(ProtocolTest, DelWorksWithoutNamespaceAndWithAWrongConfiguration) {
    variables_["CNI_COMMAND"] = "DEL";
    variables_.erase("CNI_NETNS");
    EXPECT_EQ(run(R"({"cniVersion":"1.0.0","name":"net","mtu":"auto","mode":"bridge","prevResult":7})").out, "");
    EXPECT_THAT(seen_.calls, testing::ElementsAre("del"));
    EXPECT_EQ(seen_.conf.mtu, 0U);
    EXPECT_THAT(seen_.conf.remarks, testing::Contains(testing::HasSubstr("mtu")));
}

TEST_F(ProtocolTest, CommandsAreCaseSensitive) {
    variables_["CNI_COMMAND"] = "add";
    const Reply reply = run(conf_);
    EXPECT_EQ(code_of(reply), 4);
    EXPECT_THAT(message_of(reply), testing::HasSubstr("CNI_COMMAND"));
}

TEST_F(ProtocolTest, FailuresAreLogged) {
    EXPECT_EQ(code_of(run("{")), 6);
    EXPECT_THAT(seen_.logged, testing::ElementsAre(testing::StartsWith("error: network configuration")));
}

TEST_F(ProtocolTest, TextThatIsNoUtf8StillMakesAJsonAnswer) {
    variables_["CNI_CONTAINERID"] = "\xff\xfe";
    EXPECT_EQ(code_of(run(conf_)), 4);
}

TEST_F(ProtocolTest, AnUnreadableStdinIsCode5) {
    const Reply reply = answer([](const char*) { return std::optional<std::string>("ADD"); },
                               []() -> Result<std::string> { return errno_error(5, "read stdin"); },
                               {.add = {}, .del = {}, .check = {}, .gc = {}, .status = {}, .log = [](auto&&...) {}});
    EXPECT_EQ(code_of(reply), 5);
}

}  // namespace
}  // namespace xveth::cni
