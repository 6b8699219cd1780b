// SPDX-License-Identifier: Apache-2.0
// requests/NAME.json: environment, stdin, and what the verb that does the work answers. replies/NAME.json: what the
// process then writes, and its exit status. A request's "stdin" is a text, or a JSON value that is written as one;
// "result" is a result in the newest form, "error" an error of the verb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "attachment/cni_result.hpp"
#include "attachment/json.hpp"
#include "base/files.hpp"
#include "cni-plugin/protocol.hpp"

namespace xveth::cni {
namespace {

using attachment::CniResult;
using attachment::Json;
using attachment::NetConf;
using attachment::OrderedJson;
using attachment::Request;

std::vector<std::string> request_names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(GOLDEN_DIRECTORY "/requests"))
        names.push_back(entry.path().stem().string());
    std::ranges::sort(names);
    return names;
}

Lookup environment_of(const Json& request) {
    return [&request](const char* name) -> std::optional<std::string> {
        const Json* value = attachment::find_member(request.at("environment"), name);
        return value == nullptr ? std::nullopt : std::optional<std::string>(value->get<std::string>());
    };
}

std::string stdin_of(const Json& request) {
    const Json* text = attachment::find_member(request, "stdin");
    if (text == nullptr) return {};
    return text->is_string() ? text->get<std::string>() : text->dump();
}

std::optional<Error> error_of(const Json& request) {
    const Json* error = attachment::find_member(request, "error");
    if (error == nullptr) return std::nullopt;
    return Error{
        .code = error->value("code", 0), .errno_value = 0, .text = error->at("text"), .hint = error->value("hint", "")};
}

Verbs verbs_of(const Json& request) {
    const auto simple = [&request](const NetConf&, const Request&) -> Result<void> {
        if (auto error = error_of(request)) return std::move(*error);
        return ok();
    };
    return {.add = [&request](const NetConf&, const Request&) -> Result<CniResult> {
                if (auto error = error_of(request)) return std::move(*error);
                return attachment::decode_result(request.at("result").dump(), "1.1.0");
            },
            .del = simple,
            .check = simple,
            .gc = simple,
            .status = simple,
            .log = [](std::string_view, std::string_view, const attachment::LogFields&) {}};
}

// stdout as JSON where it is one, so that replies can be read; "" where it is empty.
std::string describe_reply(const Reply& reply) {
    OrderedJson out;
    out["exit"] = reply.exit_code;
    out["stdout"] = reply.out.empty() ? OrderedJson("") : OrderedJson::parse(reply.out);
    out["stderr"] = reply.err;
    return out.dump(2) + "\n";
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, AnswersAsRecorded) {
    const std::string request_text = read_file(GOLDEN_DIRECTORY "/requests/" + GetParam() + ".json").value();
    const Json request = Json::parse(request_text);
    const Reply reply =
        answer(environment_of(request), [&]() -> Result<std::string> { return stdin_of(request); }, verbs_of(request));
    const std::string got = describe_reply(reply);

    const std::string path = GOLDEN_DIRECTORY "/replies/" + GetParam() + ".json";
    if (std::getenv("XVETH_UPDATE_GOLDEN") != nullptr) {
        ASSERT_TRUE(write_file_atomically(path, got, 0644));
    }
    EXPECT_EQ(got, read_file(path).value());
}

INSTANTIATE_TEST_SUITE_P(Requests, GoldenTest, testing::ValuesIn(request_names()),
                         [](const auto& request) { return request.param; });

TEST(GoldenFiles, EveryReplyHasARequest) {
    std::vector<std::string> replies;
    for (const auto& entry : std::filesystem::directory_iterator(GOLDEN_DIRECTORY "/replies"))
        replies.push_back(entry.path().stem().string());
    EXPECT_THAT(replies, testing::UnorderedElementsAreArray(request_names()));
}

}  // namespace
}  // namespace xveth::cni
