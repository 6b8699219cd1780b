/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames that a function sends on, and frames that the stack sends to a protected container. */
#ifndef XVETH_TRANSIT_BPF_H
#define XVETH_TRANSIT_BPF_H

#include "bpf-progs/lib/chain.bpf.h"
#include "bpf-progs/lib/parse.bpf.h"
#include "bpf-progs/lib/types.bpf.h"

/* As much of a packet as says where it goes. */
struct xv_headers {
	__u8 pad[2]; /* so that nothing lies between the headers */
	struct ethhdr eth;
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	};
	__u8 type; /* behind an IPv6 header: of an ICMPv6 message */
};

/* 0: no IP packet. */
static __always_inline bool xv_destination(const struct xv_headers *h, struct xv_addr *dst)
{
	if (h->eth.h_proto == bpf_htons(ETH_P_IP))
		xv_map_ipv4(dst, h->v4.daddr);
	else if (h->eth.h_proto == bpf_htons(ETH_P_IPV6))
		xv_copy_ipv6(dst, &h->v6.daddr);
	else
		return false;
	return true;
}

static __always_inline void xv_source(const struct xv_headers *h, struct xv_addr *src)
{
	if (h->eth.h_proto == bpf_htons(ETH_P_IP))
		xv_map_ipv4(src, h->v4.saddr);
	else
		xv_copy_ipv6(src, &h->v6.saddr);
}

static __always_inline struct xv_port *xv_port_at(__u32 ifindex, __u32 *id)
{
	__u32 *found = bpf_map_lookup_elem(&xv_port_of, &ifindex);

	if (!found)
		return NULL;
	*id = *found;
	return bpf_map_lookup_elem(&xv_port_info, found);
}

static __always_inline int xv_transit_drop(__u32 in_id, __u32 own, __u32 reason)
{
	xv_count_hop(own, XV_HOP_DROPPED);
	xv_count_reason(in_id, reason);
	return XDP_DROP;
}

/*
 * A frame that a function sends on to a container that its chain protects: to the positions above, or dropped. Its source
 * is nobody's business: the function speaks for others. Negative: it is any other frame of the function's. What its
 * stack sends from its own address is, and begins a flow as any container's does.
 */
__noinline int xv_transit(struct xdp_md *ctx)
{
	struct xv_headers h = {};
	struct xv_macs *macs;
	struct xv_port *in, *to;
	struct xv_addr addr;
	__u32 in_id, *protected, id, next, own, chain, length = bpf_xdp_get_buff_len(ctx);

	if (bpf_xdp_load_bytes(ctx, 0, &h.eth, sizeof(h.eth) + sizeof(h.v6)) &&
	    bpf_xdp_load_bytes(ctx, 0, &h.eth, sizeof(h.eth) + sizeof(h.v4)))
		return -1;
	if (!xv_destination(&h, &addr))
		return -1;
	protected = bpf_map_lookup_elem(&xv_endpoints, &addr);
	in = protected ? xv_port_at(ctx->ingress_ifindex, &in_id) : NULL;
	to = protected ? bpf_map_lookup_elem(&xv_port_info, protected) : NULL;
	if (!in || !to || !(to->flags & XV_PORT_PROTECTED) || !in->position || in->chain != to->chain)
		return -1;
	if (xv_same_mac(h.eth.h_dest, in->host_mac)) {
		xv_source(&h, &addr);
		if (xv_endpoint_port(&addr) == in_id)
			return -1;
	}
	id = *protected;
	chain = in->chain;
	next = xv_chain_next(chain, in->position);
	own = xv_own_hop(chain, next);
	if (xv_next_drop(next))
		return xv_transit_drop(in_id, own, xv_next_drop(next));
	if (XV_NEXT_PORT(next)) {
		id = XV_NEXT_PORT(next);
		to = bpf_map_lookup_elem(&xv_port_info, &id);
	}
	macs = (void *)(long)ctx->data;
	if (!to || !(to->flags & XV_PORT_TARGET) || (void *)(macs + 1) > (void *)(long)ctx->data_end)
		return xv_transit_drop(in_id, own, XV_DROP_CHAIN_TARGET);
	if (length > to->mtu + sizeof(struct ethhdr))
		return xv_transit_drop(in_id, own, XV_DROP_CHAIN_TOO_BIG);
	if (bpf_redirect_map(&xv_ports, id, XDP_DROP) != XDP_REDIRECT)
		return xv_transit_drop(in_id, own, XV_DROP_CHAIN_TARGET);
	__builtin_memcpy(macs->dst, to->mac, sizeof(macs->dst));
	__builtin_memcpy(macs->src, to->host_mac, sizeof(macs->src));
	xv_count_hop(own, XV_HOP_OUT);
	xv_count_hop(xv_next_hop(chain, next), XV_HOP_IN);
	xv_count_fast(in_id, XV_FROM_PORT, length);
	xv_count_fast(id, XV_TO_PORT, length);
	return XDP_REDIRECT;
}

