/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the bridge's program and user space share, beside abi.h. Loaded with the first bridge network of a node; the
 * ports are those of abi.h: bridge, vlan and XV_PORT_ISOLATED of struct xv_port make one a bridge port.
 */
#ifndef XVETH_BRIDGE_ABI_H
#define XVETH_BRIDGE_ABI_H

#include "bpf-progs/include/abi.h"

#ifdef __cplusplus
namespace xveth::bpf {
#endif

enum {
	XV_MAX_BRIDGES = 1024, /* bridge ids 1 … XV_MAX_BRIDGES - 1; 0 = none */
	XV_BRIDGE_NAME = 240,
	XV_MAX_VLANS = 4096, /* VLAN ids 1 … 4094; 0 = untagged, or a bridge that looks at no tags */
	XV_MAX_STATIC = 65536,
	XV_MAX_LEARNED = 65536,
	XV_MAX_GROUPS = 65536,
	XV_MAX_FLOODS = 16384, /* places in xv_floods; 0 = none */
};

/* xv_bridges (ARRAY, mmapable), index bridge id. */
enum xv_bridge_flags {
	XV_BRIDGE_VLANS = 1 << 0, /* tags count; without it every frame is of VLAN 0, whatever it carries */
};

struct xv_bridge_info {
	__u64 ageing_ns; /* a learned MAC that was silent for so long is unknown again */
	__u32 flags;     /* enum xv_bridge_flags */
	__u32 reserved;
	char name[XV_BRIDGE_NAME]; /* of the network; empty = the id is free */
};
XV_ASSERT_SIZE(struct xv_bridge_info, 256);

/* xv_bridge_vlans (HASH, port id): the VLANs that a port takes and gets with their tag. No entry: none. */
struct xv_vlan_set {
	__u64 words[XV_MAX_VLANS / 64];
};
XV_ASSERT_SIZE(struct xv_vlan_set, 512);

/* xv_fdb_static (HASH, by user space) and xv_fdb_learned (LRU_HASH, by the program): where a MAC is. */
struct xv_fdb_key {
	__u8 mac[6];
	__u16 vlan;
	__u32 bridge;
};
XV_ASSERT_SIZE(struct xv_fdb_key, 12);

struct xv_fdb_entry {
	__u64 owner;   /* xv_fdb_owner(): one word, so that a MAC moves at once */
	__u64 seen_ns; /* coarse CLOCK_MONOTONIC, renewed about once a second; 0 in xv_fdb_static */
};
XV_ASSERT_SIZE(struct xv_fdb_entry, 16);

/* A port that was given away and came back has another epoch: entries of before lead nowhere. */
static inline __u64 xv_fdb_owner(__u32 port, __u32 epoch)
{
	const __u64 high = epoch;

	return high << 32 | port;
}

/* xv_groups (HASH): who gets the broadcasts of a VLAN. */
struct xv_group_key {
	__u16 bridge;
	__u16 vlan;
};
XV_ASSERT_SIZE(struct xv_group_key, 4);

enum xv_group_flags {
	XV_GROUP_STACK = 1 << 0,  /* XDP cannot reach all members: the kernel's bridge floods */
	XV_GROUP_TAGGED = 1 << 1, /* some member gets this VLAN with its tag */
};

struct xv_group {
	__u32 all;  /* place in xv_floods: every member */
	__u32 open; /* the members that are not isolated: whom isolated ones reach */
	__u32 flags;
	__u32 reserved;
};
XV_ASSERT_SIZE(struct xv_group, 16);

/* xv_floods (ARRAY_OF_MAPS) -> DEVMAP_HASH: port id -> struct bpf_devmap_val, as its entry in xv_ports. */

#ifdef __cplusplus
}  // namespace xveth::bpf
#endif

#endif
