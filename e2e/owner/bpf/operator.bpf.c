// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A program as a node's operator might install it, in versions: each counts the tests' datagrams that it saw under its
 * own number, by way of a tail call, so that a lost or emptied program array is seen (entry 0). It passes everything.
 */
#include "e2e/owner/bpf/frame.bpf.h"

#define FIRST_PORT 20000 /* of e2e/lib/traffic.py: nobody's multicast is counted */

char _license[] SEC("license") = "Dual BSD/GPL";

#ifndef SEEN_ENTRIES
#define SEEN_ENTRIES 4
#endif

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN_ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

#ifdef SECOND_MAP
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} second SEC(".maps");
#endif

__u64 total; /* a global variable: an internal map, with a dot in its name */

static __always_inline void count(struct xdp_md *ctx, __u32 version)
{
	__u64 *frames = bpf_map_lookup_elem(&seen, &version);
	struct frame f;

	frame_parse(ctx, &f);
	if (!f.ports || f.protocol != IPPROTO_UDP || bpf_ntohs(f.ports[1]) < FIRST_PORT)
		return;
	if (frames)
		__sync_fetch_and_add(frames, 1);
	__sync_fetch_and_add(&total, 1);
}

int counted(struct xdp_md *ctx);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, int(struct xdp_md *));
} calls SEC(".maps") = {
	.values = { [0] = &counted },
};

SEC(OWNER_SECTION)
int counted(struct xdp_md *ctx)
{
	count(ctx, VERSION);
#ifdef SECOND_MAP
	__u32 zero = 0;
	__u64 one = 1;

	bpf_map_update_elem(&second, &zero, &one, BPF_ANY);
#endif
	return XDP_PASS;
}

SEC(OWNER_SECTION)
int entry(struct xdp_md *ctx)
{
#ifdef BAD
	return *(volatile char *)(long)ctx->data_end; /* beyond the frame */
#endif
	bpf_tail_call(ctx, &calls, 0);
	count(ctx, 0);
	return XDP_PASS;
}

SEC("tc")
int shaper(struct __sk_buff *skb)
{
	return 0;
}
