/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs hand to each other while they judge one frame. Never seen by user space. */
#ifndef XVETH_TYPES_BPF_H
#define XVETH_TYPES_BPF_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "bpf-progs/include/abi.h"

struct xv_tuple {
	struct xv_addr src, dst;
	union {
		struct {
			__be16 sport, dport;
		};
		__u32 ports;
	};
	__u32 proto;
};

/* The first 12 bytes of a frame. */
struct xv_macs {
	union {
		struct {
			__u8 dst[6], src[6];
		};
		__u32 words[3];
	};
};

struct xv_frame {
	struct xv_tuple t; /* of an ICMP error: the flow that it quotes, in the direction of the error */
	__u32 family;      /* 4, 6; 0 = no IP header was readable; t.src is an ARP frame's sender then */
	__u32 obstacle;    /* enum xv_reason: why only the stack can carry this frame; 0 = nothing seen yet */
	__u32 l3_len;      /* the packet's own length */
	__u32 class;       /* tos, or IPv6 flow information, for routing */
	__u8 has_ports;
	__u8 tcp_flags;
	__u8 icmp_error;
	__u8 plain; /* nothing in the way: all headers are linear, checked, and without options */
	struct xv_macs macs;
};

/* Where a frame goes and what is written into it. */
struct xv_route {
	__u32 port;
	__u32 mtu;
	__u32 hop; /* of a function of a chain: its index in xv_hops; 0 = none */
	struct xv_macs macs;
};

enum xv_cached_verdict { XV_CACHED_PASS = 1, XV_CACHED_REDIRECT = 2 };

/* A verdict about frames of one direction of a flow that entered at one device with these MACs. */
struct xv_cached {
	__u64 made_ns;
	struct xv_tuple t;
	__u32 ifindex;
	__u32 generation; /* of the node */
	__u32 bucket;     /* in xv_flow_gen … */
	__u32 bucket_gen; /* … and what was read there before the flow was judged */
	__u32 in_port;
	__u32 verdict;
	struct xv_macs macs; /* as they came; the NIC's program compares the destination only */
	struct xv_route route;
	__u32 zero;
};
XV_ASSERT_SIZE(struct xv_cached, 112);

#endif
