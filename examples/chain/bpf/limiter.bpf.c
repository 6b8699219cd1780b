// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A function that lets each source address send so many frames a second, by token bucket. */
#include "examples/chain/bpf/function.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile __u64 rate = 1000;  /* frames a second */
const volatile __u64 burst = 1000; /* frames at once */

#define SECOND 1000000000ULL

struct bucket {
	__u64 tokens; /* in units of 1/SECOND of a frame */
	__u64 filled_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct in6_addr);
	__type(value, struct bucket);
} buckets SEC(".maps");

/* Two CPUs that take from one bucket at once may let a frame more or less through. */
static __always_inline bool take(struct bucket *bucket, __u64 now)
{
	__u64 passed = now - bucket->filled_ns, tokens;

	if (passed > SECOND)
		passed = SECOND;
	tokens = bucket->tokens + passed * rate;
	if (tokens > burst * SECOND)
		tokens = burst * SECOND;
	bucket->filled_ns = now;
	bucket->tokens = tokens < SECOND ? tokens : tokens - SECOND;
	return tokens >= SECOND;
}

SEC("xdp.frags")
int limit(struct xdp_md *ctx)
{
	struct bucket fresh, *bucket;
	struct packet p;
	__u64 now;

	if (!parse(ctx, &p) || is_of_the_link(ctx, &p))
		return KEEP;
	now = bpf_ktime_get_ns();
	bucket = bpf_map_lookup_elem(&buckets, &p.source);
	if (bucket)
		return counted(take(bucket, now) ? NEXT_HOP : XDP_DROP);
	fresh.tokens = (burst - 1) * SECOND;
	fresh.filled_ns = now;
	bpf_map_update_elem(&buckets, &p.source, &fresh, BPF_ANY);
	return counted(NEXT_HOP);
}
