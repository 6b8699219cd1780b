/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The long way: judging a frame about which nothing is cached. In order: does it come from where it says, is it
 * addressed to this port, whose flow is it, where would it go, and may that flow be fast in both directions?
 */
#ifndef XVETH_JUDGE_BPF_H
#define XVETH_JUDGE_BPF_H

#include "bpf-progs/lib/cache.bpf.h"
#include "bpf-progs/lib/conntrack.bpf.h"
#include "bpf-progs/lib/flow.bpf.h"
#include "bpf-progs/lib/forward.bpf.h"
#include "bpf-progs/lib/stats.bpf.h"

#define XV_LEARN_SHIFT 30

struct xv_case {
	struct xv_port *in;
	__u32 in_id;
	__u32 generation;
	__u32 nic;
	struct xv_ends ends;
	struct xv_flow_of of;
	struct xv_route route;
};

static __always_inline int xv_pass(const struct xv_case *c, __u32 reason)
{
	xv_count_reason(c->in_id, reason);
	return XDP_PASS;
}

/* For verdicts that hold for every frame like this one during the next second. */
static __always_inline int xv_pass_and_cache(struct xdp_md *ctx, const struct xv_frame *f, const struct xv_case *c,
					     __u32 reason)
{
	if (!f->icmp_error)
		xv_cache_put(ctx, f, &c->of, c->generation, c->in_id, NULL);
	return xv_pass(c, reason);
}

static __always_inline bool xv_find_ingress(struct xdp_md *ctx, struct xv_case *c)
{
	__u32 ifindex = ctx->ingress_ifindex;
	struct xv_node *node = xv_this_node();
	__u32 *id = bpf_map_lookup_elem(&xv_port_of, &ifindex);

	if (!id || !node)
		return false;
	c->generation = *(volatile __u32 *)&node->generation;
	c->in_id = *id;
	c->in = bpf_map_lookup_elem(&xv_port_info, id);
	return c->in;
}

/* ND, MLD, DHCP: sources that are nobody's, which the spoof check lets through and which are never fast. */
static __always_inline bool xv_is_local_scope(const struct xv_frame *f)
{
	const __u8 *a = f->t.src.bytes;

	if (f->family == 4)
		return (a[12] == 169 && a[13] == 254) || xv_ipv4_of(&f->t.src) == 0;
	return (a[0] == 0xfe && (a[1] & 0xc0) == 0x80) || (!f->t.src.words[0] && !f->t.src.words[1]);
}

static __noinline int xv_prefix_matches(void *trie, __u32 port, const struct xv_addr *addr)
{
	struct xv_port_prefix key = { .prefixlen = 160, .port = port };

	__builtin_memcpy(key.addr, addr, sizeof(key.addr));
	return bpf_map_lookup_elem(trie, &key) != NULL;
}

static __always_inline bool xv_source_is_allowed(const struct xv_frame *f, const struct xv_case *c)
{
	if (!(c->in->flags & XV_PORT_SPOOFCHECK) || c->ends.src == c->in_id || xv_is_local_scope(f))
		return true;
	return c->in->flags & XV_PORT_EXTRA_SOURCES && xv_prefix_matches(&xv_sources, c->in_id, &f->t.src);
}

/*
 * The container's MAC may change at any time (CNI plugin "tuning"); its own frames tell. No more than about once a
 * second, since each change makes the whole node ask its verdicts anew.
 */
static __always_inline void xv_learn_mac(const struct xv_frame *f, struct xv_port *port)
{
	struct xv_node *node = xv_this_node();
	const __u8 *mac = f->macs.src;
	const __u16 nobody[3] = {};
	__u32 now;

	if (xv_same_mac(port->mac, mac) || mac[0] & 1 || xv_same_mac(mac, nobody) || !node)
		return;
	now = bpf_ktime_get_coarse_ns() >> XV_LEARN_SHIFT;
	if (now == port->learned)
		return;
	port->learned = now;
	__builtin_memcpy(port->mac, mac, sizeof(port->mac));
	__sync_fetch_and_add(&node->generation, 1);
}

/* Who owns the two addresses. A flow can be fast only between a container and the side that the frame is on. */
static __always_inline bool xv_find_ends(const struct xv_frame *f, struct xv_case *c)
{
	c->ends.src = xv_endpoint_port(&f->t.src);
	c->ends.src_epoch = xv_port_epoch(c->ends.src);
	c->ends.dst_epoch = xv_port_epoch(c->ends.dst);
	return c->nic ? !c->ends.src : c->ends.src == c->in_id;
}

