/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who started a flow that is, or was, fast. A flow is fast in both directions or in neither, so this table, unlike the
 * cache, may not forget a live entry: a reply that misses it would go to a stack that never saw the flow begin. A flow
 * that finds no place is therefore the stack's from its first frame.
 */
#ifndef XVETH_FLOW_BPF_H
#define XVETH_FLOW_BPF_H

#include "bpf-progs/lib/kernel.bpf.h"
#include "bpf-progs/lib/maps.bpf.h"
#include "bpf-progs/lib/parse.bpf.h"

#define XV_UDP_NEW (30 * XV_SECOND)
#define XV_UDP_REPLIED (180 * XV_SECOND)
#define XV_TCP_NEW (120 * XV_SECOND)
#define XV_TCP_REPLIED (432000 * XV_SECOND)
#define XV_TCP_CLOSING (120 * XV_SECOND)
#define XV_SEEN_GRAIN (XV_SECOND / 2) /* seen_ns is written no more often: CPUs share its cache line */
#define XV_CLOCK_STEPS 8

/* The container ports that own the two addresses of a frame, and their epochs; 0 = not a container of this node. */
struct xv_ends {
	__u32 src, dst;
	__u32 src_epoch, dst_epoch;
};

/* A frame's flow: its key, and its entry while that is alive. */
struct xv_flow_of {
	struct xv_flow_key key;
	__u32 lo_epoch, hi_epoch;
	__u32 bucket, bucket_gen;
	__u64 now;
	struct xv_flow *live;
	__u8 src_is_hi;
};

static __u32 xv_clock_hand;

static __always_inline __u64 xv_hash_tuple(const struct xv_addr *a, const struct xv_addr *b, __u32 ports)
{
	__u64 x = a->words[1] ^ (b->words[1] << 32 | b->words[1] >> 32);

	x ^= (a->words[0] ^ b->words[0] * 3) * 0x9e3779b97f4a7c15ULL;
	x ^= ports * 0xc2b2ae3d27d4eb4fULL;
	return x * 0x9e3779b97f4a7c15ULL;
}

static __always_inline __u64 xv_hash_flow(const struct xv_flow_key *key)
{
	return xv_hash_tuple(&key->lo, &key->hi, key->lo_port | (__u32)key->hi_port << 16);
}

static __always_inline __u32 xv_port_epoch(__u32 id)
{
	struct xv_port *port;

	if (!id)
		return 0;
	port = bpf_map_lookup_elem(&xv_port_info, &id);
	return port ? port->epoch : 0;
}

static __always_inline __u32 xv_endpoint_port(const struct xv_addr *addr)
{
	__u32 *id = bpf_map_lookup_elem(&xv_endpoints, addr);

	return id ? *id : 0;
}

static __always_inline bool xv_src_is_hi(const struct xv_tuple *t)
{
	if (t->src.words[0] != t->dst.words[0])
		return t->src.words[0] > t->dst.words[0];
	if (t->src.words[1] != t->dst.words[1])
		return t->src.words[1] > t->dst.words[1];
	return t->sport > t->dport;
}

static __always_inline void xv_flow_key_of(const struct xv_tuple *t, struct xv_flow_key *key, bool src_is_hi)
{
	key->lo = src_is_hi ? t->dst : t->src;
	key->hi = src_is_hi ? t->src : t->dst;
	key->lo_port = src_is_hi ? t->dport : t->sport;
	key->hi_port = src_is_hi ? t->sport : t->dport;
	key->proto = t->proto;
	key->zero[0] = key->zero[1] = key->zero[2] = 0;
}

static __always_inline __u32 xv_bucket_gen(__u32 bucket)
{
	__u32 *generation = bpf_map_lookup_elem(&xv_flow_gen, &bucket);

	return generation ? *(volatile __u32 *)generation : 0;
}

/* Kills what any CPU has cached about the flows of this bucket. */
static __always_inline void xv_flow_announce(const struct xv_flow_of *of)
{
	__u32 *generation = bpf_map_lookup_elem(&xv_flow_gen, &of->bucket);

	if (generation)
		__sync_fetch_and_add(generation, 1);
}

static __always_inline bool xv_flow_expired(const struct xv_flow *flow, __u64 now)
{
	/* seen_ns of another CPU may be a little ahead */
	return (__s64)(now - flow->seen_ns) > (__s64)flow->lifetime_ns;
}

/* The bucket's generation is read before the entry: a change in between makes what is cached from it stale. */
static __always_inline void xv_flow_find(const struct xv_tuple *t, const struct xv_ends *ends, struct xv_flow_of *of)
{
	struct xv_flow *flow;

	of->now = bpf_ktime_get_coarse_ns();
	of->src_is_hi = xv_src_is_hi(t);
	of->lo_epoch = of->src_is_hi ? ends->dst_epoch : ends->src_epoch;
	of->hi_epoch = of->src_is_hi ? ends->src_epoch : ends->dst_epoch;
	xv_flow_key_of(t, &of->key, of->src_is_hi);
	of->bucket = xv_hash_flow(&of->key) >> 40 & (XV_FLOW_BUCKETS - 1);
	of->bucket_gen = xv_bucket_gen(of->bucket);
	flow = bpf_map_lookup_elem(&xv_flows, &of->key);
	if (flow &&
	    (flow->lo_epoch != of->lo_epoch || flow->hi_epoch != of->hi_epoch || xv_flow_expired(flow, of->now)))
		flow = NULL;
	of->live = flow;
}

