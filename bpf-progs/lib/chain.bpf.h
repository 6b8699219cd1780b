/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Chains: who gets a frame next on its way to a protected container. What position a frame has reached follows from the
 * device that it enters at and is written nowhere, so no program can forge it; positions only grow, so nothing circulates.
 */
#ifndef XVETH_CHAIN_BPF_H
#define XVETH_CHAIN_BPF_H

#include "bpf-progs/lib/flow.bpf.h"
#include "bpf-progs/lib/maps.bpf.h"
#include "bpf-progs/lib/stats.bpf.h"

#define XV_BEHIND_ALL 0x10000 /* greater than any position */

/*
 * What comes next, in one number, since stacks are full: the function's port, 0 = none before the container; its slot; the
 * slot of the function at the position asked from, and whether there is one; why the frame goes nowhere, less XV_DROP_SPOOFED.
 */
#define XV_NEXT_PORT(next) ((next) & (XV_MAX_PORTS - 1))
#define XV_NEXT_SLOT 14
#define XV_NEXT_OWN 18
#define XV_NEXT_HAS_OWN (1U << 22)
#define XV_NEXT_DROP 24

enum xv_hop_event { XV_HOP_IN, XV_HOP_OUT, XV_HOP_DROPPED };

static __always_inline void xv_count_hop(__u32 index, enum xv_hop_event event)
{
	struct xv_hop *hop = index ? bpf_map_lookup_elem(&xv_hops, &index) : NULL;

	if (!hop)
		return;
	if (event == XV_HOP_IN)
		hop->in++;
	else if (event == XV_HOP_OUT)
		hop->out++;
	else
		hop->dropped++;
}

/* Its port is still that of this function, and its device takes frames: one that died is gone before user space says so. */
static __always_inline bool xv_is_present(__u32 id, __u32 chain, __u32 position)
{
	struct xv_port *port = bpf_map_lookup_elem(&xv_port_info, &id);

	return port && port->flags & XV_PORT_TARGET && port->chain == chain && port->position == position &&
	       bpf_map_lookup_elem(&xv_ports, &id);
}

struct xv_search {
	__u32 chain;
	__u32 position; /* asked from */
	__u32 live;     /* smallest position so far of a live function, behind which `next` is … */
	__u32 closed;   /* … and of one that is gone and wants frames dropped */
	__u32 seen;
	__u32 own;
	__u32 next;
};

static long xv_look_at_slot(__u32 index, void *context)
{
	struct xv_search *s = context;
	__u32 id = s->chain;
	struct xv_chain *chain = bpf_map_lookup_elem(&xv_chains, &id);
	union {
		__u64 word;
		struct xv_chain_slot slot;
	} at;
	__u32 position;

	if (!chain || index >= XV_CHAIN_SLOTS)
		return 1;
	at.word = *(volatile __u64 *)&chain->slots[index];
	position = at.slot.position;
	if (at.slot.state == XV_SLOT_FREE)
		return 0;
	s->seen = 1;
	if (position == s->position)
		s->own = XV_NEXT_HAS_OWN | index << XV_NEXT_OWN;
	if (position <= s->position)
		return 0;
	if (at.slot.state == XV_SLOT_LIVE && xv_is_present(at.slot.port, id, position)) {
		if (position >= s->live)
			return 0;
		s->live = position;
		s->next = XV_NEXT_PORT(at.slot.port) | index << XV_NEXT_SLOT;
	} else if (at.slot.on_failure != XV_ON_FAILURE_BYPASS && position < s->closed) {
		s->closed = position;
	}
	return 0;
}

/*
 * The live function with the smallest position above `position`, unless one before it is gone and wants frames dropped.
 * A callback is verified once, a loop once for every order that the slots may have.
 */
__noinline int xv_chain_next(__u32 chain, __u32 position)
{
	struct xv_search s = { .chain = chain, .position = position, .live = XV_BEHIND_ALL, .closed = XV_BEHIND_ALL };
	struct xv_chain *at = bpf_map_lookup_elem(&xv_chains, &chain);

	if (at)
		bpf_loop(*(volatile __u32 *)&at->used, xv_look_at_slot, &s, 0);
	if (!s.seen)
		return (XV_DROP_CHAIN_EMPTY - XV_DROP_SPOOFED) << XV_NEXT_DROP;
	if (s.closed < s.live)
		return s.own | (XV_DROP_CHAIN_GONE - XV_DROP_SPOOFED) << XV_NEXT_DROP;
	return s.own | s.next;
}

/* Where frames of a port's own begin in a chain: behind it, if it is a function there; 0 = with the first function. */
static __always_inline __u32 xv_begins_behind(const struct xv_port *port, __u32 chain)
{
	return port->chain == chain ? port->position : 0;
}

/* enum xv_reason; 0: the frame goes on. */
static __always_inline __u32 xv_next_drop(__u32 next)
{
	return next >> XV_NEXT_DROP ? (next >> XV_NEXT_DROP) + XV_DROP_SPOOFED : 0;
}

/* Indices in xv_hops; 0: none. */
static __always_inline __u32 xv_next_hop(__u32 chain, __u32 next)
{
	return XV_NEXT_PORT(next) ? chain * XV_CHAIN_SLOTS + (next >> XV_NEXT_SLOT & (XV_CHAIN_SLOTS - 1)) : 0;
}

static __always_inline __u32 xv_own_hop(__u32 chain, __u32 next)
{
	return next & XV_NEXT_HAS_OWN ? chain * XV_CHAIN_SLOTS + (next >> XV_NEXT_OWN & (XV_CHAIN_SLOTS - 1)) : 0;
}

#endif