/* The way to a protected container begins at a function. */
static __always_inline int xv_route_chain(const struct xv_case *c, const struct xv_port *port, struct xv_route *route)
{
	__u32 next = xv_chain_next(port->chain, xv_begins_behind(c->in, port->chain)), id = XV_NEXT_PORT(next);
	struct xv_port *to;

	if (xv_next_drop(next) || !id)
		return xv_next_drop(next);
	to = bpf_map_lookup_elem(&xv_port_info, &id);
	if (!to)
		return XV_DROP_CHAIN_GONE;
	route->port = id;
	route->hop = xv_next_hop(port->chain, next);
	if (to->mtu < route->mtu)
		route->mtu = to->mtu;
	__builtin_memcpy(route->macs.dst, to->mac, sizeof(to->mac));
	__builtin_memcpy(route->macs.src, to->host_mac, sizeof(to->host_mac));
	return 0;
}

static __always_inline int xv_route_local(const struct xv_case *c, struct xv_route *route)
{
	__u32 id = c->ends.dst;
	struct xv_port *port = bpf_map_lookup_elem(&xv_port_info, &id);

	if (!port || id == c->in_id || !(port->flags & XV_PORT_TARGET))
		return XV_PASS_NO_TARGET;
	if (!(port->flags & XV_PORT_FAST))
		return XV_PASS_POLICY;
	route->port = id;
	route->mtu = port->mtu;
	__builtin_memcpy(route->macs.dst, port->mac, sizeof(port->mac));
	__builtin_memcpy(route->macs.src, port->host_mac, sizeof(port->host_mac));
	return port->flags & XV_PORT_PROTECTED ? xv_route_chain(c, port, route) : 0;
}

/* A container's flow to beyond the node may begin on the fast path only where no translation is wanted. */
static __always_inline bool xv_may_begin_beyond(const struct xv_frame *f, const struct xv_case *c)
{
	return c->in->flags & XV_PORT_FAST_TO && xv_prefix_matches(&xv_fast_to, c->in_id, &f->t.dst);
}

/* Fills c->route. 0, or what only the stack can do. */
static __always_inline int xv_find_route(struct xdp_md *ctx, const struct xv_frame *f, struct xv_case *c)
{
	int reason;

	if (!c->ends.dst && (c->nic || (!c->of.live && !xv_may_begin_beyond(f, c))))
		return XV_PASS_UNKNOWN_DST;
	if (!(c->in->flags & XV_PORT_FAST))
		return XV_PASS_POLICY;
	reason = c->ends.dst ? xv_route_local(c, &c->route) : xv_route_beyond(ctx, f, &c->route);
	if (!reason && xv_too_big(ctx, f, c->route.mtu))
		return XV_PASS_TOO_BIG;
	return reason;
}

/*
 * From this frame on the flow is the stack's, both ways and for as long as it lives. Conntrack hears of it first: a frame
 * that another CPU passed in between would be the beginning of a new flow to it.
 */
static __always_inline int xv_fall(struct xdp_md *ctx, const struct xv_frame *f, struct xv_case *c, __u32 reason)
{
	xv_ct_introduce(ctx, f);
	c->of.live->verdict = XV_FLOW_STACK;
	xv_flow_announce(&c->of);
	return xv_pass(c, reason);
}

static __always_inline int xv_send(struct xdp_md *ctx, const struct xv_frame *f, struct xv_case *c, bool fresh)
{
	if (xv_forward(ctx, f, c->in_id, &c->route) == XDP_REDIRECT) {
		if (!f->icmp_error)
			xv_cache_put(ctx, f, &c->of, c->generation, c->in_id, &c->route);
		return XDP_REDIRECT;
	}
	if (!fresh)
		return xv_fall(ctx, f, c, XV_PASS_NO_TARGET);
	/* Conntrack sees this flow from its first frame: nothing to introduce. */
	c->of.live->verdict = XV_FLOW_STACK;
	return xv_pass(c, XV_PASS_NO_TARGET);
}

/* A frame of a flow that is fast: it goes on, or the flow falls. */
static __always_inline int xv_carry(struct xdp_md *ctx, const struct xv_frame *f, struct xv_case *c, __u32 obstacle)
{
	if (obstacle)
		return xv_fall(ctx, f, c, obstacle);
	if (xv_ct_knows(ctx, f)) {
		c->of.live->verdict = XV_FLOW_STACK;
		xv_flow_announce(&c->of);
		return xv_pass(c, XV_PASS_CONNTRACK);
	}
	if (!f->icmp_error)
		xv_flow_touch(&c->of, f);
	return xv_send(ctx, f, c, false);
}

static __always_inline bool xv_is_pure_syn(const struct xv_frame *f)
{
	return f->t.proto == IPPROTO_TCP && (f->tcp_flags & (XV_TCP_EDGES | XV_TCP_ACK)) == XV_TCP_SYN;
}

static __always_inline bool xv_can_return(struct xdp_md *ctx, const struct xv_frame *f, const struct xv_case *c)
{
	__u32 id = c->ends.dst;
	struct xv_port *port;

	if (!c->nic)
		return c->in->flags & XV_PORT_TARGET;
	port = bpf_map_lookup_elem(&xv_port_info, &id);
	return port && c->in->flags & XV_PORT_TARGET && xv_has_way_back(ctx, f, port->ifindex);
}

