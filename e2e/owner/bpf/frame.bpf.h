/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* As much parsing as the test programs need: Ethernet, IPv4 without options, IPv6 without extension headers. */
#ifndef XVETH_E2E_FRAME_BPF_H
#define XVETH_E2E_FRAME_BPF_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

/* linux/icmp.h draws in headers of the C library, which has none for BPF. */
struct echo {
	__u8 type, code;
	__sum16 checksum;
	__be16 id, sequence;
};

struct frame {
	struct ethhdr *eth;
	struct iphdr *ip;
	struct ipv6hdr *ip6;
	__be16 *ports;     /* source, destination; NULL where there are none */
	struct echo *echo; /* an echo request of either family */
	__u8 protocol;
	bool ipv6;
};

static __always_inline void frame_parse_l4(struct frame *f, void *l4, void *end)
{
	struct echo *icmp = l4;

	if ((void *)(icmp + 1) > end)
		return;
	if (f->protocol == IPPROTO_UDP || f->protocol == IPPROTO_TCP)
		f->ports = l4;
	else if (f->protocol == IPPROTO_ICMP && icmp->type == 8)
		f->echo = icmp;
	else if (f->protocol == IPPROTO_ICMPV6 && icmp->type == 128)
		f->echo = icmp;
}

static __always_inline void frame_parse(struct xdp_md *ctx, struct frame *f)
{
	void *end = (void *)(long)ctx->data_end;

	__builtin_memset(f, 0, sizeof(*f));
	f->eth = (void *)(long)ctx->data;
	f->ip = (void *)(f->eth + 1);
	f->ip6 = (void *)(f->eth + 1);
	if ((void *)(f->ip + 1) > end)
		return;
	if (f->eth->h_proto == bpf_htons(ETH_P_IP) && f->ip->ihl == 5 && !(f->ip->frag_off & bpf_htons(0x3fff))) {
		f->protocol = f->ip->protocol;
		frame_parse_l4(f, f->ip + 1, end);
	} else if (f->eth->h_proto == bpf_htons(ETH_P_IPV6) && (void *)(f->ip6 + 1) <= end) {
		f->ipv6 = true;
		f->protocol = f->ip6->nexthdr;
		frame_parse_l4(f, f->ip6 + 1, end);
	}
}

static __always_inline bool frame_from(const struct frame *f, __u16 port)
{
	return f->ports[0] == bpf_htons(port);
}

static __always_inline bool frame_to(const struct frame *f, __u16 port)
{
	return f->ports[1] == bpf_htons(port);
}

/* Back to where it came from. Sums do not change: what they add up is the same. */
static __always_inline void frame_turn_addresses(struct frame *f)
{
	__u8 mac[ETH_ALEN];
	struct in6_addr address6;
	__be32 address;

	__builtin_memcpy(mac, f->eth->h_source, ETH_ALEN);
	__builtin_memcpy(f->eth->h_source, f->eth->h_dest, ETH_ALEN);
	__builtin_memcpy(f->eth->h_dest, mac, ETH_ALEN);
	if (f->ipv6) {
		address6 = f->ip6->saddr;
		f->ip6->saddr = f->ip6->daddr;
		f->ip6->daddr = address6;
	} else {
		address = f->ip->saddr;
		f->ip->saddr = f->ip->daddr;
		f->ip->daddr = address;
	}
}

static __always_inline void frame_turn(struct frame *f)
{
	__be16 port = f->ports[0];

	f->ports[0] = f->ports[1];
	f->ports[1] = port;
	frame_turn_addresses(f);
}

/* Request into reply: the type shrinks by 8 (IPv4) or grows by 1 (IPv6), in the first byte of a 16 bit word. */
static __always_inline void frame_answer_echo(struct frame *f)
{
	__u32 sum = (__u16)~f->echo->checksum;

	if (f->ipv6) {
		f->echo->type = 129;
		sum += bpf_htons(0x0100);
	} else {
		f->echo->type = 0;
		sum += (__u16)~bpf_htons(0x0800);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	f->echo->checksum = ~((sum & 0xffff) + (sum >> 16));
	frame_turn_addresses(f);
}

#endif
