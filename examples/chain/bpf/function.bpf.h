/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What both functions share: parsing, counters, and the verdicts of a chain. */
#ifndef XVETH_EXAMPLE_FUNCTION_BPF_H
#define XVETH_EXAMPLE_FUNCTION_BPF_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#define NEXT_HOP XDP_TX /* back to the host end: xveth sends it to the next function, or to the container */
#define KEEP XDP_PASS   /* to this container's own stack */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2); /* sent on, dropped */
	__type(key, __u32);
	__type(value, __u64);
} frames SEC(".maps");

struct packet {
	struct in6_addr source; /* IPv4 as ::ffff:a.b.c.d */
	__u8 protocol;
	void *l4;
};

static __always_inline int counted(int verdict)
{
	__u32 dropped = verdict == XDP_DROP;
	__u64 *counter = bpf_map_lookup_elem(&frames, &dropped);

	if (counter)
		__sync_fetch_and_add(counter, 1);
	return verdict;
}

/* False: ARP and whatever else is no IP, and multicast, which are this container's own. */
static __always_inline bool parse(struct xdp_md *ctx, struct packet *p)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(eth + 1);
	struct ipv6hdr *ip6 = (void *)(eth + 1);

	__builtin_memset(p, 0, sizeof(*p));
	if ((void *)(ip + 1) > end || eth->h_dest[0] & 1)
		return false;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		p->source.s6_addr32[2] = bpf_htonl(0xffff);
		p->source.s6_addr32[3] = ip->saddr;
		p->protocol = ip->protocol;
		if (ip->ihl == 5 && !(ip->frag_off & bpf_htons(0x1fff)))
			p->l4 = ip + 1;
		return true;
	}
	if (eth->h_proto != bpf_htons(ETH_P_IPV6) || (void *)(ip6 + 1) > end)
		return false;
	p->source = ip6->saddr;
	p->protocol = ip6->nexthdr;
	p->l4 = ip6 + 1;
	return true;
}

/* Neighbour discovery is between this container and its host end. */
static __always_inline bool is_of_the_link(struct xdp_md *ctx, const struct packet *p)
{
	__u8 *type = p->l4;

	return p->protocol == IPPROTO_ICMPV6 && type && (void *)(type + 1) <= (void *)(long)ctx->data_end &&
	       *type >= 133 && *type <= 137;
}

#endif
