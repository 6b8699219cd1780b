/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asking conntrack about a flow, and telling it about one that falls to the stack. The namespace is that of the device
 * that received the frame, the node's. The functions are weak: without the kernel's nf_conntrack the loader leaves
 * xv_has_conntrack 0 and the verifier removes the calls.
 */
#ifndef XVETH_CONNTRACK_BPF_H
#define XVETH_CONNTRACK_BPF_H

#include "bpf-progs/lib/maps.bpf.h"
#include "bpf-progs/lib/parse.bpf.h"

#define XV_IPS_SEEN_REPLY_ASSURED (2 | 4)
#define XV_CT_TCP_TIMEOUT_MS (432000U * 1000)
#define XV_CT_UDP_TIMEOUT_MS (120U * 1000)

/* The kernel's size before 6.10, which later kernels take as well. */
struct bpf_ct_opts___12 {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir;
	__u8 reserved[2];
};

struct nf_conn {
	unsigned long status;
};

struct nf_conn___init {
	struct nf_conn ct;
};

extern struct nf_conn *bpf_xdp_ct_lookup(struct xdp_md *ctx, struct bpf_sock_tuple *tuple, __u32 tuple_size,
					 struct bpf_ct_opts___12 *opts, __u32 opts_size) __weak __ksym;
extern struct nf_conn___init *bpf_xdp_ct_alloc(struct xdp_md *ctx, struct bpf_sock_tuple *tuple, __u32 tuple_size,
					       struct bpf_ct_opts___12 *opts, __u32 opts_size) __weak __ksym;
extern void bpf_ct_set_timeout(struct nf_conn___init *ct, __u32 timeout_ms) __weak __ksym;
extern int bpf_ct_set_status(const struct nf_conn___init *ct, __u32 status) __weak __ksym;
extern struct nf_conn *bpf_ct_insert_entry(struct nf_conn___init *ct) __weak __ksym;
extern void bpf_ct_release(struct nf_conn *ct) __weak __ksym;

static __always_inline void xv_ct_tuple(const struct xv_frame *f, struct bpf_sock_tuple *tuple)
{
	if (f->family == 4) {
		tuple->ipv4.saddr = xv_ipv4_of(&f->t.src);
		tuple->ipv4.daddr = xv_ipv4_of(&f->t.dst);
		tuple->ipv4.sport = f->t.sport;
		tuple->ipv4.dport = f->t.dport;
	} else {
		__builtin_memcpy(tuple->ipv6.saddr, f->t.src.bytes, sizeof(tuple->ipv6.saddr));
		__builtin_memcpy(tuple->ipv6.daddr, f->t.dst.bytes, sizeof(tuple->ipv6.daddr));
		tuple->ipv6.sport = f->t.sport;
		tuple->ipv6.dport = f->t.dport;
	}
}

/* Whether conntrack has an entry for the flow, of either direction, translated or not. */
static __noinline int xv_ct_knows(struct xdp_md *ctx, const struct xv_frame *f)
{
	struct bpf_ct_opts___12 opts = { .netns_id = -1, .l4proto = f->t.proto };
	struct bpf_sock_tuple tuple = {};
	struct nf_conn *ct;

	if (!xv_has_conntrack)
		return 0;
	xv_ct_tuple(f, &tuple);
	if (f->family == 4)
		ct = bpf_xdp_ct_lookup(ctx, &tuple, sizeof(tuple.ipv4), &opts, sizeof(opts));
	else
		ct = bpf_xdp_ct_lookup(ctx, &tuple, sizeof(tuple.ipv6), &opts, sizeof(opts));
	if (!ct)
		return 0;
	bpf_ct_release(ct);
	return 1;
}

/*
 * Enters the flow in the direction of this frame, as one that has been answered. Otherwise the stack would take a reply
 * for the beginning of a new flow, masquerade it, and call the frames of the other direction invalid.
 */
static __noinline int xv_ct_introduce(struct xdp_md *ctx, const struct xv_frame *f)
{
	struct bpf_ct_opts___12 opts = { .netns_id = -1, .l4proto = f->t.proto };
	struct bpf_sock_tuple tuple = {};
	struct nf_conn___init *init;
	struct nf_conn *ct;

	if (!xv_has_conntrack)
		return 0;
	xv_ct_tuple(f, &tuple);
	if (f->family == 4)
		init = bpf_xdp_ct_alloc(ctx, &tuple, sizeof(tuple.ipv4), &opts, sizeof(opts));
	else
		init = bpf_xdp_ct_alloc(ctx, &tuple, sizeof(tuple.ipv6), &opts, sizeof(opts));
	if (!init)
		return 0;
	bpf_ct_set_timeout(init, f->t.proto == IPPROTO_TCP ? XV_CT_TCP_TIMEOUT_MS : XV_CT_UDP_TIMEOUT_MS);
	bpf_ct_set_status(init, XV_IPS_SEEN_REPLY_ASSURED);
	ct = bpf_ct_insert_entry(init);
	if (ct) /* NULL: another CPU was first */
		bpf_ct_release(ct);
	return 0;
}

#endif
