/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which VLAN a frame is in, and its tag. */
#ifndef XVETH_BRIDGE_VLAN_BPF_H
#define XVETH_BRIDGE_VLAN_BPF_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bpf-progs/lib/bridge_maps.bpf.h"
#include "bpf-progs/lib/bridge_types.bpf.h"

#define XV_VLAN_ID 0x0fff

static __always_inline __u32 xv_vlan_of(const struct xv_tagged *frame)
{
	return bpf_ntohs(frame->tci) & XV_VLAN_ID;
}

static __always_inline bool xv_takes_tag(__u32 port, __u32 vlan)
{
	struct xv_vlan_set *set = bpf_map_lookup_elem(&xv_bridge_vlans, &port);

	return set && set->words[vlan / 64 & (XV_MAX_VLANS / 64 - 1)] >> (vlan & 63) & 1;
}

/* Fills p->vlan and p->tagged. 0, or why the frame goes no further here. 802.1ad tags are payload, as to the kernel. */
static __always_inline __u32 xv_find_vlan(struct xv_passage *p, const struct ethhdr *eth, void *end)
{
	const struct xv_tagged *frame = (const void *)eth;

	if (!(p->bridge->flags & XV_BRIDGE_VLANS))
		return 0;
	if (eth->h_proto != bpf_htons(ETH_P_8021Q)) {
		p->vlan = p->port->vlan;
		return p->vlan ? 0 : XV_DROP_VLAN;
	}
	if ((void *)(frame + 1) > end)
		return XV_PASS_MALFORMED;
	p->vlan = xv_vlan_of(frame);
	p->tagged = 1;
	if (!p->vlan)
		return XV_PASS_VLAN; /* a priority without a VLAN: the tag would have to be written anew */
	return p->vlan == p->port->vlan || xv_takes_tag(p->in, p->vlan) ? 0 : XV_DROP_VLAN;
}

static __always_inline bool xv_push_tag(struct xdp_md *ctx, __u32 vlan)
{
	struct xv_tagged *frame;

	if (bpf_xdp_adjust_head(ctx, -XV_TAG_BYTES))
		return false;
	frame = (void *)(long)ctx->data;
	if ((void *)(frame + 1) > (void *)(long)ctx->data_end)
		return false;
	__builtin_memmove(frame, (void *)frame + XV_TAG_BYTES, sizeof(frame->macs));
	frame->protocol = bpf_htons(ETH_P_8021Q);
	frame->tci = bpf_htons(vlan);
	return true;
}

static __always_inline bool xv_pop_tag(struct xdp_md *ctx)
{
	struct xv_tagged *frame = (void *)(long)ctx->data;

	if ((void *)(frame + 1) > (void *)(long)ctx->data_end)
		return false;
	__builtin_memmove((void *)frame + XV_TAG_BYTES, frame, sizeof(frame->macs));
	return !bpf_xdp_adjust_head(ctx, XV_TAG_BYTES);
}

#endif