static __always_inline __u64 *xv_stack_slot(const struct xv_flow_of *of, __u32 *tag)
{
	__u64 hash = xv_hash_flow(&of->key);
	__u32 slot = hash >> 40 & (XV_STACK_SLOTS - 1);

	*tag = (hash >> 8) ^ of->lo_epoch ^ of->hi_epoch << 16;
	return bpf_map_lookup_elem(&xv_stack_began, &slot);
}

/* The first frame of a UDP flow, which nothing in it gives away as the first, went to the stack: so will its answers. */
static __noinline int xv_stack_begins(const struct xv_flow_of *of)
{
	__u32 tag;
	__u64 *began = xv_stack_slot(of, &tag);

	if (began)
		*(volatile __u64 *)began = (__u64)tag << 32 | (__u32)(of->now / XV_SECOND);
	return 0;
}

static __noinline int xv_stack_has_begun(const struct xv_flow_of *of)
{
	__u32 tag, now = of->now / XV_SECOND;
	__u64 *began = xv_stack_slot(of, &tag);
	__u64 seen = began ? *(volatile __u64 *)began : 0;

	return seen && seen >> 32 == tag && now - (__u32)seen < XV_UDP_REPLIED / XV_SECOND;
}

static __always_inline __u64 xv_flow_lifetime(__u32 proto, bool replied, bool closing)
{
	if (proto == IPPROTO_UDP)
		return replied ? XV_UDP_REPLIED : XV_UDP_NEW;
	if (closing)
		return XV_TCP_CLOSING;
	return replied ? XV_TCP_REPLIED : XV_TCP_NEW;
}

/* A frame of the flow was seen. */
static __always_inline void xv_flow_touch(const struct xv_flow_of *of, const struct xv_frame *f)
{
	struct xv_flow *flow = of->live;
	bool replied = of->src_is_hi != flow->from_hi;
	bool closing = f->tcp_flags & (XV_TCP_FIN | XV_TCP_RST);

	if ((replied && !flow->replied) || (closing && !flow->closing)) {
		flow->replied |= replied;
		flow->closing |= closing;
		flow->lifetime_ns = xv_flow_lifetime(f->t.proto, flow->replied, flow->closing);
	}
	if ((__s64)(of->now - flow->seen_ns) >= (__s64)XV_SEEN_GRAIN)
		flow->seen_ns = of->now;
}

static __always_inline bool xv_epochs_current(const struct xv_flow_key *key, const struct xv_flow *flow)
{
	return flow->lo_epoch == xv_port_epoch(xv_endpoint_port(&key->lo)) &&
	       flow->hi_epoch == xv_port_epoch(xv_endpoint_port(&key->hi));
}

/*
 * Finds a place on the ring whose flow is dead, removes that flow and writes the new key there. The hand moves on for
 * each look, so no two CPUs look at the same place. Negative: XV_CLOCK_STEPS live ones in a row; none is evicted.
 */
static __always_inline int xv_flow_take_slot(const struct xv_flow_key *key, __u64 now)
{
	for (int i = 0; i < XV_CLOCK_STEPS; i++) {
		__u32 slot = __sync_fetch_and_add(&xv_clock_hand, 1) % XV_MAX_FLOWS;
		struct xv_flow_key *owner = bpf_map_lookup_elem(&xv_flow_ring, &slot);
		struct xv_flow *flow;

		if (!owner)
			return -1;
		flow = bpf_map_lookup_elem(&xv_flows, owner);
		if (flow && flow->slot == slot) {
			if (!xv_flow_expired(flow, now) && xv_epochs_current(owner, flow))
				continue;
			bpf_map_delete_elem(&xv_flows, owner);
		}
		*owner = *key;
		return slot;
	}
	return -1;
}

static __always_inline void xv_flow_begin(struct xv_flow *flow, const struct xv_flow_of *of)
{
	flow->seen_ns = of->now;
	flow->lifetime_ns = xv_flow_lifetime(of->key.proto, false, false);
	flow->lo_epoch = of->lo_epoch;
	flow->hi_epoch = of->hi_epoch;
	flow->verdict = XV_FLOW_FAST;
	flow->from_hi = of->src_is_hi;
	flow->replied = 0;
	flow->closing = 0;
}

/* Enters a new fast flow, in the place of its dead namesake if there is one. 0: the table is full. */
static __noinline int xv_flow_create(struct xv_flow_of *of)
{
	struct xv_flow fresh;
	int slot;

	of->live = bpf_map_lookup_elem(&xv_flows, &of->key);
	if (of->live) {
		xv_flow_begin(of->live, of);
	} else {
		slot = xv_flow_take_slot(&of->key, of->now);
		if (slot < 0)
			return 0;
		xv_flow_begin(&fresh, of);
		fresh.slot = slot;
		/* EEXIST: another CPU saw the other direction's first frame; it is the same flow. */
		bpf_map_update_elem(&xv_flows, &of->key, &fresh, BPF_NOEXIST);
		of->live = bpf_map_lookup_elem(&xv_flows, &of->key);
		if (!of->live)
			return 0;
	}
	/* Others may have cached that this flow, or its namesake, is the stack's. */
	xv_flow_announce(of);
	of->bucket_gen = xv_bucket_gen(of->bucket);
	return 1;
}

#endif
