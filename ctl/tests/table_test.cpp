// SPDX-License-Identifier: Apache-2.0
#include "ctl/table.hpp"

#include <gtest/gtest.h>

namespace xveth::ctl {
namespace {

TEST(TableTest, AlignsColumnsAndEndsLinesWithTheirText) {
    EXPECT_EQ(format_table({{"PORT", "DEVICE"}, {"1", "eth0"}, {"10000", ""}}), "PORT   DEVICE\n1      eth0\n10000\n");
    EXPECT_EQ(format_table({}), "");
}

}  // namespace
}  // namespace xveth::ctl