/*
 * Why a flow that nobody knows yet cannot begin here; 0 = it can. Without conntrack nobody can tell whether a datagram
 * answers a translated one, so then only TCP between containers, which begins with a SYN, is safe.
 */
static __always_inline __u32 xv_cannot_begin(struct xdp_md *ctx, const struct xv_frame *f, const struct xv_case *c)
{
	if (!xv_has_conntrack && (f->t.proto != IPPROTO_TCP || !c->ends.src || !c->ends.dst))
		return XV_PASS_NO_CONNTRACK;
	if (xv_ct_knows(ctx, f))
		return XV_PASS_CONNTRACK;
	if (f->t.proto == IPPROTO_TCP && !xv_is_pure_syn(f))
		return XV_PASS_MID_FLOW;
	if (f->t.proto == IPPROTO_UDP && xv_stack_has_begun(&c->of))
		return XV_PASS_FLOW_STACK;
	return xv_can_return(ctx, f, c) ? 0 : XV_PASS_NO_WAY_BACK;
}

static __always_inline int xv_begin(struct xdp_md *ctx, const struct xv_frame *f, struct xv_case *c, __u32 obstacle)
{
	if (f->icmp_error)
		return xv_pass(c, XV_PASS_PROTOCOL);
	if (obstacle == XV_PASS_TOO_BIG)
		return xv_pass(c, obstacle);
	if (!obstacle)
		obstacle = xv_cannot_begin(ctx, f, c);
	if (!obstacle && !xv_flow_create(&c->of))
		obstacle = XV_PASS_TABLE_FULL;
	if (!obstacle)
		return xv_send(ctx, f, c, true);
	if (f->t.proto == IPPROTO_UDP && obstacle != XV_PASS_CONNTRACK)
		xv_stack_begins(&c->of);
	return xv_pass_and_cache(ctx, f, c, obstacle);
}

/* The frame has ports and its ends are containers, or one of them is. */
static __always_inline int xv_judge_flow(struct xdp_md *ctx, struct xv_frame *f, struct xv_case *c)
{
	__u32 obstacle = f->obstacle;

	xv_flow_find(&f->t, &c->ends, &c->of);
	if (c->of.live && c->of.live->closing && xv_is_pure_syn(f))
		c->of.live = NULL; /* the ports are used again */
	if (c->of.live && c->of.live->verdict == XV_FLOW_STACK) {
		if (!f->icmp_error)
			xv_flow_touch(&c->of, f);
		return xv_pass_and_cache(ctx, f, c, XV_PASS_FLOW_STACK);
	}
	if (!obstacle)
		obstacle = xv_find_route(ctx, f, c);
	if (obstacle >= XV_DROP_SPOOFED) {
		xv_count_reason(c->in_id, obstacle);
		return XDP_DROP;
	}
	return c->of.live ? xv_carry(ctx, f, c, obstacle) : xv_begin(ctx, f, c, obstacle);
}

/* 0: worth judging its flow. Else why it passes, or XV_DROP_SPOOFED. */
static __always_inline __u32 xv_admit(struct xdp_md *ctx, struct xv_frame *f, struct xv_case *c)
{
	if (!c->nic) {
		c->ends.src = xv_endpoint_port(&f->t.src);
		if (f->family && !xv_source_is_allowed(f, c))
			return XV_DROP_SPOOFED;
		if (c->ends.src == c->in_id)
			xv_learn_mac(f, c->in);
	}
	if (!f->family)
		return f->obstacle;
	c->ends.dst = xv_endpoint_port(&f->t.dst);
	if (!xv_same_mac(f->macs.dst, c->in->host_mac))
		return XV_PASS_OTHER_MAC;
	if (!c->nic && xv_is_local_scope(f))
		return XV_PASS_LINK_LOCAL;
	if (f->obstacle == XV_PASS_PROTOCOL)
		xv_follow_quoted_flow(ctx, f);
	if (!f->has_ports)
		return f->obstacle;
	if (c->nic && !c->ends.dst)
		return XV_PASS_UNKNOWN_DST;
	return xv_find_ends(f, c) ? 0 : XV_PASS_NO_WAY_BACK;
}

/* A global function as well. It parses again what its caller has parsed: the hot path keeps that in registers. */
__noinline int xv_judge(struct xdp_md *ctx, __u32 nic)
{
	struct xv_case c = { .nic = nic };
	struct xv_frame f = {};
	__u32 reason;

	if (!xv_find_ingress(ctx, &c))
		return xv_pass(&c, XV_PASS_UNKNOWN_PORT);
	xv_parse(ctx, &f);
	reason = xv_admit(ctx, &f, &c);
	if (reason == XV_DROP_SPOOFED) {
		xv_count_reason(c.in_id, reason);
		return XDP_DROP;
	}
	if (reason)
		return xv_pass(&c, reason);
	return xv_judge_flow(ctx, &f, &c);
}

#endif
