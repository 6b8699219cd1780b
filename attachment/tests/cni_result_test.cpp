// SPDX-License-Identifier: Apache-2.0
#include "attachment/cni_result.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xveth::attachment {
namespace {

using testing::HasSubstr;
using testing::Not;

CniResult full_result() {
    CniResult result;
    result.interfaces = {
        {.name = "xv0", .mac = "02:fc:00:00:00:01", .sandbox = "", .mtu = 1500, .socket_path = "", .pci_id = ""},
        {.name = "eth0",
         .mac = "02:fc:00:00:00:02",
         .sandbox = "/run/netns/c1",
         .mtu = 1500,
         .socket_path = "/s",
         .pci_id = "0000:00:1f.6"}};
    result.ips = {{.address = *IpPrefix::parse("10.1.0.5/16"), .gateway = IpAddress::parse("10.1.0.1"), .interface = 1},
                  {.address = *IpPrefix::parse("fd00:1::5/64"), .gateway = std::nullopt, .interface = 1}};
    result.routes = {{.destination = *IpPrefix::parse("0.0.0.0/0"),
                      .gateway = IpAddress::parse("10.1.0.1"),
                      .mtu = 1400,
                      .advmss = 1360,
                      .priority = 10,
                      .table = 100,
                      .scope = 253},
                     {.destination = *IpPrefix::parse("fd00::/16"),
                      .gateway = {},
                      .mtu = {},
                      .advmss = {},
                      .priority = {},
                      .table = {},
                      .scope = {}}};
    result.dns = {.nameservers = {"10.1.0.1"}, .search = {"a"}, .options = {"o"}, .domain = "d"};
    return result;
}

TEST(CniResultTest, EveryVersionIsReadBackAsItWasWritten) {
    for (const std::string& version : supported_versions()) {
        const std::string once = encode_result(full_result(), version);
        const auto decoded = decode_result(once, "9.9.9");
        ASSERT_TRUE(decoded) << decoded.error().text;
        EXPECT_EQ(encode_result(*decoded, version), once);
    }
}

TEST(CniResultTest, NewestFormLosesNothing) {
    const auto decoded = decode_result(encode_result(full_result(), "1.1.0"), "");
    EXPECT_EQ(decoded->interfaces.at(1).pci_id, "0000:00:1f.6");
    EXPECT_EQ(decoded->interfaces.at(1).socket_path, "/s");
    EXPECT_EQ(decoded->interfaces.at(1).mtu, 1500U);
    EXPECT_EQ(decoded->ips.at(0).interface, 1U);
    EXPECT_EQ(decoded->ips.at(1).gateway, std::nullopt);
    const CniRoute& route = decoded->routes.at(0);
    EXPECT_EQ(route.mtu, 1400U);
    EXPECT_EQ(route.advmss, 1360U);
    EXPECT_EQ(route.priority, 10U);
    EXPECT_EQ(route.table, 100U);
    EXPECT_EQ(route.scope, 253U);
    EXPECT_EQ(decoded->dns.domain, "d");
}

TEST(CniResultTest, OlderFormsHaveNoMemberOfNewerOnes) {
    for (const char* version : {"0.3.0", "0.3.1", "0.4.0", "1.0.0"}) {
        const std::string text = encode_result(full_result(), version);
        for (const char* member : {"mtu", "advmss", "priority", "table", "scope", "socketPath", "pciID"})
            EXPECT_THAT(text, Not(HasSubstr(member))) << version;
    }
    EXPECT_THAT(encode_result(full_result(), "1.0.0"), Not(HasSubstr("\"version\"")));
    EXPECT_THAT(encode_result(full_result(), "0.4.0"), HasSubstr(R"("version":"6")"));
}

TEST(CniResultTest, AnIndexOutsideOfInterfacesIsNeverWritten) {
    CniResult result = full_result();
    result.ips[0].interface = 2;
    EXPECT_THAT(encode_result(result, "1.0.0"), Not(HasSubstr("\"interface\":2")));
    result.interfaces.clear();
    EXPECT_THAT(encode_result(result, "1.0.0"), Not(HasSubstr("\"interface\":")));
}

TEST(CniResultTest, ReadsADelegatesOldAnswer) {
    const auto result = decode_result(
        R"({"ip4":{"ip":"10.1.0.5/24","gateway":"","routes":[{"dst":"0.0.0.0/0"}]},"ip6":{"ip":"fd00::5/64","routes":null},"dns":{}})",
        "0.2.0");
    ASSERT_TRUE(result);
    EXPECT_EQ(result->ips.at(0).address.to_string(), "10.1.0.5/24");
    EXPECT_EQ(result->ips.at(0).gateway, std::nullopt);
    EXPECT_EQ(result->ips.at(1).address.to_string(), "fd00::5/64");
    EXPECT_EQ(result->routes.size(), 1U);
}

TEST(CniResultTest, NullAndMissingMembersAreEmpty) {
    for (const char* text : {"null", "{}", R"({"ips":null,"routes":null,"interfaces":null,"dns":null})"}) {
        const auto result = decode_result(text, "1.0.0");
        ASSERT_TRUE(result) << text;
        EXPECT_TRUE(result->ips.empty() && result->routes.empty() && result->interfaces.empty() && result->dns.empty());
    }
}

TEST(CniResultTest, MinusOneMeansNoInterface) {
    EXPECT_EQ(decode_result(R"({"ips":[{"address":"10.0.0.1/8","interface":-1}]})", "1.0.0")->ips.at(0).interface,
              std::nullopt);
}

TEST(CniResultTest, MalformedResultsAreCode6AndSayWhy) {
    const std::vector<std::pair<std::string, std::string>> bad{
        {"", "JSON"},
        {"garbage", "JSON"},
        {"[]", "object"},
        {R"({"ips":{}})", "ips"},
        {R"({"ips":[7]})", "ips"},
        {R"({"ips":[{"address":"10.0.0.1"}]})", "10.0.0.1"},
        {R"({"ips":[{}]})", "address"},
        {R"({"ips":[{"address":"10.0.0.1/8","gateway":"gw"}]})", "gw"},
        {R"({"ips":[{"address":"10.0.0.1/8","interface":"1"}]})", "interface"},
        {R"({"routes":[{"dst":"everywhere"}]})", "everywhere"},
        {R"({"interfaces":[{"name":7}]})", "name"},
        {R"({"dns":[]})", "dns"},
        {R"({"dns":{"nameservers":"10.0.0.1"}})", "nameservers"},
        {R"({"cniVersion":"7.0.0"})", "7.0.0"},
        {R"({"cniVersion":"0.2.0","ip4":{"ip":"fd00::1/64"}})", "ip4"}};
    for (const auto& [text, why] : bad) {
        const auto result = decode_result(text, "1.0.0");
        ASSERT_FALSE(result) << text;
        EXPECT_EQ(result.error().code, 6) << text;
        EXPECT_THAT(result.error().text, HasSubstr(why)) << text;
    }
}

TEST(CniVersionTest, OrdersByNumber) {
    EXPECT_LT(compare_versions("0.4.0", "1.0.0"), 0);
    EXPECT_LT(compare_versions("0.9.0", "0.10.0"), 0);
    EXPECT_EQ(compare_versions("1.0", "1.0.0"), 0);
    EXPECT_GT(compare_versions("1.1.0", "1.0.9"), 0);
}

}  // namespace
}  // namespace xveth::attachment
