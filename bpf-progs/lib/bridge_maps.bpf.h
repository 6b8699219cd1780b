/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps that only bridges need. Keys and values: include/bridge_abi.h. */
#ifndef XVETH_BRIDGE_MAPS_BPF_H
#define XVETH_BRIDGE_MAPS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf-progs/include/bridge_abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, XV_MAX_BRIDGES);
	__type(key, __u32);
	__type(value, struct xv_bridge_info);
} xv_bridges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, XV_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct xv_vlan_set);
} xv_bridge_vlans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, XV_MAX_STATIC);
	__type(key, struct xv_fdb_key);
	__type(value, struct xv_fdb_entry);
} xv_fdb_static SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, XV_MAX_LEARNED);
	__type(key, struct xv_fdb_key);
	__type(value, struct xv_fdb_entry);
} xv_fdb_learned SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, XV_MAX_GROUPS);
	__type(key, struct xv_group_key);
	__type(value, struct xv_group);
} xv_groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, XV_MAX_FLOODS);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
			__uint(max_entries, 1);
			__uint(key_size, sizeof(__u32));
			__uint(value_size, sizeof(struct bpf_devmap_val)); /* clang gives no type here */
		});
} xv_floods SEC(".maps");

#endif
