// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A program as the owner of a container might load it. The port says what it does, so that a test chooses a verdict per
 * flow; whatever else comes is passed.
 *
 *     7   XDP_TX, answered: MACs, addresses and ports change places (a datagram comes back as it was sent, a TCP peer is
 *         connected to itself); so is ICMP echo where the map owner_targets says so in entry 1
 *     9   XDP_DROP
 *    11   bpf_redirect to the interface owner_targets[0]
 *    13   bpf_redirect_map by entry 0 of owner_ways
 *
 * Ports 11 and 13 count in both directions, since the program also sits on the inner interface that it redirects to.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "e2e/owner/bpf/frame.bpf.h"

#ifndef OWNER_SECTION
#define OWNER_SECTION "xdp"
#endif

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
} owner_targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} owner_ways SEC(".maps");

static __always_inline void owner_count(const struct frame *f)
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

static __always_inline __u32 owner_target(__u32 index)
{
	__u32 *target = bpf_map_lookup_elem(&owner_targets, &index);

	return target ? *target : 0;
}

SEC(OWNER_SECTION)
int owner(struct xdp_md *ctx)
{
	struct frame f;

	frame_parse(ctx, &f);
	owner_count(&f);
	if (f.echo && owner_target(1)) {
		frame_answer_echo(&f);
		return XDP_TX;
	}
	if (!f.ports)
		return XDP_PASS;
	if (frame_to(&f, 7)) {
		frame_turn(&f);
		return XDP_TX;
	}
	if (frame_to(&f, 9))
		return XDP_DROP;
	if (frame_to(&f, 11) || frame_from(&f, 11))
		return bpf_redirect(owner_target(0), 0);
	if (frame_to(&f, 13) || frame_from(&f, 13))
		return bpf_redirect_map(&owner_ways, 0, 0);
	return XDP_PASS;
}
