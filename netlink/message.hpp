// SPDX-License-Identifier: Apache-2.0
// Netlink messages: one to be sent, one that was received, and a view of attributes. Private to this folder.
#pragma once

#include <arpa/inet.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.hpp"
#include "netlink/types.hpp"

namespace xveth::netlink {

inline int number(IfIndex index) { return static_cast<int>(index); }
int address_family(Family family);

// A request under construction. An attribute that finds no room marks the message; sending it then fails.
class Message {
public:
    Message(int type, int flags);

    // The family's fixed header (ifinfomsg, rtmsg, nfgenmsg, …): first, before any attribute.
    template <class Header>
    Message& header(const Header& header) {
        append(&header, sizeof header);
        return *this;
    }
    Message& put_u8(int type, std::uint8_t value) { return put(type, &value, sizeof value); }
    Message& put_u16(int type, std::uint16_t value) { return put(type, &value, sizeof value); }
    Message& put_u32(int type, std::uint32_t value) { return put(type, &value, sizeof value); }
    Message& put_be32(int type, std::uint32_t value) { return put_u32(type, htonl(value)); }
    Message& put_flag(int type) { return put(type, nullptr, 0); }
    Message& put_text(int type, const std::string& text) { return put(type, text.c_str(), text.size() + 1); }
    Message& put_bytes(int type, std::span<const std::uint8_t> bytes) { return put(type, bytes.data(), bytes.size()); }
    Message& put_address(int type, const IpAddress& address) { return put(type, address.bytes.data(), address.size()); }
    // A nested attribute, whose content `fill(message)` puts.
    template <class Fill>
    Message& nest(int type, Fill fill) {
        nlattr* start = begin_nest(type);
        fill(*this);
        end_nest(start);
        return *this;
    }
    // The same for a nest that starts with a fixed header of its own.
    template <class Header, class Fill>
    Message& nest_with_header(int type, const Header& inner, Fill fill) {
        return nest(type, [&](Message& message) {
            message.append(&inner, sizeof inner);
            fill(message);
        });
    }

    [[nodiscard]] nlmsghdr* raw() const { return nlmsg_hdr(message_.get()); }
    [[nodiscard]] bool complete() const { return complete_; }

private:
    struct Free {
        void operator()(nl_msg* message) const { nlmsg_free(message); }
    };
    Message& put(int type, const void* data, std::size_t size);
    void append(const void* data, std::size_t size);
    nlattr* begin_nest(int type);
    void end_nest(nlattr* start);

    std::unique_ptr<nl_msg, Free> message_;
    bool complete_ = true;
};

// The attributes of a message or of a nest; a view into the bytes of a Received. An absent attribute reads as empty.
class Attributes {
public:
    Attributes() = default;
    Attributes(const nlattr* first, int size) : first_(first), size_(size) {}

    [[nodiscard]] bool has(int type) const { return find(type) != nullptr; }
    template <class T>
    [[nodiscard]] std::optional<T> find_value(int type) const {
        const nlattr* attribute = find(type);
        if (attribute == nullptr || nla_len(attribute) < static_cast<int>(sizeof(T))) return std::nullopt;
        T value{};
        std::memcpy(&value, nla_data(attribute), sizeof value);
        return value;
    }
    [[nodiscard]] std::uint8_t u8(int type) const { return find_value<std::uint8_t>(type).value_or(0); }
    [[nodiscard]] std::uint16_t u16(int type) const { return find_value<std::uint16_t>(type).value_or(0); }
    [[nodiscard]] std::uint32_t u32(int type) const { return find_value<std::uint32_t>(type).value_or(0); }
    [[nodiscard]] std::uint64_t u64(int type) const { return find_value<std::uint64_t>(type).value_or(0); }
    [[nodiscard]] std::uint32_t be32(int type) const { return ntohl(u32(type)); }
    [[nodiscard]] std::uint64_t be64(int type) const;
    [[nodiscard]] std::string text(int type) const;
    [[nodiscard]] std::span<const std::uint8_t> bytes(int type) const;
    [[nodiscard]] std::optional<IpAddress> address(int type, Family family) const;
    [[nodiscard]] Attributes nested(int type) const;
    // visit(type, attributes inside) for each attribute, in order.
    template <class Visit>
    void for_each(Visit visit) const {
        int left = size_;
        for (const nlattr* at = first_; at != nullptr && nla_ok(at, left); at = nla_next(at, &left))
            visit(nla_type(at), inside(at));
    }
    // visit(text) for each attribute of a list of texts.
    template <class Visit>
    void for_each_text(Visit visit) const {
        int left = size_;
        for (const nlattr* at = first_; at != nullptr && nla_ok(at, left); at = nla_next(at, &left)) visit(text_of(at));
    }

private:
    [[nodiscard]] const nlattr* find(int type) const;
    static Attributes inside(const nlattr* attribute);
    static std::string text_of(const nlattr* attribute);

    const nlattr* first_ = nullptr;
    int size_ = 0;
};

// One message as the kernel sent it.
class Received {
public:
    explicit Received(const nlmsghdr& header);

    [[nodiscard]] const nlmsghdr& raw() const { return *raw_mutable(); }
    // The family's fixed header; zeros when the message is shorter.
    template <class Header>
    [[nodiscard]] Header header() const {
        Header header{};
        if (nlmsg_datalen(raw_mutable()) >= static_cast<int>(sizeof header))
            std::memcpy(&header, nlmsg_data(raw_mutable()), sizeof header);
        return header;
    }
    template <class Header>
    [[nodiscard]] Attributes attributes() const {
        return attributes_behind(sizeof(Header));
    }

private:
    [[nodiscard]] Attributes attributes_behind(std::size_t header_size) const;
    [[nodiscard]] nlmsghdr* raw_mutable() const;

    std::vector<std::uint32_t> words_;  // aligned as the header needs it
};

}  // namespace xveth::netlink
