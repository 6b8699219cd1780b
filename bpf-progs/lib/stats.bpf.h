/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters. Per CPU, so nothing here is atomic. */
#ifndef XVETH_STATS_BPF_H
#define XVETH_STATS_BPF_H

#include "bpf-progs/lib/maps.bpf.h"

static __always_inline void xv_count_fast(__u32 port, enum xv_direction direction, __u32 bytes)
{
	struct xv_counters *counters = bpf_map_lookup_elem(&xv_counters, &port);

	if (!counters)
		return;
	counters->of[direction].frames++;
	counters->of[direction].bytes += bytes;
}

static __always_inline void xv_count_reason(__u32 port, __u32 reason)
{
	struct xv_reason_key key = { .port = port, .reason = reason };
	__u64 *frames = bpf_map_lookup_elem(&xv_reasons, &key);
	__u64 zero = 0;

	if (!frames) {
		bpf_map_update_elem(&xv_reasons, &key, &zero, BPF_NOEXIST);
		frames = bpf_map_lookup_elem(&xv_reasons, &key);
		if (!frames)
			return;
	}
	(*frames)++;
}

#endif
