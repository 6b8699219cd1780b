// SPDX-License-Identifier: Apache-2.0
#include "netlink/message.hpp"

#include <endian.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>

namespace xveth::netlink {

int address_family(Family family) { return family == Family::ipv4 ? AF_INET : AF_INET6; }

Message::Message(int type, int flags) : message_(nlmsg_alloc_simple(type, flags)) {
    if (message_ == nullptr) throw std::bad_alloc();
}

Message& Message::put(int type, const void* data, std::size_t size) {
    if (nla_put(message_.get(), type, static_cast<int>(size), data) != 0) complete_ = false;
    return *this;
}

void Message::append(const void* data, std::size_t size) {
    // nlmsg_append() takes a pointer to non-const, and only reads.
    if (nlmsg_append(message_.get(), const_cast<void*>(data), size, NLMSG_ALIGNTO) != 0) complete_ = false;
}

nlattr* Message::begin_nest(int type) {
    nlattr* start = nla_nest_start(message_.get(), type);
    if (start == nullptr) complete_ = false;
    return start;
}

void Message::end_nest(nlattr* start) {
    if (start != nullptr) nla_nest_end_keep_empty(message_.get(), start);
}

std::uint64_t Attributes::be64(int type) const { return be64toh(u64(type)); }

std::string Attributes::text(int type) const {
    const nlattr* attribute = find(type);
    return attribute == nullptr ? std::string{} : text_of(attribute);
}

std::span<const std::uint8_t> Attributes::bytes(int type) const {
    const nlattr* attribute = find(type);
    if (attribute == nullptr) return {};
    return {static_cast<const std::uint8_t*>(nla_data(attribute)), static_cast<std::size_t>(nla_len(attribute))};
}

std::optional<IpAddress> Attributes::address(int type, Family family) const {
    IpAddress address{.family = family, .bytes = {}};
    const auto data = bytes(type);
    if (data.size() != address.size()) return std::nullopt;
    std::ranges::copy(data, address.bytes.begin());
    return address;
}

Attributes Attributes::nested(int type) const {
    const nlattr* attribute = find(type);
    return attribute == nullptr ? Attributes{} : inside(attribute);
}

const nlattr* Attributes::find(int type) const { return first_ == nullptr ? nullptr : nla_find(first_, size_, type); }

Attributes Attributes::inside(const nlattr* attribute) {
    return {static_cast<const nlattr*>(nla_data(attribute)), nla_len(attribute)};
}

std::string Attributes::text_of(const nlattr* attribute) {
    const auto* start = static_cast<const char*>(nla_data(attribute));
    return {start, strnlen(start, static_cast<std::size_t>(nla_len(attribute)))};
}

Received::Received(const nlmsghdr& header) : words_((header.nlmsg_len + 3) / 4) {
    std::memcpy(words_.data(), &header, header.nlmsg_len);
}

nlmsghdr* Received::raw_mutable() const {
    // libnl's accessors take pointers to non-const, and only read.
    return reinterpret_cast<nlmsghdr*>(const_cast<std::uint32_t*>(words_.data()));
}

Attributes Received::attributes_behind(std::size_t header_size) const {
    nlmsghdr* header = raw_mutable();
    const int size = static_cast<int>(header_size);
    if (nlmsg_datalen(header) < size) return {};
    return {nlmsg_attrdata(header, size), nlmsg_attrlen(header, size)};
}

}  // namespace xveth::netlink
