/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a frame goes, and sending it there. */
#ifndef XVETH_FORWARD_BPF_H
#define XVETH_FORWARD_BPF_H

#include "bpf-progs/lib/chain.bpf.h"
#include "bpf-progs/lib/flow.bpf.h"
#include "bpf-progs/lib/kernel.bpf.h"
#include "bpf-progs/lib/maps.bpf.h"
#include "bpf-progs/lib/parse.bpf.h"
#include "bpf-progs/lib/stats.bpf.h"

#define XV_AF_INET 2
#define XV_AF_INET6 10

/* Also counts what trails the packet: the device refuses frames longer than its MTU, Ethernet header and VLAN tag. */
static __always_inline bool xv_too_big(struct xdp_md *ctx, const struct xv_frame *f, __u32 mtu)
{
	__u32 first_buffer = ctx->data_end - ctx->data;

	if (!xv_redirects_buffers() && f->l3_len + sizeof(struct ethhdr) > first_buffer)
		return true;
	return f->l3_len > mtu || first_buffer > mtu + sizeof(struct ethhdr) + 4;
}

static __always_inline void xv_decrement_ttl(struct iphdr *ip)
{
	__u32 check = ip->check + bpf_htons(0x0100);

	ip->check = check + (check >= 0xffff);
	ip->ttl--;
}

/*
 * Redirects, then rewrites: a frame that has no target stays as it came. XDP_PASS: there is no entry in xv_ports (the
 * device is gone or does not take frames).
 */
static __always_inline int xv_forward(struct xdp_md *ctx, const struct xv_frame *f, __u32 in_port,
				      const struct xv_route *route)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	__u32 bytes = sizeof(*eth) + f->l3_len;

	if ((void *)(eth + 1) + sizeof(struct iphdr) > end)
		return XDP_PASS;
	if (bpf_redirect_map(&xv_ports, route->port, XDP_PASS) != XDP_REDIRECT)
		return XDP_PASS;
	__builtin_memcpy(eth, &route->macs, sizeof(route->macs));
	if (f->family == 4)
		xv_decrement_ttl((void *)(eth + 1));
	else
		((struct ipv6hdr *)(eth + 1))->hop_limit--;
	xv_count_fast(route->port, XV_TO_PORT, bytes);
	xv_count_fast(in_port, XV_FROM_PORT, bytes);
	xv_count_hop(route->hop, XV_HOP_IN);
	return XDP_REDIRECT;
}

/* Fills *fib for a packet like this one from the device `ifindex`. */
static __always_inline void xv_fib_begin(struct bpf_fib_lookup *fib, const struct xv_frame *f, __u32 ifindex)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->ifindex = ifindex;
	fib->l4_protocol = f->t.proto;
	fib->tot_len = f->l3_len;
	if (f->family == 4) {
		fib->family = XV_AF_INET;
		fib->tos = f->class;
	} else {
		fib->family = XV_AF_INET6;
		fib->flowinfo = f->class;
	}
}

static __always_inline void xv_fib_addresses(struct bpf_fib_lookup *fib, __u32 family, const struct xv_addr *src,
					     const struct xv_addr *dst)
{
	if (family == 4) {
		fib->ipv4_src = xv_ipv4_of(src);
		fib->ipv4_dst = xv_ipv4_of(dst);
	} else {
		__builtin_memcpy(fib->ipv6_src, src, sizeof(fib->ipv6_src));
		__builtin_memcpy(fib->ipv6_dst, dst, sizeof(fib->ipv6_dst));
	}
}

/* The NIC port of a device that FIB named, if it may carry fast frames; else *reason says why not. */
static __always_inline struct xv_port *xv_egress_nic(__u32 ifindex, __u32 *id, __u32 *reason)
{
	__u32 *found = bpf_map_lookup_elem(&xv_port_of, &ifindex);
	struct xv_port *nic = found ? bpf_map_lookup_elem(&xv_port_info, found) : NULL;

	*reason = XV_PASS_NO_TARGET;
	if (!nic || (nic->flags & (XV_PORT_NIC | XV_PORT_TARGET)) != (XV_PORT_NIC | XV_PORT_TARGET))
		return NULL;
	*reason = XV_PASS_POLICY;
	if (!(nic->flags & XV_PORT_FAST))
		return NULL;
	*reason = 0;
	*id = *found;
	return nic;
}

/* Out of the node, as the kernel's routing says. 0, or why the stack has to do it. */
static __noinline int xv_route_beyond(struct xdp_md *ctx, const struct xv_frame *f, struct xv_route *route)
{
	struct bpf_fib_lookup fib;
	struct xv_port *nic;
	__u32 reason;
	long found;

	xv_fib_begin(&fib, f, ctx->ingress_ifindex);
	fib.sport = f->t.sport;
	fib.dport = f->t.dport;
	xv_fib_addresses(&fib, f->family, &f->t.src, &f->t.dst);
	found = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	if (found == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return XV_PASS_TOO_BIG;
	if (found != BPF_FIB_LKUP_RET_SUCCESS)
		return XV_PASS_NEIGHBOUR;
	nic = xv_egress_nic(fib.ifindex, &route->port, &reason);
	if (!nic)
		return reason;
	route->mtu = nic->mtu;
	__builtin_memcpy(route->macs.dst, fib.dmac, sizeof(route->macs.dst));
	__builtin_memcpy(route->macs.src, fib.smac, sizeof(route->macs.src));
	return 0;
}

/*
 * Whether the replies to this frame from the wire, sent by the container behind `ifindex`, could leave by XDP through
 * the device that it came in by (another one: rp_filter may have an opinion). FIB takes a STALE neighbour and never
 * probes it, so without xvethd only a neighbour whose MAC this very frame confirms counts as resolved.
 */
static __noinline int xv_has_way_back(struct xdp_md *ctx, const struct xv_frame *f, __u32 ifindex)
{
	struct xv_node *node = xv_this_node();
	struct bpf_fib_lookup fib;
	__u32 id, reason;

	xv_fib_begin(&fib, f, ifindex);
	fib.sport = f->t.dport;
	fib.dport = f->t.sport;
	xv_fib_addresses(&fib, f->family, &f->t.dst, &f->t.src);
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	if (fib.ifindex != ctx->ingress_ifindex || !xv_egress_nic(fib.ifindex, &id, &reason))
		return 0;
	if (node && node->flags & XV_NODE_AGENT)
		return 1;
	return xv_same_mac(fib.dmac, f->macs.src);
}

#endif
