/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the programs in the kernel and the code in user space: every map's key and value.
 * Included by both; C11 and C++23. Change a size and XV_LAYOUT must grow: running nodes keep their pinned maps.
 *
 * Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d, in network order. "port" means an XDP port (a container's host end or
 * a NIC), never a TCP or UDP port: those are called sport and dport.
 */
#ifndef XVETH_ABI_H
#define XVETH_ABI_H

#include <linux/types.h>

#ifdef __cplusplus
#define XV_ASSERT_SIZE(type, size) static_assert(sizeof(type) == (size), #type)
namespace xveth::bpf {
#else
#define XV_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
#endif

enum {
	XV_LAYOUT = 1,        /* number in the pin path: /sys/fs/bpf/xveth/v1/<netns cookie>/ */
	XV_MAX_PORTS = 16384, /* port ids 1 … XV_MAX_PORTS - 1; 0 = none */
	XV_MAX_ENDPOINTS = 65536,
	XV_MAX_FLOWS = 131072,  /* fast flows at one time on a node */
	XV_CACHE_SLOTS = 4096,  /* per CPU, direct-mapped; a power of two; fewer where there are hundreds of CPUs */
	XV_FLOW_BUCKETS = 4096, /* generation buckets of the flow table; power of two */
	XV_STACK_SLOTS = 65536, /* UDP flows that the stack began; power of two */
	XV_MAX_CHAINS = 256,    /* chain ids 1 … XV_MAX_CHAINS - 1; 0 = none */
	XV_CHAIN_SLOTS = 16,    /* functions of one chain; a power of two */
	XV_CHAIN_NAME = 64,     /* with the 0 at its end */
};

/* xv_port_info (ARRAY, mmapable): what a port is. ifindex 0 = the id is free. */
enum xv_port_flags {
	XV_PORT_NIC = 1 << 0,  /* a device of the node, not a container's host end */
	XV_PORT_FAST = 1 << 1, /* policy lets frames bypass netfilter and tc */
	XV_PORT_SPOOFCHECK = 1 << 2,
	XV_PORT_EXTRA_SOURCES = 1 << 3, /* has entries in xv_sources */
	XV_PORT_FAST_TO = 1 << 4,       /* has entries in xv_fast_to */
	XV_PORT_TARGET = 1 << 5,     /* can take redirected frames: it is in xv_ports and the kernel reports NDO_XMIT */
	XV_PORT_PROTECTED = 1 << 6,  /* frames for it pass through the functions of its chain first */
	XV_PORT_ISOLATED = 1 << 7,   /* bridge: no frames to or from other isolated ports */
	XV_PORT_STACK_PATH = 1 << 8, /* protected: what the chain cannot carry is delivered, instead of dropped */
};

struct xv_port {
	__u32 ifindex; /* in the node's namespace */
	__u32 flags;   /* enum xv_port_flags */
	__u32 mtu;     /* largest L3 packet that the port takes */
	__u32 epoch; /* new at each allocation of the id: a flow remembers it, so a reused address is another endpoint */
	__u8 mac[6]; /* destination of frames sent to it: the container's eth0 (learned by xv_host); a NIC's own address */
	__u8 host_mac[6]; /* source of frames sent to it: the host end's; a NIC's own address */
	__u32 learned;    /* when xv_host last changed mac, in units of 2^30 ns: at most once in each */
	__u16 chain;      /* of a function: its chain; of a protected container: the chain before it; 0 = none */
	__u16 position;   /* of a function in its chain; 0 = no function */
	__u16 bridge;     /* the bridge that it is a port of; 0 = a routed port */
	__u16 vlan;       /* bridge: the port's own VLAN, untagged there; 0 = none */
	__u32 reserved[2];
};
XV_ASSERT_SIZE(struct xv_port, 48);

/* xv_port_of (HASH): ifindex of a device that runs xv_nic or xv_host -> port id. */

/* xv_ports (DEVMAP_HASH): port id -> struct bpf_devmap_val {ifindex, no program}. */

/* xv_endpoints (HASH): address of a container -> port id. */
struct xv_addr {
	union {
		__u8 bytes[16];
		__u64 words[2];
	};
};
XV_ASSERT_SIZE(struct xv_addr, 16);

/* xv_sources (allowedSources) and xv_fast_to (fastPathTo), LPM_TRIE: per port, address prefix -> 1 */
struct xv_port_prefix {
	__u32 prefixlen; /* 32 (the port id) + 96 for IPv4 + the prefix's own length */
	__u32 port;
	__u8 addr[16];
};
XV_ASSERT_SIZE(struct xv_port_prefix, 24);

/* xv_node (ARRAY of 1, mmapable): what holds for the whole node. */
enum xv_node_flags {
	XV_NODE_AGENT =
		1 << 0, /* xvethd keeps next hops resolved: the source MAC of inbound frames need not match theirs */
	XV_NODE_CONNTRACK = 1 << 1, /* the loaded programs can ask conntrack; set once, at load */
	XV_NODE_TRACE = 1 << 2,     /* redirect errors are counted; set once, at load */
};

struct xv_node {
	__u32 generation; /* grows at every change of ports or endpoints: cached verdicts of an older one are asked anew */
	__u32 flags;      /* enum xv_node_flags */
	__u32 next_port; /* where the search for a free port id starts */
	__u32 next_epoch;
	__u32 ports_map_id; /* of xv_ports, by which xv_redirect_err knows our redirects */
	__u32 reserved[11];
};
XV_ASSERT_SIZE(struct xv_node, 64);

/* xv_flows (HASH): who started a flow that is, or was, fast. Never evicts a live entry (see lib/flow.bpf.h). */
struct xv_flow_key {
	struct xv_addr lo, hi; /* the smaller (address, L4 port) first, so that both directions have one key */
	__be16 lo_port, hi_port;
	__u8 proto; /* IPPROTO_TCP, IPPROTO_UDP */
	__u8 zero[3];
};
XV_ASSERT_SIZE(struct xv_flow_key, 40);

enum xv_flow_verdict { XV_FLOW_FAST = 1, XV_FLOW_STACK = 2 };

struct xv_flow {
	__u64 seen_ns;            /* coarse CLOCK_MONOTONIC, renewed about once a second */
	__u64 lifetime_ns;        /* dead when seen_ns is longer ago */
	__u32 lo_epoch, hi_epoch; /* epoch of the port of each address; 0 = not a container of this node */
	__u32 slot;               /* its place in xv_flow_ring */
	__u8 verdict;             /* enum xv_flow_verdict */
	__u8 from_hi;             /* the first frame came from hi */
	__u8 replied;
	__u8 closing; /* FIN or RST seen */
};
XV_ASSERT_SIZE(struct xv_flow, 32);

/*
 * xv_chains (ARRAY, mmapable, index chain id): functions that frames for a protected container pass through, in order of
 * position. A slot is written by one 64-bit store: programs see each change as a whole. Slots are in
 * no order; a function that joins moves none of the others.
 */
enum xv_slot_state {
	XV_SLOT_FREE = 0,
	XV_SLOT_LIVE = 1,
	XV_SLOT_GONE = 2, /* the function is away or cannot take frames: on_failure says what becomes of them */
};

enum xv_on_failure { XV_ON_FAILURE_DROP = 0, XV_ON_FAILURE_BYPASS = 1 };

struct xv_chain_slot {
	__u32 port;      /* a port whose chain and position are these; another one counts as gone */
	__u16 position;  /* 1 … 65535, no two alike in a chain */
	__u8 state;      /* enum xv_slot_state */
	__u8 on_failure; /* enum xv_on_failure */
};
XV_ASSERT_SIZE(struct xv_chain_slot, 8);

struct xv_chain {
	struct xv_chain_slot slots[XV_CHAIN_SLOTS];
	__u32 used; /* behind this slot all are free: programs look no further */
	__u32 reserved;
	char name[XV_CHAIN_NAME]; /* "" = the id is free */
};
XV_ASSERT_SIZE(struct xv_chain, 200);

/*
 * xv_hops (PERCPU_ARRAY, index chain id * XV_CHAIN_SLOTS + slot): what happened at a function to frames of its chain. What
 * is in, and neither out nor dropped, the function dropped or kept, or it is on its way.
 */
struct xv_hop {
	__u64 in;      /* sent to the function */
	__u64 out;     /* came back, and went on to the next function or to the container */
	__u64 dropped; /* came back, and could not go on; the reason is counted at the function's port */
	__u64 zero;
};
XV_ASSERT_SIZE(struct xv_hop, 32);

/*
 * xv_counters (PERCPU_ARRAY, index port id): frames that the fast path carried.
 * Port 0, XV_TO_PORT: frames that reached any container by xv_pod, which cannot know its port: an ifindex means nothing
 * outside its namespace.
 */
enum xv_direction { XV_TO_PORT = 0, XV_FROM_PORT = 1 };

struct xv_counter {
	__u64 frames;
	__u64 bytes;
};

struct xv_counters {
	struct xv_counter of[2]; /* enum xv_direction */
};
XV_ASSERT_SIZE(struct xv_counters, 32);

/* xv_reasons (PERCPU_HASH): everything else that happened to frames that entered at a port. */
struct xv_reason_key {
	__u32 port;
	__u32 reason; /* enum xv_reason */
};
XV_ASSERT_SIZE(struct xv_reason_key, 8);

/* One list for passes, drops and redirect errors; the names are user-visible (xvethctl stats, docs). */
enum xv_reason {
	/* passed to the stack, unmodified */
	XV_PASS_NOT_IP = 1, /* ARP, LLDP, unknown EtherType */
	XV_PASS_VLAN,
	XV_PASS_OTHER_MAC, /* not addressed to this port's MAC: broadcast, multicast, another host's */
	XV_PASS_MALFORMED, /* too short, bad header length or checksum: the stack judges it */
	XV_PASS_OPTIONS,   /* IP options, IPv6 extension headers */
	XV_PASS_FRAGMENT,
	XV_PASS_TTL,          /* TTL or hop limit 1 or less */
	XV_PASS_PROTOCOL,     /* neither TCP nor UDP, or an ICMP message that quotes no fast flow */
	XV_PASS_UNKNOWN_DST,  /* no endpoint of this node, and not for the fast path beyond it */
	XV_PASS_TOO_BIG,      /* larger than the target's MTU */
	XV_PASS_POLICY,       /* one of the two ports must not bypass the stack */
	XV_PASS_NO_TARGET,    /* the target cannot take redirected frames now */
	XV_PASS_CONNTRACK,    /* conntrack knows the flow: it is the stack's */
	XV_PASS_FLOW_STACK,   /* the flow fell to the stack earlier */
	XV_PASS_MID_FLOW,     /* TCP that did not begin on the fast path */
	XV_PASS_NO_WAY_BACK,  /* no route, neighbour or XDP device for the replies */
	XV_PASS_NEIGHBOUR,    /* no route or neighbour for this frame (bpf_fib_lookup) */
	XV_PASS_TABLE_FULL,   /* no room for a new fast flow */
	XV_PASS_NO_CONNTRACK, /* loaded without conntrack: only flows between containers are fast */
	XV_PASS_CACHED,       /* a cached "stack" verdict, whose reason was counted when it was made */
	XV_PASS_UNKNOWN_PORT, /* the device is no port (yet) */
	XV_PASS_LINK_LOCAL,   /* source is link-local or unspecified: ND, DHCP */
	XV_PASS_RESERVED_MAC, /* bridge: for 01:80:c2:00:00:0x, which no bridge forwards by itself */
	XV_PASS_FLOOD,        /* bridge: for several ports, and XDP cannot reach them all with it */
	/* dropped */
	XV_DROP_SPOOFED = 64,  /* source address is not the container's */
	XV_DROP_BAD_SOURCE,    /* bridge: source MAC is a group's or zero */
	XV_DROP_MAC_TAKEN,     /* bridge: source MAC is that of another port's container */
	XV_DROP_OWN_PORT,      /* bridge: destination is at the port that the frame came from */
	XV_DROP_ISOLATED,      /* bridge: from an isolated port to another */
	XV_DROP_VLAN,          /* bridge: the port is not in the frame's VLAN */
	XV_DROP_CHAIN_EMPTY,   /* for a protected container whose chain has no function */
	XV_DROP_CHAIN_GONE,    /* the next function of the chain is gone, and its onFailure is drop */
	XV_DROP_CHAIN_TARGET,  /* the protected container cannot take redirected frames now */
	XV_DROP_CHAIN_TOO_BIG, /* larger than the MTU of the next function or container */
	XV_DROP_CHAIN_STACK, /* the stack would deliver to a protected container what a chain cannot carry, or too early */
	/* the kernel could not deliver what a program redirected (tracepoint xdp_redirect_err); the frame is lost */
	XV_ERR_NO_XMIT = 96, /* EOPNOTSUPP: target has no NDO_XMIT */
	XV_ERR_DOWN,         /* ENETDOWN */
	XV_ERR_TOO_BIG,      /* EMSGSIZE */
	XV_ERR_OTHER,
	XV_REASON_MAX,
};

#ifdef __cplusplus
}  // namespace xveth::bpf
#endif

#endif
