/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The frame generator: run by BPF_PROG_TEST_RUN on live frames, it sends each of them through the client's end of the
 * wire, so that the node's NIC receives it as a frame by ndo_xdp_xmit: page_pool memory with full headroom, like a NIC's.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

enum {
	HEADER_WORDS = 8, /* the whole 64-byte frame */
	SOURCE_PORT = 34, /* offset in an IPv4 frame without options */
	FIRST_PORT = 10000,
};

/* Set before the run; ordinary data, because the compiler would fold constants into byte stores. */
__u64 template_words[HEADER_WORDS] = {};
__u32 out_ifindex = 0;
__u32 flows = 1;
__u64 sent = 0;

SEC("xdp")
int xvb_generate(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data;
	__u64 *word = (__u64 *)data;

	if (data + HEADER_WORDS * sizeof(*word) > (__u8 *)(long)ctx->data_end)
		return XDP_DROP;
	/* The pages are recycled with what the last trip wrote into them (MAC addresses, TTL, checksum). */
	for (int i = 0; i < HEADER_WORDS; i++)
		word[i] = template_words[i];
	if (flows > 1)
		*(__u16 *)(data + SOURCE_PORT) = __builtin_bswap16(FIRST_PORT + sent % flows);
	sent++;
	return bpf_redirect(out_ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
