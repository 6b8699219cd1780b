// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A function of a chain: counts what comes, and does with it what function_does[0] says; XDP_TX, on to the next hop, if that
 * is 0. By port, whatever that says:
 *
 *     7   answered: MACs, addresses and ports change places, XDP_TX
 *     9   XDP_DROP
 *    15   sent on to another container, function_does[1]'s last byte of the address, with the sums made right: XDP_TX
 *    17   sent on from another source, function_does[1]'s last byte of it, with the sums made right: XDP_TX
 *
 * What has no ports goes the same way, but multicast, ARP and neighbour discovery, which are the container's own.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "e2e/owner/bpf/frame.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

enum { SEEN_UDP4, SEEN_TCP4, SEEN_UDP6, SEEN_TCP6, SEEN_OTHER, SEEN_COUNT };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} owner_seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} function_does SEC(".maps");

static __always_inline void count(const struct frame *f)
{
	__u32 index = SEEN_OTHER;
	__u64 *seen;

	if (f->protocol == IPPROTO_UDP)
		index = f->ipv6 ? SEEN_UDP6 : SEEN_UDP4;
	else if (f->protocol == IPPROTO_TCP)
		index = f->ipv6 ? SEEN_TCP6 : SEEN_TCP4;
	seen = bpf_map_lookup_elem(&owner_seen, &index);
	if (seen)
		__sync_fetch_and_add(seen, 1);
}

static __always_inline __u32 setting(__u32 index)
{
	__u32 *value = bpf_map_lookup_elem(&function_does, &index);

	return value ? *value : 0;
}

/* RFC 1624, for the last 16-bit word of an address. */
static __always_inline void adjust(__sum16 *sum, __u16 from, __u16 to)
{
	__u32 all = (__u16) ~*sum + (__u16)~from + to;

	all = (all & 0xffff) + (all >> 16);
	*sum = ~((all & 0xffff) + (all >> 16));
}

static __always_inline void set_last_byte(struct xdp_md *ctx, struct frame *f, bool source, __u8 byte)
{
	void *address = f->ipv6 ? (void *)(source ? &f->ip6->saddr : &f->ip6->daddr) + 14
				: (void *)(source ? &f->ip->saddr : &f->ip->daddr) + 2;
	__u16 *word = address, from, to;
	__sum16 *sum = (void *)f->ports + (f->protocol == IPPROTO_UDP ? 6 : 16);

	if ((void *)(word + 1) > (void *)(long)ctx->data_end || (void *)(sum + 1) > (void *)(long)ctx->data_end)
		return;
	from = *word;
	((__u8 *)address)[1] = byte;
	to = *word;
	adjust(sum, from, to);
	if (!f->ipv6)
		adjust(&f->ip->check, from, to);
}

static __always_inline bool is_of_the_link(const struct frame *f)
{
	return f->eth->h_dest[0] & 1 || f->eth->h_proto == bpf_htons(ETH_P_ARP) ||
	       (f->ipv6 && f->protocol == IPPROTO_ICMPV6 && !f->echo);
}

SEC("xdp")
int function(struct xdp_md *ctx)
{
	struct frame f;
	__u32 verdict;

	frame_parse(ctx, &f);
	if ((void *)(f.ip + 1) > (void *)(long)ctx->data_end || is_of_the_link(&f))
		return XDP_PASS;
	count(&f);
	verdict = setting(0) ?: XDP_TX;
	if (!f.ports)
		return verdict;
	if (frame_to(&f, 7)) {
		frame_turn(&f);
		return XDP_TX;
	}
	if (frame_to(&f, 9))
		return XDP_DROP;
	if (frame_to(&f, 15) || frame_to(&f, 17)) {
		set_last_byte(ctx, &f, frame_to(&f, 17), setting(1));
		return XDP_TX;
	}
	return verdict;
}
