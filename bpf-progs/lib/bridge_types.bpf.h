/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef XVETH_BRIDGE_TYPES_BPF_H
#define XVETH_BRIDGE_TYPES_BPF_H

#include "bpf-progs/include/bridge_abi.h"
#include "bpf-progs/lib/types.bpf.h"

#define XV_TAG_BYTES 4

/* A frame on its way through a bridge. */
struct xv_passage {
	const struct xv_port *port; /* where it entered … */
	__u32 in;                   /* … and its id */
	const struct xv_bridge_info *bridge;
	__u32 bytes; /* as it came, of all buffers */
	__u32 vlan;
	__u32 tagged; /* it carries the tag of that VLAN */
};

struct xv_tagged {
	__u8 macs[12];
	__be16 protocol;
	__be16 tci;
	__be16 inner_protocol;
};

#endif
