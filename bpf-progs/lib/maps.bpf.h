/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of a node. Keys and values: include/abi.h. */
#ifndef XVETH_MAPS_BPF_H
#define XVETH_MAPS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf-progs/include/abi.h"
#include "bpf-progs/lib/types.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, XV_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct xv_port);
} xv_port_info SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XV_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} xv_port_of SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, XV_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} xv_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, XV_MAX_ENDPOINTS);
	__type(key, struct xv_addr);
	__type(value, __u32);
} xv_endpoints SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, XV_MAX_ENDPOINTS);
	__type(key, struct xv_port_prefix);
	__type(value, __u32);
} xv_sources SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, XV_MAX_ENDPOINTS);
	__type(key, struct xv_port_prefix);
	__type(value, __u32);
} xv_fast_to SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xv_node);
} xv_node SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, XV_MAX_CHAINS);
	__type(key, __u32);
	__type(value, struct xv_chain);
} xv_chains SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, XV_MAX_CHAINS *XV_CHAIN_SLOTS);
	__type(key, __u32);
	__type(value, struct xv_hop);
} xv_hops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XV_MAX_FLOWS);
	__type(key, struct xv_flow_key);
	__type(value, struct xv_flow);
} xv_flows SEC(".maps");

/* Which flow holds each of the XV_MAX_FLOWS places: a clock hand goes round it in search of dead ones. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XV_MAX_FLOWS);
	__type(key, __u32);
	__type(value, struct xv_flow_key);
} xv_flow_ring SEC(".maps");

/* Grows whenever the verdict of a flow of the bucket changes: what other CPUs have cached about it dies at once. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XV_FLOW_BUCKETS);
	__type(key, __u32);
	__type(value, __u32);
} xv_flow_gen SEC(".maps");

/*
 * UDP flows that began by the stack: hash of the flow << 32 | second in which it was last seen. Direct-mapped, because it
 * may forget: where conntrack is at work, that knows the flow; where it is not, half of a flow does no harm.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XV_STACK_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} xv_stack_began SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, XV_CACHE_SLOTS);
	__type(key, __u32);
	__type(value, struct xv_cached);
} xv_cache SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, XV_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct xv_counters);
} xv_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16 * XV_MAX_PORTS);
	__type(key, struct xv_reason_key);
	__type(value, __u64);
} xv_reasons SEC(".maps");

/* Set by the loader before the load: constants to the verifier. */
const volatile __u32 xv_has_conntrack = 0;
const volatile __u32 xv_cache_mask = XV_CACHE_SLOTS - 1;

static __always_inline struct xv_node *xv_this_node(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&xv_node, &zero);
}

#endif
