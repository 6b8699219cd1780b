// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Counts what arrives, by IP version, and passes it on. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3); /* IPv4, IPv6, other */
	__type(key, __u32);
	__type(value, __u64);
} frames SEC(".maps");

SEC("xdp.frags")
int count(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	__u32 kind = 2;
	__u64 *counter;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		kind = 0;
	else if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		kind = 1;
	counter = bpf_map_lookup_elem(&frames, &kind);
	if (counter)
		(*counter)++;
	return XDP_PASS;
}
