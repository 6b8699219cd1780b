// SPDX-License-Identifier: Apache-2.0
// Maps with the types of include/abi.h: an access with a wrong type does not compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xveth::bpf {

// A pinned map, opened when first used. Errors carry code 102 and the map's name.
class RawMap {
public:
    explicit RawMap(std::string path) : path_(std::move(path)) {}

    Result<int> fd();
    Result<bool> lookup(const void* key, void* value);  // false: no such key
    Result<void> update(const void* key, const void* value);
    Result<void> remove_if_present(const void* key);
    // The key after `previous` (nullptr: the first one); false at the end.
    Result<bool> next_key(const void* previous, void* key);
    // Reads up to *count pairs of a hash map from `position` on, which is nothing at first; false at the end. Unlike
    // next_key() it stands that the map changes meanwhile.
    Result<bool> read_some(std::optional<std::uint32_t>& position, void* keys, void* values, std::uint32_t* count);

private:
    [[nodiscard]] Error failure(int err, const char* action) const;

    std::string path_;
    UniqueFd fd_;
};

[[nodiscard]] std::size_t possible_cpus();

// As bpf_devmap_val: the program is a descriptor when written, and an id when read.
struct DevmapValue {
    std::uint32_t ifindex = 0;
    std::uint32_t program = 0;
};

template <class Key, class Value>
class TypedMap {
public:
    explicit TypedMap(std::string path) : raw_(std::move(path)) {}

    Result<std::optional<Value>> find(const Key& key) {
        Value value{};
        auto found = raw_.lookup(&key, &value);
        if (!found) return std::move(found.error());
        if (!*found) return std::optional<Value>{};
        return std::optional<Value>{value};
    }
    Result<void> put(const Key& key, const Value& value) { return raw_.update(&key, &value); }
    Result<void> remove_if_present(const Key& key) { return raw_.remove_if_present(&key); }
    // A snapshot: what others add or remove meanwhile may be missing.
    Result<std::vector<Key>> keys() {
        std::vector<Key> keys;
        Key key{};
        for (const void* previous = nullptr;; previous = &keys.back()) {
            auto more = raw_.next_key(previous, &key);
            if (!more) return std::move(more.error());
            if (!*more) return keys;
            keys.push_back(key);
        }
    }
    // All pairs of a hash map, whoever changes it meanwhile.
    Result<std::vector<std::pair<Key, Value>>> entries() {
        std::vector<std::pair<Key, Value>> entries;
        std::vector<Key> keys(batch);
        std::vector<Value> values(batch);
        std::optional<std::uint32_t> position;
        for (bool more = true; more;) {
            std::uint32_t count = batch;
            auto read = raw_.read_some(position, keys.data(), values.data(), &count);
            if (!read) return std::move(read.error());
            for (std::uint32_t i = 0; i < count; ++i) entries.emplace_back(keys[i], values[i]);
            more = *read;
        }
        return entries;
    }

private:
    static constexpr std::uint32_t batch = 1024;  // more than a bucket holds
    RawMap raw_;
};

// One value per CPU; sizes of values are multiples of eight here, as the kernel lays them out.
template <class Key, class Value>
class PerCpuMap {
    static_assert(sizeof(Value) % 8 == 0);

public:
    explicit PerCpuMap(std::string path) : raw_(std::move(path)) {}

    // The values of all CPUs; none when there is no such key.
    Result<std::vector<Value>> find(const Key& key) {
        std::vector<Value> values(possible_cpus());
        auto found = raw_.lookup(&key, values.data());
        if (!found) return std::move(found.error());
        if (!*found) values.clear();
        return values;
    }
    Result<void> clear(const Key& key) {
        const std::vector<Value> zeros(possible_cpus());
        return raw_.update(&key, zeros.data());
    }
    Result<void> remove_if_present(const Key& key) { return raw_.remove_if_present(&key); }

private:
    RawMap raw_;
};

// The whole of an mmapable array map, shared with the programs: no system call per access.
class MappedPages {
public:
    MappedPages() = default;
    MappedPages(const MappedPages&) = delete;
    MappedPages& operator=(const MappedPages&) = delete;
    ~MappedPages();

    // Maps `size` bytes of the map at `path`; does nothing when that is done already.
    Result<void> ensure_mapped(const std::string& path, std::size_t size);
    [[nodiscard]] void* data() const { return data_; }

private:
    void* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace xveth::bpf
