/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From bytes to a struct xv_frame. xv_parse_plain() knows the frames that can be fast and is inlined into the hot path;
 * xv_parse_rest() finds out what is the matter with all others, and reads their ports where it can: a fast flow has to
 * notice the fragments and options among its frames.
 */
#ifndef XVETH_PARSE_BPF_H
#define XVETH_PARSE_BPF_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bpf-progs/lib/types.bpf.h"

#define XV_IP_MF 0x2000
#define XV_IP_OFFSET 0x1fff
#define XV_IP6_OFFSET 0xfff8
#define XV_TCP_FIN 0x01
#define XV_TCP_SYN 0x02
#define XV_TCP_RST 0x04
#define XV_TCP_ACK 0x10
#define XV_TCP_EDGES (XV_TCP_FIN | XV_TCP_SYN | XV_TCP_RST)
#define XV_MAX_EXTENSIONS 4

/* ::ffff:a.b.c.d */
static __always_inline void xv_map_ipv4(struct xv_addr *addr, __be32 ipv4)
{
	addr->words[0] = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	addr->words[1] = (__u64)ipv4 << 32 | 0xffff0000;
#else
	addr->words[1] = 0xffff00000000ULL | ipv4;
#endif
}

static __always_inline __be32 xv_ipv4_of(const struct xv_addr *addr)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return addr->words[1] >> 32;
#else
	return (__u32)addr->words[1];
#endif
}

static __always_inline void xv_copy_ipv6(struct xv_addr *addr, const struct in6_addr *from)
{
	__builtin_memcpy(addr->bytes, from, sizeof(addr->bytes));
}

static __always_inline bool xv_same_addr(const struct xv_addr *a, const struct xv_addr *b)
{
	return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* Both are aligned to two bytes, which the verifier insists on for those on the stack. */
static __always_inline bool xv_same_mac(const void *a, const void *b)
{
	const __u16 *x = a, *y = b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2];
}

static __always_inline bool xv_same_macs(const struct xv_macs *a, const struct xv_macs *b)
{
	return a->words[0] == b->words[0] && a->words[1] == b->words[1] && a->words[2] == b->words[2];
}

/* Of a header without options: all ones when the checksum is right. */
static __always_inline bool xv_ipv4_checksum_ok(const struct iphdr *ip)
{
	const __u32 *word = (const __u32 *)ip;
	__u64 sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Whether a packet of `l3_len` bytes is all there; only frames with fragments have to ask the kernel for their length. */
static __always_inline bool xv_frame_holds(struct xdp_md *ctx, __u32 l3_len)
{
	if (sizeof(struct ethhdr) + l3_len <= ctx->data_end - ctx->data)
		return true;
	return sizeof(struct ethhdr) + l3_len <= bpf_xdp_get_buff_len(ctx);
}

static __always_inline bool xv_parse_l4(struct xv_frame *f, void *l4, void *end, __u32 l4_len)
{
	struct tcphdr *tcp = l4;
	struct udphdr *udp = l4;

	f->tcp_flags = 0;
	if (f->t.proto == IPPROTO_TCP) {
		if ((void *)(tcp + 1) > end || l4_len < sizeof(*tcp))
			return false;
		f->tcp_flags = ((__u8 *)l4)[13];
	} else if (f->t.proto == IPPROTO_UDP) {
		if ((void *)(udp + 1) > end || l4_len < sizeof(*udp))
			return false;
	} else {
		return false;
	}
	f->t.ports = *(__u32 *)l4;
	return true;
}

static __always_inline bool xv_parse_plain_ipv4(struct xdp_md *ctx, struct xv_frame *f, struct iphdr *ip, void *end)
{
	if ((void *)(ip + 1) > end || *(__u8 *)ip != 0x45 || ip->ttl <= 1)
		return false;
	if (ip->frag_off & bpf_htons(XV_IP_MF | XV_IP_OFFSET) || !xv_ipv4_checksum_ok(ip))
		return false;
	f->family = 4;
	f->class = ip->tos;
	f->l3_len = bpf_ntohs(ip->tot_len);
	f->t.proto = ip->protocol;
	xv_map_ipv4(&f->t.src, ip->saddr);
	xv_map_ipv4(&f->t.dst, ip->daddr);
	if (!xv_parse_l4(f, ip + 1, end, f->l3_len - sizeof(*ip)))
		return false;
	return f->l3_len >= sizeof(*ip) && xv_frame_holds(ctx, f->l3_len);
}

static __always_inline bool xv_parse_plain_ipv6(struct xdp_md *ctx, struct xv_frame *f, struct ipv6hdr *ip, void *end)
{
	if ((void *)(ip + 1) > end || ip->version != 6 || ip->hop_limit <= 1)
		return false;
	f->family = 6;
	f->class = *(__be32 *)ip & bpf_htonl(0x0fffffff);
	f->l3_len = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	f->t.proto = ip->nexthdr;
	xv_copy_ipv6(&f->t.src, &ip->saddr);
	xv_copy_ipv6(&f->t.dst, &ip->daddr);
	return xv_parse_l4(f, ip + 1, end, f->l3_len - sizeof(*ip)) && xv_frame_holds(ctx, f->l3_len);
}

/* True: a TCP or UDP packet that nothing keeps from being fast, completely described by *f. */
static __always_inline bool xv_parse_plain(struct xdp_md *ctx, struct xv_frame *f)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	f->plain = 0;
	if ((void *)(eth + 1) > end)
		return false;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		if (!xv_parse_plain_ipv4(ctx, f, (void *)(eth + 1), end))
			return false;
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		if (!xv_parse_plain_ipv6(ctx, f, (void *)(eth + 1), end))
			return false;
	} else {
		return false;
	}
	f->plain = 1;
	f->has_ports = 1;
	f->obstacle = 0;
	f->icmp_error = 0;
	__builtin_memcpy(&f->macs, eth, sizeof(f->macs));
	return true;
}

