// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The bridge's program, on the node's end of every bridge port:
 *
 *    container ═ host end ──►┐                  ┌──► host end ═ container
 *                            ├── FDB, redirect ─┤
 *      internal veth, NIC ──►┘                  └──► internal veth, NIC
 *
 * Every port is also a port of a bridge of the kernel's: what XDP cannot do exactly is passed to that, unmodified. What
 * XDP floods is not passed, so nobody gets a frame twice.
 *
 * Within a bridge that looks at VLANs a frame travels with its tag, or without one when all who get it get it so.
 * xv_untag runs at the way out of every port and takes the tag off where the VLAN is the port's own: a device needs the
 * same program in every map entry, since the kernel runs that of the first frame of a batch for all of them.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bpf-progs/lib/bridge_fdb.bpf.h"
#include "bpf-progs/lib/bridge_maps.bpf.h"
#include "bpf-progs/lib/bridge_vlan.bpf.h"
#include "bpf-progs/lib/kernel.bpf.h"
#include "bpf-progs/lib/maps.bpf.h"
#include "bpf-progs/lib/stats.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static __always_inline bool xv_isolated(const struct xv_port *port)
{
	return port->flags & XV_PORT_ISOLATED;
}

/* Only the first buffer of a frame is seen at data … data_end. */
static __always_inline bool xv_has_fragments(struct xdp_md *ctx, const struct xv_passage *p)
{
	return p->bytes != ctx->data_end - ctx->data;
}

/* A broadcast's clones of a frame with fragments would share them unsafely (kernels before 6.12.117, and 6.18). */
static __always_inline __u32 xv_flood(struct xdp_md *ctx, const struct xv_passage *p)
{
	struct xv_group_key key = { .bridge = p->port->bridge, .vlan = p->vlan };
	struct xv_group *group = bpf_map_lookup_elem(&xv_groups, &key);
	__u32 place, tag;
	void *flood;

	if (!group || group->flags & XV_GROUP_STACK || xv_has_fragments(ctx, p))
		return XV_PASS_FLOOD;
	place = xv_isolated(p->port) ? group->open : group->all;
	tag = group->flags & XV_GROUP_TAGGED && !p->tagged;
	flood = bpf_map_lookup_elem(&xv_floods, &place);
	if (!flood || (tag && !xv_push_tag(ctx, p->vlan)))
		return XV_PASS_FLOOD;
	bpf_redirect_map(flood, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
	return 0;
}

static __always_inline bool xv_exceeds(struct xdp_md *ctx, const struct xv_passage *p, __u32 mtu)
{
	__u32 header = sizeof(struct ethhdr) + (p->tagged ? XV_TAG_BYTES : 0);

	return p->bytes > mtu + header || (!xv_redirects_buffers() && xv_has_fragments(ctx, p));
}

/* Redirects, then rewrites: a frame that has no target stays as it came. */
static __always_inline __u32 xv_deliver(struct xdp_md *ctx, const struct xv_passage *p, __u32 out,
					const struct xv_port *to)
{
	if (out == p->in)
		return XV_DROP_OWN_PORT;
	if (xv_isolated(p->port) && xv_isolated(to))
		return XV_DROP_ISOLATED;
	if (!(to->flags & XV_PORT_FAST))
		return XV_PASS_POLICY;
	if (xv_exceeds(ctx, p, to->mtu))
		return XV_PASS_TOO_BIG;
	if (bpf_redirect_map(&xv_ports, out, XDP_PASS) != XDP_REDIRECT)
		return XV_PASS_NO_TARGET;
	if (p->vlan != to->vlan && !p->tagged && !xv_push_tag(ctx, p->vlan))
		return XV_PASS_VLAN;
	xv_count_fast(out, XV_TO_PORT, p->bytes);
	return 0;
}

/* 0: redirected. Else why not: the frame is as it came. */
static __always_inline __u32 xv_switch(struct xdp_md *ctx, struct xv_passage *p)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct xv_port *to;
	__u32 reason, out;

	if ((void *)(eth + 1) > end || !xv_enters(ctx, p))
		return XV_PASS_UNKNOWN_PORT;
	reason = xv_check_source(p->port, eth->h_source);
	if (reason)
		return reason;
	if (!(p->port->flags & XV_PORT_FAST))
		return XV_PASS_POLICY;
	if (xv_is_reserved(eth->h_dest))
		return XV_PASS_RESERVED_MAC;
	reason = xv_find_vlan(p, eth, end);
	if (!reason)
		reason = xv_learn(p, eth->h_source);
	if (reason)
		return reason;
	to = eth->h_dest[0] & 1 ? NULL : xv_fdb_find(p, eth->h_dest, &out);
	return to ? xv_deliver(ctx, p, out, to) : xv_flood(ctx, p);
}

SEC("xdp.frags")
int xv_bridge(struct xdp_md *ctx)
{
	struct xv_passage p = {};
	__u32 reason = xv_switch(ctx, &p);

	if (!reason) {
		xv_count_fast(p.in, XV_FROM_PORT, p.bytes);
		return XDP_REDIRECT;
	}
	xv_count_reason(p.in, reason);
	return reason < XV_DROP_SPOOFED ? XDP_PASS : XDP_DROP;
}

/* At the way out: the tag of the port's own VLAN is for the bridge alone. */
SEC("xdp.frags/devmap")
int xv_untag(struct xdp_md *ctx)
{
	struct xv_tagged *frame = (void *)(long)ctx->data;
	__u32 ifindex = ctx->egress_ifindex;
	struct xv_port *port;
	__u32 *id;

	if ((void *)(frame + 1) > (void *)(long)ctx->data_end || frame->protocol != bpf_htons(ETH_P_8021Q))
		return XDP_PASS;
	id = bpf_map_lookup_elem(&xv_port_of, &ifindex);
	port = id ? bpf_map_lookup_elem(&xv_port_info, id) : NULL;
	if (port && xv_vlan_of(frame) == port->vlan && !xv_pop_tag(ctx))
		return XDP_DROP;
	return XDP_PASS;
}
