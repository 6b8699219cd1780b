// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The programs of a node:
 *
 *    wire ──► NIC ═══ redirect ═══► host end ║ pod end ──► the container's stack
 *             xv_nic                xv_host    xv_pod
 *
 *    host end of a function: xv_function; egress of a protected container's host end: xv_egress
 *
 * A frame is parsed, looked up in this CPU's cache of verdicts, and judged where the cache has nothing. What the fast
 * path cannot carry exactly as the kernel would is passed to the stack unmodified.
 */
#include <linux/errno.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf-progs/lib/cache.bpf.h"
#include "bpf-progs/lib/forward.bpf.h"
#include "bpf-progs/lib/judge.bpf.h"
#include "bpf-progs/lib/parse.bpf.h"
#include "bpf-progs/lib/stats.bpf.h"
#include "bpf-progs/lib/transit.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Negative: the cached verdict does not fit this frame after all. */
static __always_inline int xv_apply(struct xdp_md *ctx, const struct xv_frame *f, const struct xv_cached *cached)
{
	if (cached->verdict == XV_CACHED_PASS) {
		xv_count_reason(cached->in_port, XV_PASS_CACHED);
		return XDP_PASS;
	}
	if (xv_too_big(ctx, f, cached->route.mtu))
		return -1;
	return xv_forward(ctx, f, cached->in_port, &cached->route) == XDP_REDIRECT ? XDP_REDIRECT : -1;
}

static __always_inline int xv_receive(struct xdp_md *ctx, const bool nic)
{
	struct xv_frame f;
	struct xv_cached *cached;
	int action;

	if (xv_parse_plain(ctx, &f) && !(f.tcp_flags & XV_TCP_EDGES)) {
		cached = xv_cache_find(ctx, &f, nic);
		action = cached ? xv_apply(ctx, &f, cached) : -1;
		if (action >= 0)
			return action;
	}
	return xv_judge(ctx, nic);
}

SEC("xdp.frags")
int xv_nic(struct xdp_md *ctx)
{
	return xv_receive(ctx, true);
}

SEC("xdp.frags")
int xv_host(struct xdp_md *ctx)
{
	return xv_receive(ctx, false);
}

SEC("xdp.frags")
int xv_function(struct xdp_md *ctx)
{
	int action = xv_transit(ctx);

	return action >= 0 ? action : xv_receive(ctx, false);
}

SEC("tc")
int xv_egress(struct __sk_buff *skb)
{
	return xv_guard(skb);
}

SEC("xdp.frags")
int xv_pod(struct xdp_md *ctx)
{
	xv_count_fast(0, XV_TO_PORT, ctx->data_end - ctx->data);
	return XDP_PASS;
}

static __always_inline __u32 xv_reason_of_errno(int err)
{
	switch (err) {
	case -EOPNOTSUPP:
		return XV_ERR_NO_XMIT;
	case -ENETDOWN:
		return XV_ERR_DOWN;
	case -EMSGSIZE:
		return XV_ERR_TOO_BIG;
	default:
		return XV_ERR_OTHER;
	}
}

/* The kernel could not deliver a redirected frame: it is lost, and counted under the port that it was for. */
SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(xv_redirect_err, const void *dev, const void *prog, const void *target, int err, int map_type,
	     __u32 map_id, __u32 index)
{
	struct xv_node *node = xv_this_node();

	if (node && map_id == node->ports_map_id)
		xv_count_reason(index, xv_reason_of_errno(err));
	return 0;
}
