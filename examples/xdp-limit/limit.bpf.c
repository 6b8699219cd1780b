// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A limit for what each source address may send to a container: one frame every `interval`, and `burst` of them at once.
 * What is over it is dropped. Neighbour discovery and what is no IP are not counted. Until a limit is written, all pass.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

struct limit {
	__u64 interval; /* nanoseconds; 0: no limit */
	__u64 burst;    /* frames */
};

enum { PASSED, LIMITED, SEEN_COUNT };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct limit);
} limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SEEN_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

/* When the next frame of a source would be due, if all had kept the interval. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct in6_addr);
	__type(value, __u64);
} due SEC(".maps");

/* The source, an IPv4 address mapped into IPv6; false for what is not limited. */
static __always_inline int source_of(struct xdp_md *ctx, struct in6_addr *source)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(eth + 1);
	struct ipv6hdr *ip6 = (void *)(eth + 1);

	if ((void *)(ip + 1) > end)
		return 0;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		source->s6_addr32[2] = bpf_htonl(0xffff);
		source->s6_addr32[3] = ip->saddr;
		return 1;
	}
	if (eth->h_proto != bpf_htons(ETH_P_IPV6) || (void *)(ip6 + 1) > end || ip6->nexthdr == IPPROTO_ICMPV6)
		return 0;
	*source = ip6->saddr;
	return 1;
}

static __always_inline int may_pass(const struct in6_addr *source, const struct limit *limit)
{
	__u64 now = bpf_ktime_get_ns(), zero = 0;
	__u64 *next = bpf_map_lookup_elem(&due, source);
	int i;

	if (!next) {
		bpf_map_update_elem(&due, source, &zero, BPF_NOEXIST);
		next = bpf_map_lookup_elem(&due, source);
	}
	if (!next)
		return 1;
	for (i = 0; i < 4; i++) { /* another CPU may be at the same source */
		__u64 was = *next;
		__u64 from = was > now ? was : now;

		if (from - now > limit->interval * (limit->burst - 1))
			return 0;
		if (__sync_val_compare_and_swap(next, was, from + limit->interval) == was)
			return 1;
	}
	return 0;
}

static __always_inline int count(__u32 what, int verdict)
{
	__u64 *frames = bpf_map_lookup_elem(&seen, &what);

	if (frames)
		(*frames)++;
	return verdict;
}

SEC("xdp.frags")
int xdp_limit(struct xdp_md *ctx)
{
	struct in6_addr source = {};
	__u32 zero = 0;
	struct limit *limit = bpf_map_lookup_elem(&limits, &zero);

	if (!limit || !limit->interval || !limit->burst || !source_of(ctx, &source) || may_pass(&source, limit))
		return count(PASSED, XDP_PASS);
	return count(LIMITED, XDP_DROP);
}
