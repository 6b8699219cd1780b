/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The receivers: what the container, the NIC and the client's end of the wire run. All count UDP over IPv4 alone. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} counted SEC(".maps");

struct headers {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

/* The headers of a UDP datagram without IP options, counted; NULL for any other frame. */
static __always_inline struct headers *count_datagram(struct xdp_md *ctx)
{
	struct headers *h = (void *)(long)ctx->data;
	__u32 key = 0;
	__u64 *count;

	if ((void *)(h + 1) > (void *)(long)ctx->data_end)
		return NULL;
	if (h->eth.h_proto != bpf_htons(ETH_P_IP) || h->ip.ihl != 5 || h->ip.protocol != IPPROTO_UDP)
		return NULL;
	count = bpf_map_lookup_elem(&counted, &key);
	if (count)
		(*count)++;
	return h;
}

SEC("xdp")
int xvb_drop(struct xdp_md *ctx)
{
	return count_datagram(ctx) ? XDP_DROP : XDP_PASS;
}

/* Sends the datagram back to where it came from; the swaps leave both checksums right. */
SEC("xdp")
int xvb_answer(struct xdp_md *ctx)
{
	struct headers *h = count_datagram(ctx);
	__u8 mac[ETH_ALEN];
	__be32 address;
	__be16 port;

	if (!h)
		return XDP_PASS;
	__builtin_memcpy(mac, h->eth.h_dest, ETH_ALEN);
	__builtin_memcpy(h->eth.h_dest, h->eth.h_source, ETH_ALEN);
	__builtin_memcpy(h->eth.h_source, mac, ETH_ALEN);
	address = h->ip.daddr;
	h->ip.daddr = h->ip.saddr;
	h->ip.saddr = address;
	port = h->udp.dest;
	h->udp.dest = h->udp.source;
	h->udp.source = port;
	return XDP_TX;
}

__u8 next_mac[ETH_ALEN] = {};
bool has_next = false;

/* A function of a chain: hands the datagram on, over a bridge to the next one's MAC. */
SEC("xdp")
int xvb_hand_on(struct xdp_md *ctx)
{
	struct headers *h = count_datagram(ctx);

	if (!h)
		return XDP_PASS;
	if (has_next)
		__builtin_memcpy(h->eth.h_dest, next_mac, ETH_ALEN);
	return XDP_TX;
}

/* Makes a veth end take frames natively without touching them. */
SEC("xdp.frags")
int xvb_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
