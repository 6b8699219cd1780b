/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What this kernel can do. */
#ifndef XVETH_KERNEL_BPF_H
#define XVETH_KERNEL_BPF_H

#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define XV_SECOND 1000000000ULL

/* Only to ask whether the kernel has the field. */
struct net_device {
	__u32 xdp_features;
} __attribute__((preserve_access_index));

/* Linux redirects frames of several buffers since 6.3, which also brought xdp_features. Before, they would be lost. */
static __always_inline bool xv_redirects_buffers(void)
{
	return bpf_core_field_exists(((struct net_device *)0)->xdp_features);
}

#endif
