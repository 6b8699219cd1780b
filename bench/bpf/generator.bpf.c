/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The frame generator: a wheel. A few frames go round between the two ends of a veth pair; at each turn a broadcast
 * through a devmap sends copies of the frame out of another device, and the frame itself on to the pair's other end.
 * Copies are made by the kernel (dev_map_enqueue_clone): one page each, with a NIC's headroom and without an skb.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum {
	COPIES = 16,    /* of a frame, each turn: as many as the kernel's bulk queue of a device takes */
	ETHERTYPE = 12, /* offsets in an IPv4 frame without options */
	SOURCE_PORT = 34,
	HEADERS = 42,
	FIRST_PORT = 10000,
};

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, COPIES + 1); /* the last one, which gets the frame itself, leads on round the wheel */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
} outputs SEC(".maps");

__u32 turning = 0;
__u32 flows = 1;
__u64 sent = 0;
__u64 first_ns = 0; /* when the wheel began to turn */
__u64 last_ns = 0;  /* its latest turn */

SEC("xdp")
int xvb_generate(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data;

	if (!turning || data + HEADERS > (__u8 *)(long)ctx->data_end ||
	    *(__be16 *)(data + ETHERTYPE) != bpf_htons(ETH_P_IP))
		return XDP_DROP;
	if (flows > 1)
		*(__be16 *)(data + SOURCE_PORT) = bpf_htons(FIRST_PORT + sent / COPIES % flows);
	last_ns = bpf_ktime_get_ns();
	if (!first_ns)
		first_ns = last_ns;
	sent += COPIES;
	return bpf_redirect_map(&outputs, 0, BPF_F_BROADCAST);
}

SEC("xdp")
int xvb_return(struct xdp_md *ctx)
{
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