static __always_inline void xv_load_ports(struct xdp_md *ctx, struct xv_frame *f, __u32 offset)
{
	if (f->t.proto != IPPROTO_TCP && f->t.proto != IPPROTO_UDP)
		return;
	f->has_ports = !bpf_xdp_load_bytes(ctx, offset, &f->t.ports, sizeof(f->t.ports));
}

/* The header is complete, but the packet is not plain: why? Its ports are read in all cases but a later fragment's. */
static __always_inline __u32 xv_ipv4_obstacle(struct xdp_md *ctx, struct xv_frame *f, struct iphdr *ip)
{
	__u32 header = (*(__u8 *)ip & 0xf) * 4;
	__be16 fragment = ip->frag_off & bpf_htons(XV_IP_MF | XV_IP_OFFSET);

	if (*(__u8 *)ip >> 4 != 4 || header < sizeof(*ip) || f->l3_len < header || !xv_frame_holds(ctx, f->l3_len))
		return XV_PASS_MALFORMED;
	if (header == sizeof(*ip) && !xv_ipv4_checksum_ok(ip))
		return XV_PASS_MALFORMED;
	if (!(fragment & bpf_htons(XV_IP_OFFSET)))
		xv_load_ports(ctx, f, sizeof(struct ethhdr) + header);
	if (fragment)
		return XV_PASS_FRAGMENT;
	if (header > sizeof(*ip))
		return XV_PASS_OPTIONS;
	if (ip->ttl <= 1)
		return XV_PASS_TTL;
	return f->t.proto == IPPROTO_TCP || f->t.proto == IPPROTO_UDP ? XV_PASS_MALFORMED : XV_PASS_PROTOCOL;
}

static __always_inline void xv_parse_rest_ipv4(struct xdp_md *ctx, struct xv_frame *f)
{
	struct iphdr ip;

	if (bpf_xdp_load_bytes(ctx, sizeof(struct ethhdr), &ip, sizeof(ip)))
		return;
	f->family = 4;
	f->class = ip.tos;
	f->l3_len = bpf_ntohs(ip.tot_len);
	f->t.proto = ip.protocol;
	xv_map_ipv4(&f->t.src, ip.saddr);
	xv_map_ipv4(&f->t.dst, ip.daddr);
	f->obstacle = xv_ipv4_obstacle(ctx, f, &ip);
}

