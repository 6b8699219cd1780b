// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a container's program may try: each datagram to a port of its own comes back by XDP_TX as a frame that the
 * container must not, or cannot, send.
 *
 *    1001 from another address     1002 from another MAC        1003 to another MAC        1004 with a VLAN tag
 *    1005 longer than the MTU      1006 cut to an Ethernet header                          1007 to everybody
 *    1008 from a multicast MAC     1009 bpf_redirect to the interface hostile_target       1010 as it came
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "e2e/owner/bpf/frame.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} hostile_target SEC(".maps");

/* The header's sum is made right again; the datagram's is not: the source check comes first. */
static __always_inline void forge_source(struct frame *f)
{
	__u32 sum;

	if (f->ipv6) {
		f->ip6->saddr.s6_addr[15] ^= 0x80;
		return;
	}
	sum = (__u16)~f->ip->check + (__u16) ~(__u16)(f->ip->saddr >> 16);
	f->ip->saddr ^= bpf_htonl(0x80);
	sum += (__u16)(f->ip->saddr >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	f->ip->check = ~((sum & 0xffff) + (sum >> 16));
}

static __always_inline int push_tag(struct xdp_md *ctx)
{
	struct {
		__u8 macs[2 * ETH_ALEN];
		__be16 type, tag;
	} *tagged;
	__u8 macs[2 * ETH_ALEN];

	if (bpf_xdp_load_bytes(ctx, 0, macs, sizeof(macs)) || bpf_xdp_adjust_head(ctx, -4))
		return XDP_DROP;
	tagged = (void *)(long)ctx->data;
	if ((void *)(tagged + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	__builtin_memcpy(tagged->macs, macs, sizeof(macs));
	tagged->type = bpf_htons(ETH_P_8021Q);
	tagged->tag = bpf_htons(100);
	return XDP_TX;
}

/* What a datagram to one of the ports becomes. */
static __always_inline int misbehave(struct xdp_md *ctx, struct frame *f, __u16 port)
{
	__u32 key = 0;
	__u32 *target = bpf_map_lookup_elem(&hostile_target, &key);

	if (port == 1009)
		return bpf_redirect(target ? *target : 0, 0);
	if (port == 1010) /* as it came */
		return XDP_TX;
	frame_turn(f);
	switch (port) {
	case 1001:
		forge_source(f);
		return XDP_TX;
	case 1002:
		f->eth->h_source[5] ^= 0x55;
		return XDP_TX;
	case 1003:
		f->eth->h_dest[5] ^= 0x55;
		return XDP_TX;
	case 1004:
		return push_tag(ctx);
	case 1005:
		return bpf_xdp_adjust_tail(ctx, 2500) ? XDP_DROP : XDP_TX;
	case 1006:
		return bpf_xdp_adjust_tail(ctx, ETH_HLEN - (int)(ctx->data_end - ctx->data)) ? XDP_DROP : XDP_TX;
	case 1007:
		__builtin_memset(f->eth->h_dest, 0xff, ETH_ALEN);
		return XDP_TX;
	case 1008:
		f->eth->h_source[0] |= 1;
		return XDP_TX;
	default:
		return XDP_DROP;
	}
}

SEC("xdp")
int hostile(struct xdp_md *ctx)
{
	struct frame f;
	__u16 port;

	frame_parse(ctx, &f);
	if (!f.ports || f.protocol != IPPROTO_UDP)
		return XDP_PASS;
	port = bpf_ntohs(f.ports[1]);
	return port > 1000 && port <= 1010 ? misbehave(ctx, &f, port) : XDP_PASS;
}
