// SPDX-License-Identifier: Apache-2.0
#include "bpf-progs/loader/map.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>

#include <cerrno>

#include "bpf-progs/loader/bpffs.hpp"

namespace xveth::bpf {

Error RawMap::failure(int err, const char* action) const {
    return errno_error(err, std::string(action) + " map " + path_.substr(path_.rfind('/') + 1)).with_code(102);
}

Result<int> RawMap::fd() {
    if (!fd_.valid()) {
        auto opened = open_pin(path_);
        if (!opened) return std::move(opened.error()).with_code(102);
        fd_ = std::move(*opened);
    }
    return fd_.get();
}

Result<bool> RawMap::lookup(const void* key, void* value) {
    auto map = fd();
    if (!map) return std::move(map.error());
    if (bpf_map_lookup_elem(*map, key, value) == 0) return true;
    if (errno == ENOENT) return false;
    return failure(errno, "read");
}

Result<void> RawMap::update(const void* key, const void* value) {
    auto map = fd();
    if (!map) return std::move(map.error());
    if (bpf_map_update_elem(*map, key, value, BPF_ANY) != 0) return failure(errno, "write");
    return ok();
}

Result<void> RawMap::remove_if_present(const void* key) {
    auto map = fd();
    if (!map) return std::move(map.error());
    if (bpf_map_delete_elem(*map, key) != 0 && errno != ENOENT) return failure(errno, "remove from");
    return ok();
}

Result<bool> RawMap::next_key(const void* previous, void* key) {
    auto map = fd();
    if (!map) return std::move(map.error());
    if (bpf_map_get_next_key(*map, previous, key) == 0) return true;
    if (errno == ENOENT) return false;
    return failure(errno, "walk");
}

Result<bool> RawMap::read_some(std::optional<std::uint32_t>& position, void* keys, void* values, std::uint32_t* count) {
    auto map = fd();
    if (!map) return std::move(map.error());
    std::uint32_t next = 0;
    if (bpf_map_lookup_batch(*map, position ? &*position : nullptr, &next, keys, values, count, nullptr) == 0) {
        position = next;
        return true;
    }
    if (errno == ENOENT) return false;
    return failure(errno, "read");
}

std::size_t possible_cpus() {
    const int cpus = libbpf_num_possible_cpus();
    return cpus > 0 ? static_cast<std::size_t>(cpus) : 1;
}

MappedPages::~MappedPages() {
    if (data_ != nullptr) ::munmap(data_, size_);
}

Result<void> MappedPages::ensure_mapped(const std::string& path, std::size_t size) {
    if (data_ != nullptr) return ok();
    auto fd = open_pin(path);
    if (!fd) return std::move(fd.error()).with_code(102);
    void* pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
    if (pages == MAP_FAILED) return errno_error(errno, "map " + path).with_code(102);
    data_ = pages;
    size_ = size;
    return ok();
}

}  // namespace xveth::bpf
