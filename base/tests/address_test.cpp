// SPDX-License-Identifier: Apache-2.0
#include "base/address.hpp"

#include <gtest/gtest.h>

namespace xveth {
namespace {

TEST(MacTest, ParsesOnlyTheColonForm) {
    EXPECT_EQ(Mac::parse("02:FC:00:00:00:0a")->to_string(), "02:fc:00:00:00:0a");
    for (const char* bad :
         {"", "02:fc:00:00:00", "02-fc-00-00-00-01", "02:fc:00:00:00:1", "02:fc:00:00:00:01 ", "0x:fc:00:00:00:01"})
        EXPECT_FALSE(Mac::parse(bad)) << bad;
}

TEST(IpPrefixTest, ParsesAndKeepsHostBits) {
    EXPECT_EQ(IpPrefix::parse("10.1.0.5/16")->to_string(), "10.1.0.5/16");
    EXPECT_EQ(IpPrefix::parse("10.1.0.5/16")->network().to_string(), "10.1.0.0/16");
    EXPECT_EQ(IpPrefix::parse("fd00::1:5/112")->network().to_string(), "fd00::1:0/112");
    for (const char* bad :
         {"10.1.0.5", "10.1.0.5/", "10.1.0.5/33", "10.1.0/8", "::1/129", "::1/-1", "/8", "10.0.0.0/8x"})
        EXPECT_FALSE(IpPrefix::parse(bad)) << bad;
}

TEST(IpPrefixTest, ContainsComparesFamilyAndNetwork) {
    EXPECT_TRUE(IpPrefix::parse("10.1.0.5/16")->contains(*IpAddress::parse("10.1.255.255")));
    EXPECT_FALSE(IpPrefix::parse("10.1.0.5/16")->contains(*IpAddress::parse("10.2.0.0")));
    EXPECT_FALSE(IpPrefix::parse("0.0.0.0/0")->contains(*IpAddress::parse("::1")));
    EXPECT_TRUE(IpPrefix::parse("::/0")->contains(*IpAddress::parse("fe80::1")));
}

TEST(IpAddressTest, MappedFormGoesThereAndBack) {
    for (const char* text : {"10.1.2.3", "fd00::7", "::", "0.0.0.0"}) {
        const auto address = IpAddress::parse(text);
        ASSERT_TRUE(address) << text;
        EXPECT_EQ(IpAddress::from_mapped(address->mapped()), *address) << text;
    }
    EXPECT_EQ(IpAddress::parse("10.1.2.3")->mapped()[10], 0xff);
}

TEST(IpAddressTest, KnowsLinkLocalAndMulticast) {
    EXPECT_TRUE(IpAddress::parse("169.254.1.1")->is_link_local());
    EXPECT_TRUE(IpAddress::parse("febf::1")->is_link_local());
    EXPECT_FALSE(IpAddress::parse("fec0::1")->is_link_local());
    EXPECT_TRUE(IpAddress::parse("239.1.1.1")->is_multicast());
    EXPECT_TRUE(IpAddress::parse("ff02::1")->is_multicast());
}

}  // namespace
}  // namespace xveth
