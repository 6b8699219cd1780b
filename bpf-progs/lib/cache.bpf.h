/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Verdicts of the last second, per CPU and direct-mapped: what makes a frame of a known flow cost one lookup. A hit
 * vouches for everything that led to the verdict: ingress port, source check, MACs, flow, route and target. An entry
 * may be lost or stale at any time without harm, since what has to last is in xv_flows.
 */
#ifndef XVETH_CACHE_BPF_H
#define XVETH_CACHE_BPF_H

#include "bpf-progs/lib/flow.bpf.h"
#include "bpf-progs/lib/maps.bpf.h"

#define XV_CACHE_NS XV_SECOND

static __always_inline struct xv_cached *xv_cache_slot(const struct xv_tuple *t)
{
	__u32 slot = (xv_hash_tuple(&t->src, &t->dst, t->ports) >> 40) & xv_cache_mask;

	return bpf_map_lookup_elem(&xv_cache, &slot);
}

/* The cached verdict about a plain frame, if it still holds. */
static __always_inline struct xv_cached *xv_cache_find(struct xdp_md *ctx, const struct xv_frame *f, const bool nic)
{
	struct xv_cached *entry = xv_cache_slot(&f->t);
	struct xv_node *node = xv_this_node();

	if (!entry || !node)
		return NULL;
	if (!xv_same_addr(&entry->t.src, &f->t.src) || !xv_same_addr(&entry->t.dst, &f->t.dst) ||
	    entry->t.ports != f->t.ports || entry->t.proto != f->t.proto || entry->ifindex != ctx->ingress_ifindex)
		return NULL;
	if (nic ? !xv_same_mac(entry->macs.dst, f->macs.dst) : !xv_same_macs(&entry->macs, &f->macs))
		return NULL;
	if (entry->generation != *(volatile __u32 *)&node->generation ||
	    entry->bucket_gen != xv_bucket_gen(entry->bucket))
		return NULL;
	if (bpf_ktime_get_coarse_ns() - entry->made_ns >= XV_CACHE_NS)
		return NULL;
	return entry;
}

/* `route` NULL: the verdict is to pass. `generation` was read before anything was looked up. */
static __always_inline void xv_cache_put(struct xdp_md *ctx, const struct xv_frame *f, const struct xv_flow_of *of,
					 __u32 generation, __u32 in_port, const struct xv_route *route)
{
	struct xv_cached *entry;

	if (!f->plain || f->tcp_flags & XV_TCP_EDGES)
		return;
	entry = xv_cache_slot(&f->t);
	if (!entry)
		return;
	entry->made_ns = of->now;
	entry->t = f->t;
	entry->ifindex = ctx->ingress_ifindex;
	entry->generation = generation;
	entry->bucket = of->bucket;
	entry->bucket_gen = of->bucket_gen;
	entry->in_port = in_port;
	entry->macs = f->macs;
	entry->verdict = route ? XV_CACHED_REDIRECT : XV_CACHED_PASS;
	if (route)
		entry->route = *route;
}

#endif
