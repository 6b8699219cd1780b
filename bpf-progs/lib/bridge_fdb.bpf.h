/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who may enter a bridge, and where a MAC is. */
#ifndef XVETH_BRIDGE_FDB_BPF_H
#define XVETH_BRIDGE_FDB_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf-progs/lib/bridge_maps.bpf.h"
#include "bpf-progs/lib/bridge_types.bpf.h"
#include "bpf-progs/lib/kernel.bpf.h"
#include "bpf-progs/lib/maps.bpf.h"
#include "bpf-progs/lib/parse.bpf.h"

static __always_inline bool xv_enters(struct xdp_md *ctx, struct xv_passage *p)
{
	__u32 ifindex = ctx->ingress_ifindex, bridge;
	__u32 *id = bpf_map_lookup_elem(&xv_port_of, &ifindex);

	p->port = id ? bpf_map_lookup_elem(&xv_port_info, id) : NULL;
	if (!p->port || !p->port->bridge)
		return false;
	bridge = p->port->bridge;
	p->bridge = bpf_map_lookup_elem(&xv_bridges, &bridge);
	p->in = *id;
	p->bytes = bpf_xdp_get_buff_len(ctx);
	return p->bridge;
}

/* 0, or why a frame with this source goes nowhere. */
static __always_inline __u32 xv_check_source(const struct xv_port *port, const __u8 *mac)
{
	const __u16 *words = (const void *)mac;

	if (port->flags & XV_PORT_SPOOFCHECK)
		return xv_same_mac(mac, port->mac) ? 0 : XV_DROP_SPOOFED;
	return mac[0] & 1 || !(words[0] | words[1] | words[2]) ? XV_DROP_BAD_SOURCE : 0;
}

/* 01:80:c2:00:00:00 … 0f: not forwarded by bridges. */
static __always_inline bool xv_is_reserved(const __u8 *mac)
{
	const __u16 *words = (const void *)mac;

	return words[0] == bpf_htons(0x0180) && words[1] == bpf_htons(0xc200) && (words[2] & bpf_htons(0xfff0)) == 0;
}

static __always_inline struct xv_fdb_key xv_fdb_key_of(const struct xv_passage *p, const __u8 *mac)
{
	struct xv_fdb_key key = { .vlan = p->vlan, .bridge = p->port->bridge };

	__builtin_memcpy(key.mac, mac, sizeof(key.mac));
	return key;
}

/* The port of an entry, unless it has left this bridge since. */
static __always_inline struct xv_port *xv_fdb_port(const struct xv_passage *p, const struct xv_fdb_entry *entry,
						   __u32 *id)
{
	__u64 owner = entry->owner;
	struct xv_port *port;

	*id = (__u32)owner;
	port = bpf_map_lookup_elem(&xv_port_info, id);
	return port && port->epoch == owner >> 32 && port->bridge == p->port->bridge ? port : NULL;
}

/*
 * A port without source check may speak for others: remember whom it spoke for. What user space says about a MAC stands.
 * 0, or why the frame goes nowhere.
 */
static __always_inline __u32 xv_learn(const struct xv_passage *p, const __u8 *mac)
{
	struct xv_fdb_entry *known, *fixed, fresh = {};
	struct xv_fdb_key key;
	__u32 id;

	if (p->port->flags & XV_PORT_SPOOFCHECK || xv_same_mac(mac, p->port->mac))
		return 0;
	key = xv_fdb_key_of(p, mac);
	fresh.owner = xv_fdb_owner(p->in, p->port->epoch);
	fresh.seen_ns = bpf_ktime_get_coarse_ns();
	known = bpf_map_lookup_elem(&xv_fdb_learned, &key);
	if (known && known->owner == fresh.owner && fresh.seen_ns - known->seen_ns < XV_SECOND)
		return 0;
	fixed = bpf_map_lookup_elem(&xv_fdb_static, &key);
	if (fixed && xv_fdb_port(p, fixed, &id))
		return id == p->in ? 0 : XV_DROP_MAC_TAKEN;
	if (known) {
		known->owner = fresh.owner;
		known->seen_ns = fresh.seen_ns;
	} else {
		bpf_map_update_elem(&xv_fdb_learned, &key, &fresh, BPF_ANY);
	}
	return 0;
}

static __always_inline struct xv_port *xv_fdb_find(const struct xv_passage *p, const __u8 *mac, __u32 *id)
{
	struct xv_fdb_key key = xv_fdb_key_of(p, mac);
	struct xv_fdb_entry *entry = bpf_map_lookup_elem(&xv_fdb_static, &key);
	struct xv_port *port = entry ? xv_fdb_port(p, entry, id) : NULL;

	if (port)
		return port;
	entry = bpf_map_lookup_elem(&xv_fdb_learned, &key);
	if (!entry || bpf_ktime_get_coarse_ns() - entry->seen_ns >= p->bridge->ageing_ns)
		return NULL;
	return xv_fdb_port(p, entry, id);
}

#endif