/* Walks the extension headers to the ports, unless this is a later fragment. */
static __always_inline __u32 xv_ipv6_extensions(struct xdp_md *ctx, struct xv_frame *f)
{
	struct {
		__u8 next, len;
		__be16 fragment;
	} header;
	__u32 offset = sizeof(struct ethhdr) + sizeof(struct ipv6hdr);
	__u32 obstacle = 0;

	for (int i = 0; i < XV_MAX_EXTENSIONS; i++) {
		bool fragment = f->t.proto == IPPROTO_FRAGMENT;

		if (!fragment && f->t.proto != IPPROTO_HOPOPTS && f->t.proto != IPPROTO_ROUTING &&
		    f->t.proto != IPPROTO_DSTOPTS)
			break;
		if (bpf_xdp_load_bytes(ctx, offset, &header, sizeof(header)))
			return XV_PASS_MALFORMED;
		if (fragment && header.fragment & bpf_htons(XV_IP6_OFFSET))
			return XV_PASS_FRAGMENT;
		obstacle = fragment ? XV_PASS_FRAGMENT : obstacle ? obstacle : XV_PASS_OPTIONS;
		offset += fragment ? 8 : (header.len + 1) * 8;
		f->t.proto = header.next;
	}
	xv_load_ports(ctx, f, offset);
	return obstacle;
}

static __always_inline void xv_parse_rest_ipv6(struct xdp_md *ctx, struct xv_frame *f)
{
	struct ipv6hdr ip;

	if (bpf_xdp_load_bytes(ctx, sizeof(struct ethhdr), &ip, sizeof(ip)))
		return;
	f->family = 6;
	f->class = *(__be32 *)&ip & bpf_htonl(0x0fffffff);
	f->l3_len = bpf_ntohs(ip.payload_len) + sizeof(ip);
	f->t.proto = ip.nexthdr;
	xv_copy_ipv6(&f->t.src, &ip.saddr);
	xv_copy_ipv6(&f->t.dst, &ip.daddr);
	if (ip.version != 6 || !xv_frame_holds(ctx, f->l3_len))
		return;
	f->obstacle = xv_ipv6_extensions(ctx, f);
	if (f->obstacle)
		return;
	if (ip.hop_limit <= 1)
		f->obstacle = XV_PASS_TTL;
	else
		f->obstacle = f->has_ports ? XV_PASS_MALFORMED : XV_PASS_PROTOCOL;
}

/* Whom an ARP frame is from: it tells a MAC as an IP packet does. */
static __always_inline void xv_parse_rest_arp(struct xdp_md *ctx, struct xv_frame *f)
{
	struct {
		__be16 hardware, protocol;
		__u8 hardware_len, protocol_len;
		__be16 operation;
		__u8 sender_mac[6];
		__u8 sender_ip[4];
	} arp;
	__be32 sender;

	if (bpf_xdp_load_bytes(ctx, sizeof(struct ethhdr), &arp, sizeof(arp)))
		return;
	if (arp.protocol != bpf_htons(ETH_P_IP) || arp.hardware_len != sizeof(arp.sender_mac) ||
	    arp.protocol_len != sizeof(arp.sender_ip))
		return;
	__builtin_memcpy(&sender, arp.sender_ip, sizeof(sender));
	xv_map_ipv4(&f->t.src, sender);
}

/* For frames that are not plain: what is the matter (f->obstacle, never 0), and as much of the rest as can be read. */
static __always_inline void xv_parse_rest(struct xdp_md *ctx, struct xv_frame *f)
{
	struct ethhdr eth;

	__builtin_memset(f, 0, sizeof(*f));
	f->obstacle = XV_PASS_MALFORMED;
	if (bpf_xdp_load_bytes(ctx, 0, &eth, sizeof(eth)))
		return;
	__builtin_memcpy(&f->macs, &eth, sizeof(f->macs));
	if (eth.h_proto == bpf_htons(ETH_P_IP))
		xv_parse_rest_ipv4(ctx, f);
	else if (eth.h_proto == bpf_htons(ETH_P_IPV6))
		xv_parse_rest_ipv6(ctx, f);
	else if (eth.h_proto == bpf_htons(ETH_P_8021Q) || eth.h_proto == bpf_htons(ETH_P_8021AD))
		f->obstacle = XV_PASS_VLAN;
	else
		f->obstacle = XV_PASS_NOT_IP;
	if (eth.h_proto == bpf_htons(ETH_P_ARP))
		xv_parse_rest_arp(ctx, f);
}