#define XV_TC_NEXT -1 /* TC_ACT_UNSPEC, TCX_NEXT: whoever else is here has his say */
#define XV_TC_DROP 2  /* TC_ACT_SHOT, TCX_DROP */
#define XV_ND_FIRST 133
#define XV_ND_LAST 137

/* Without these there is no IP between the node and the container. */
static __always_inline bool xv_is_of_the_link(const struct xv_headers *h)
{
	if (h->eth.h_proto == bpf_htons(ETH_P_ARP))
		return true;
	/* No router has touched it: one takes from the hop limit. */
	return h->eth.h_proto == bpf_htons(ETH_P_IPV6) && h->v6.nexthdr == IPPROTO_ICMPV6 && h->v6.hop_limit == 255 &&
	       h->type >= XV_ND_FIRST && h->type <= XV_ND_LAST;
}

static __always_inline int xv_guard_drop(__u32 id, __u32 reason)
{
	xv_count_reason(id, reason);
	return XV_TC_DROP;
}

/* Of what the stack forwards. The kernel keeps where a packet came in, and no container can write that. */
static __always_inline __u32 xv_begins_at(struct __sk_buff *skb, __u32 chain)
{
	__u32 id;
	struct xv_port *in = xv_port_at(skb->ingress_ifindex, &id);

	return in ? xv_begins_behind(in, chain) : 0;
}

/*
 * What the stack sends out at a protected container's host end. Before the port is published, and after it is withdrawn,
 * nothing goes there but what is of the link.
 */
static __always_inline int xv_guard(struct __sk_buff *skb)
{
	struct xv_headers h = {};
	struct xv_macs macs;
	struct xv_port *port, *to;
	struct xv_addr dst;
	__u32 id = 0, *owner, next, function, chain;

	port = xv_port_at(skb->ifindex, &id);
	if (bpf_skb_load_bytes(skb, 0, &h.eth, sizeof(h.eth) + sizeof(h.v6) + 1) &&
	    bpf_skb_load_bytes(skb, 0, &h.eth, sizeof(h.eth) + sizeof(h.v4)))
		bpf_skb_load_bytes(skb, 0, &h.eth, sizeof(h.eth));
	if (xv_is_of_the_link(&h))
		return XV_TC_NEXT;
	if (!port || !(port->flags & XV_PORT_PROTECTED))
		return xv_guard_drop(id, XV_DROP_CHAIN_STACK);
	owner = !skb->vlan_present && xv_destination(&h, &dst) ? bpf_map_lookup_elem(&xv_endpoints, &dst) : NULL;
	if (!owner || *owner != id)
		return port->flags & XV_PORT_STACK_PATH ? XV_TC_NEXT : xv_guard_drop(id, XV_DROP_CHAIN_STACK);
	chain = port->chain;
	next = xv_chain_next(chain, xv_begins_at(skb, chain));
	if (xv_next_drop(next))
		return xv_guard_drop(id, xv_next_drop(next));
	function = XV_NEXT_PORT(next);
	if (!function)
		return XV_TC_NEXT;
	to = bpf_map_lookup_elem(&xv_port_info, &function);
	if (!to)
		return xv_guard_drop(id, XV_DROP_CHAIN_GONE);
	if (!skb->gso_size && skb->len > to->mtu + sizeof(struct ethhdr))
		return xv_guard_drop(id, XV_DROP_CHAIN_TOO_BIG);
	__builtin_memcpy(macs.dst, to->mac, sizeof(macs.dst));
	__builtin_memcpy(macs.src, to->host_mac, sizeof(macs.src));
	if (bpf_skb_store_bytes(skb, 0, &macs, sizeof(macs), 0))
		return xv_guard_drop(id, XV_DROP_CHAIN_TARGET);
	xv_count_hop(xv_next_hop(chain, next), XV_HOP_IN);
	return bpf_redirect(to->ifindex, 0);
}

#endif
