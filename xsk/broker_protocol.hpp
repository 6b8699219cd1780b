// SPDX-License-Identifier: Apache-2.0
// How libxveth-xsk asks xvethd to put a socket into its interface's XSKMAP: a SOCK_SEQPACKET connection, one request a
// message with the AF_XDP socket beside it (SCM_RIGHTS), one answer a request. Which container may be written to is decided by
// the socket's network namespace and by nothing that is said here.
#pragma once

#include <array>
#include <cstdint>

namespace xveth::xsk {

constexpr std::uint32_t broker_magic = 0x6b737678;  // "xvsk"
constexpr std::uint32_t broker_version = 1;

struct BrokerRequest {
    std::uint32_t magic = broker_magic;
    std::uint32_t version = broker_version;
    std::uint32_t queue = 0;
    std::array<char, 16> ifname{};  // ends with a zero
};
static_assert(sizeof(BrokerRequest) == 28);

struct BrokerAnswer {
    std::uint32_t magic = broker_magic;
    std::uint32_t version = broker_version;
    std::int32_t error = 0;        // an errno; 0: it is done
    std::array<char, 244> text{};  // why not; ends with a zero
};
static_assert(sizeof(BrokerAnswer) == 256);

}  // namespace xveth::xsk