/*
 * Describes any frame. A global function: the verifier looks at it once for itself, and what comes after starts from one
 * state instead of one for every way through the headers. *f must be initialised (kernels before 6.3 insist).
 */
__noinline int xv_parse(struct xdp_md *ctx, struct xv_frame *f)
{
	if (!f)
		return 0;
	if (!xv_parse_plain(ctx, f))
		xv_parse_rest(ctx, f);
	return 0;
}

/* <linux/icmp.h> does not compile for the bpf target: it includes libc's headers. */
#define XV_ICMP_DEST_UNREACH 3
#define XV_ICMP_TIME_EXCEEDED 11
#define XV_ICMP_PARAMETER_PROBLEM 12
#define XV_ICMP6_ERRORS_END 5 /* 1 … 4: unreachable, too big, time exceeded, parameter problem */
#define XV_ICMP_HEADER 8

static __always_inline bool xv_is_icmp_error(const struct xv_frame *f, __u8 type)
{
	if (f->family == 4)
		return type == XV_ICMP_DEST_UNREACH || type == XV_ICMP_TIME_EXCEEDED ||
		       type == XV_ICMP_PARAMETER_PROBLEM;
	return type >= 1 && type < XV_ICMP6_ERRORS_END;
}

/* Reads the quoted packet at `offset` into *quoted; false when it is not the beginning of a TCP or UDP packet. */
static __always_inline bool xv_parse_quoted(struct xdp_md *ctx, __u32 family, __u32 offset, struct xv_tuple *quoted)
{
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	} ip;

	if (family == 4) {
		if (bpf_xdp_load_bytes(ctx, offset, &ip.v4, sizeof(ip.v4)) || ip.v4.frag_off & bpf_htons(XV_IP_OFFSET))
			return false;
		xv_map_ipv4(&quoted->src, ip.v4.saddr);
		xv_map_ipv4(&quoted->dst, ip.v4.daddr);
		quoted->proto = ip.v4.protocol;
		offset += (*(__u8 *)&ip.v4 & 0xf) * 4;
	} else {
		if (bpf_xdp_load_bytes(ctx, offset, &ip.v6, sizeof(ip.v6)))
			return false;
		xv_copy_ipv6(&quoted->src, &ip.v6.saddr);
		xv_copy_ipv6(&quoted->dst, &ip.v6.daddr);
		quoted->proto = ip.v6.nexthdr;
		offset += sizeof(ip.v6);
	}
	if (quoted->proto != IPPROTO_TCP && quoted->proto != IPPROTO_UDP)
		return false;
	return !bpf_xdp_load_bytes(ctx, offset, &quoted->ports, sizeof(quoted->ports));
}

/*
 * Turns an ICMP error that quotes a TCP or UDP packet into a frame of that flow. It travels against the quoted packet,
 * and goes to the quoted packet's sender (else it is forged, and to conntrack INVALID).
 */
__noinline int xv_follow_quoted_flow(struct xdp_md *ctx, struct xv_frame *f)
{
	struct xv_tuple quoted;
	__u32 icmp;
	__u8 type;

	if (!f)
		return 0;
	icmp = sizeof(struct ethhdr) + (f->family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
	if (f->t.proto != (f->family == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return 0;
	if (bpf_xdp_load_bytes(ctx, icmp, &type, sizeof(type)) || !xv_is_icmp_error(f, type))
		return 0;
	if (!xv_parse_quoted(ctx, f->family, icmp + XV_ICMP_HEADER, &quoted))
		return 0;
	if (!xv_same_addr(&quoted.src, &f->t.dst))
		return 0;
	f->t.src = quoted.dst;
	f->t.sport = quoted.dport;
	f->t.dport = quoted.sport;
	f->t.proto = quoted.proto;
	f->has_ports = 1;
	f->icmp_error = 1;
	f->obstacle = 0;
	return 0;
}

#endif
