// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A function that lets through what opens a TCP connection to, or is a datagram to, an open port; the rest of every TCP
 * connection; and what is neither. It remembers nothing: a bare ACK to a closed port is for the container to refuse.
 */
#include "examples/chain/bpf/function.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u16);
	__type(value, __u8);
} open_ports SEC(".maps");

static __always_inline bool is_open(__be16 port)
{
	__u16 key = bpf_ntohs(port);

	return bpf_map_lookup_elem(&open_ports, &key);
}

static __always_inline bool lets_through(struct xdp_md *ctx, const struct packet *p)
{
	void *end = (void *)(long)ctx->data_end;
	struct tcphdr *tcp = p->l4;
	struct udphdr *udp = p->l4;

	if (!p->l4)
		return p->protocol != IPPROTO_TCP && p->protocol != IPPROTO_UDP;
	if (p->protocol == IPPROTO_TCP)
		return (void *)(tcp + 1) <= end && (!tcp->syn || tcp->ack || is_open(tcp->dest));
	if (p->protocol == IPPROTO_UDP)
		return (void *)(udp + 1) <= end && is_open(udp->dest);
	return true;
}

SEC("xdp.frags")
int filter(struct xdp_md *ctx)
{
	struct packet p;

	if (!parse(ctx, &p) || is_of_the_link(ctx, &p))
		return KEEP;
	return counted(lets_through(ctx, &p) ? NEXT_HOP : XDP_DROP);
}
