# SPDX-License-Identifier: Apache-2.0
"""Which way frames go, proved by counters: what can be redirected is, everything else reaches its goal by the stack.

Counters of UDP flows are exact: a datagram is a frame, and neighbours are known, so that nothing else is redirected.
"""

import socket
import struct

import pytest

from lib import bpf, traffic
from lib.stats import Watch
from lib.topology import CLIENT, GATEWAY, NODE, Topology
from lib.traffic import (TcpFlow, UdpFlow, free_port, icmp_error_of, listen_udp, open_socket, ping, receives, send_frame,
                         tcp_works, udp_packet, udp_works)

N = 20  # datagrams each way
FAMILIES = pytest.mark.parametrize("family", [4, 6], ids=["IPv4", "IPv6"])
UNKNOWN = {4: "10.2.0.250", 6: "fd00:2::fa"}


class Lab(Topology):
    """A node with two containers of a dual-stack network; frames of 1500 bytes everywhere, as beyond the node."""

    def __init__(self, **keys):
        super().__init__()
        self.runtime = self.network(families=(4, 6), **{"localMtu": 0, **keys})
        self.a, self.b = self.attach(self.runtime), self.attach(self.runtime)
        self.know_neighbours()

    def know_neighbours(self):
        for family in (4, 6):
            ping(self.node, CLIENT[family], count=1)
            ping(self.client, NODE[family], count=1)


@pytest.fixture(scope="module")
def lab():
    world = Lab()
    yield world
    world.close()


@pytest.fixture
def make_lab():
    worlds = []

    def make(**keys):
        worlds.append(Lab(**keys))
        return worlds[-1]
    yield make
    for world in worlds:
        world.close()


def unknown(port):
    """Frames passed because their goal is no endpoint: said once a second for a flow, remembered in between."""
    return port.reasons.get("pass_unknown_dst", 0) + port.reasons.get("pass_cached", 0)


def l4_passes(port):
    """Frames of a port that went to the stack, less ARP, ND and what belongs to no flow."""
    quiet = {"pass_not_ip", "pass_other_mac", "pass_protocol", "pass_container"}
    return {name: count for name, count in port.reasons.items() if name not in quiet}


# -- redirected

@FAMILIES
def test_udp_between_containers_is_redirected_from_the_first_frame(lab, family):
    with Watch(lab) as seen:
        udp_works(lab.a.ns, lab.b.ns, lab.b.address(family), count=N)
    assert (seen[lab.a].from_port, seen[lab.b].to_port) == (N, N), seen
    assert (seen[lab.b].from_port, seen[lab.a].to_port) == (N, N), seen
    assert not l4_passes(seen[lab.a]) and not l4_passes(seen[lab.b]), seen
    assert seen["nic0"].from_port == seen["nic0"].to_port == 0, seen


@FAMILIES
def test_tcp_between_containers_is_redirected_from_syn_to_fin(lab, family):
    with Watch(lab) as seen:
        tcp_works(lab.a.ns, lab.b.ns, lab.b.address(family), length=500_000)
    assert seen[lab.a].from_port == seen[lab.b].to_port >= 300, seen
    assert seen[lab.b].from_port == seen[lab.a].to_port >= 300, seen
    assert not l4_passes(seen[lab.a]) and not l4_passes(seen[lab.b]), seen


@FAMILIES
def test_udp_from_the_wire_and_its_replies_are_redirected(lab, family):
    with Watch(lab) as seen:
        udp_works(lab.client, lab.a.ns, lab.a.address(family), count=N)
    assert (seen["nic0"].from_port, seen[lab.a].to_port) == (N, N), seen
    assert (seen[lab.a].from_port, seen["nic0"].to_port) == (N, N), seen
    assert not l4_passes(seen["nic0"]) and not l4_passes(seen[lab.a]), seen


@FAMILIES
def test_tcp_from_the_wire_is_redirected_both_ways(lab, family):
    with Watch(lab) as seen:
        tcp_works(lab.client, lab.a.ns, lab.a.address(family), length=500_000)
    assert seen["nic0"].from_port == seen[lab.a].to_port >= 100, seen
    assert seen[lab.a].from_port == seen["nic0"].to_port >= 100, seen
    assert not l4_passes(seen["nic0"]) and not l4_passes(seen[lab.a]), seen


@FAMILIES
def test_redirected_frames_have_one_hop_less(lab, family):
    flow = UdpFlow(lab.client, lab.a.ns, lab.a.address(family))
    level, name, kind = ((socket.IPPROTO_IP, traffic.IP_RECVTTL, socket.IP_TTL) if family == 4 else
                         (socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, socket.IPV6_HOPLIMIT))
    flow.server.setsockopt(level, name, 1)
    with Watch(lab) as seen:
        flow.client.send(b"x")
        _, ancillary, _, _ = flow.server.recvmsg(100, 100)
    flow.close()
    hops = next(struct.unpack("i", data)[0] for _, what, data in ancillary if what == kind)
    assert hops == 63 and seen["nic0"].from_port == 1


@FAMILIES
def test_flow_to_a_named_destination_is_redirected_both_ways(make_lab, family):
    lab = make_lab(fastPathTo=["10.1.0.0/24", "fd00:1::/64"])
    with Watch(lab) as seen:
        udp_works(lab.a.ns, lab.client, CLIENT[family], count=N)
    assert (seen[lab.a].from_port, seen["nic0"].to_port) == (N, N), seen
    assert (seen["nic0"].from_port, seen[lab.a].to_port) == (N, N), seen
    with Watch(lab) as seen:
        tcp_works(lab.a.ns, lab.client, CLIENT[family])
    assert seen[lab.a].from_port == seen["nic0"].to_port >= 100, seen
    assert not l4_passes(seen["nic0"]) and not l4_passes(seen[lab.a]), seen


# -- the stack's

@FAMILIES
@pytest.mark.parametrize("tracked", [False, True], ids=["untracked", "conntrack"])
def test_flow_that_a_container_starts_beyond_the_node_is_the_stacks_both_ways(make_lab, family, tracked):
    lab = make_lab()
    if tracked:
        lab.node.chain("forward", "ct state invalid drop")
    with Watch(lab) as seen:
        udp_works(lab.a.ns, lab.client, CLIENT[family], count=N)
        tcp_works(lab.a.ns, lab.client, CLIENT[family])
    assert seen[lab.a].from_port == seen[lab.a].to_port == 0, seen
    assert seen["nic0"].from_port == seen["nic0"].to_port == 0, seen


@FAMILIES
def test_node_and_gateway_addresses_are_the_stacks(lab, family):
    for target in (NODE[family], GATEWAY[family]):
        with Watch(lab) as seen:
            udp_works(lab.a.ns, lab.node, target, count=N)
            tcp_works(lab.a.ns, lab.node, target)
            ping(lab.a.ns, target)
        assert seen[lab.a].from_port == seen[lab.a].to_port == 0, seen
        assert unknown(seen[lab.a]) >= N and seen.reason(lab.a, "pass_unknown_dst") >= 1, seen
    with Watch(lab) as seen:
        udp_works(lab.client, lab.node, NODE[family], count=N)
        udp_works(lab.node, lab.a.ns, lab.a.address(family), count=N)  # as a kubelet's probe
        tcp_works(lab.node, lab.a.ns, lab.a.address(family))
    assert unknown(seen["nic0"]) >= N and seen.reason("nic0", "pass_unknown_dst") >= 1, seen
    assert seen["nic0"].from_port == seen[lab.a].from_port == seen[lab.a].to_port == 0, seen


@FAMILIES
def test_echo_goes_by_the_stack(lab, family):
    with Watch(lab) as seen:
        ping(lab.a.ns, lab.b.address(family), count=4)
        ping(lab.client, lab.a.address(family), count=4)
        ping(lab.client, lab.a.address(family), count=2, size=4000)
    assert seen.reason(lab.a, "pass_protocol") >= 8 and seen.reason("nic0", "pass_protocol") >= 4, seen
    assert all(seen[p].from_port == seen[p].to_port == 0 for p in (lab.a, lab.b, "nic0")), seen


@FAMILIES
def test_neighbour_discovery_goes_by_the_stack(make_lab, family):
    lab = make_lab()
    lab.a.ns.run("ip", "neigh", "flush", "all", "nud", "all")
    lab.a.ns.ip(f"neigh del {GATEWAY[family]} dev eth0", check=False)
    lab.client.run("ip", "neigh", "flush", "all")
    with Watch(lab) as seen:
        udp_works(lab.a.ns, lab.client, CLIENT[family], count=2)
    if family == 4:
        assert seen.reason(lab.a, "pass_not_ip") >= 1, seen
    else:
        assert seen.reason(lab.a, "pass_protocol") + seen.reason(lab.a, "pass_other_mac") >= 1, seen


@FAMILIES
def test_fragments_go_by_the_stack(lab, family):
    """A datagram of 4000 bytes is three fragments; bigger than the others' MTU, they arrive whole all the same."""
    with Watch(lab) as seen:
        flow = UdpFlow(lab.a.ns, lab.b.ns, lab.b.address(family))
        flow.exchange(5, size=4000)
        flow.close()
        flow = UdpFlow(lab.client, lab.a.ns, lab.a.address(family))
        flow.exchange(5, size=4000)
        flow.close()
    assert all(seen[p].from_port == seen[p].to_port == 0 for p in (lab.a, lab.b, "nic0")), seen
    fragment = "pass_fragment" if family == 4 else "pass_options"
    others = seen.reason("nic0", "pass_fragment") + seen.reason("nic0", "pass_options")
    assert seen.reason(lab.a, fragment) + (seen.reason(lab.a, "pass_fragment") if family == 6 else 0) >= 30 and others >= 15, seen


@FAMILIES
def test_last_hop_is_the_stacks_which_answers(lab, family):
    flow = UdpFlow(lab.client, lab.a.ns, lab.a.address(family))
    if family == 4:
        flow.client.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        flow.client.setsockopt(socket.IPPROTO_IP, traffic.IP_RECVERR, 1)
    else:
        flow.client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 1)
        flow.client.setsockopt(socket.IPPROTO_IPV6, traffic.IPV6_RECVERR, 1)
    with Watch(lab) as seen:
        flow.client.send(b"dies here")
        assert icmp_error_of(flow.client) == "EHOSTUNREACH"
    assert not receives(flow.server, 0.1)
    flow.close()
    assert seen.reason("nic0", "pass_ttl") == 1 and seen["nic0"].from_port == 0, seen


def test_ip_options_go_by_the_stack(lab):
    with Watch(lab) as seen:
        for client, server in ((lab.client, lab.a), (lab.b.ns, lab.a)):
            flow = UdpFlow(client, server.ns, server.address())
            flow.client.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\x01\x01\x01\x00")
            for _ in range(5):
                flow.request()
            flow.close()
    assert seen.reason("nic0", "pass_options") == 5 and seen.reason(lab.b, "pass_options") == 5, seen
    assert seen[lab.a].to_port == 0, seen


def test_ipv6_extension_headers_go_by_the_stack(lab):
    flow = UdpFlow(lab.client, lab.a.ns, lab.a.address(6))
    flow.client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, b"\x00\x00\x01\x04\x00\x00\x00\x00")
    with Watch(lab) as seen:
        for _ in range(5):
            flow.request()
    flow.close()
    assert seen.reason("nic0", "pass_options") == 5 and seen[lab.a].to_port == 0, seen


@FAMILIES
def test_address_that_nobody_has_is_the_stacks(lab, family):
    with Watch(lab) as seen:
        for ns in (lab.a.ns, lab.client):
            with open_socket(ns, traffic.family_of(UNKNOWN[family]), socket.SOCK_DGRAM) as sock:
                for _ in range(5):
                    sock.sendto(b"anybody?", (UNKNOWN[family], free_port()))
    assert seen.reason(lab.a, "pass_unknown_dst") >= 5 and seen.reason("nic0", "pass_unknown_dst") >= 5, seen


@FAMILIES
def test_tagged_frames_are_the_stacks_and_reach_no_container(lab, family):
    port = free_port()
    with listen_udp(lab.a.ns, lab.a.address(family), port) as server, Watch(lab) as seen:
        packet = udp_packet(CLIENT[family], lab.a.address(family), free_port(), port)
        for _ in range(5):
            send_frame(lab.client, "eth0", lab.node.link("nic0")["address"], packet, vlan=100)
        assert not receives(server)
    assert seen.reason("nic0", "pass_vlan") == 5 and seen[lab.a].to_port == 0, seen


def test_tag_of_a_container_is_seen_and_not_lost(make_lab):
    """A VLAN device with offload leaves its tag to the interface: that of a container writes it into the frame."""
    lab = make_lab()
    lab.a.ns.run("tc", "qdisc", "add", "dev", "eth0", "clsact")
    lab.a.ns.run("tc", "filter", "add", "dev", "eth0", "egress", "bpf", "da", "object-pinned", bpf.push_vlan_tag(100))
    port = free_port()
    with listen_udp(lab.b.ns, lab.b.address(), port) as server, open_socket(
            lab.a.ns, socket.AF_INET, socket.SOCK_DGRAM) as sock, Watch(lab) as seen:
        for _ in range(5):
            sock.sendto(b"tagged", (lab.b.address(), port))
        assert not receives(server)
    assert seen.reason(lab.a, "pass_vlan") >= 5 and seen[lab.b].to_port == 0, seen


def test_nic_leaves_tags_in_the_frames(lab):
    assert not lab.node.features("nic0")["rx-vlan-offload"]


@pytest.mark.parametrize("packet", [b"", b"\x45", b"\x45" + b"\0" * 18, b"\x44" + b"\0" * 40, b"\x60" + b"\0" * 20,
                                    b"\x4f" + b"\0" * 25, b"\x45\0\xff\xff" + b"\0" * 40], ids=[
    "empty", "one byte", "19 bytes", "header too small", "IPv6 cut", "options cut", "longer than it is"])
def test_malformed_packets_harm_nobody(lab, packet):
    before = lab.stats()
    for ns, device, mac in ((lab.client, "eth0", lab.node.link("nic0")["address"]),
                            (lab.a.ns, "eth0", lab.node.link(lab.a.host_end)["address"])):
        send_frame(ns, device, mac, packet or b"\0", ethertype=0x86DD if packet[:1] == b"\x60" else 0x0800)
    delta = lab.stats() - before
    assert delta["nic0"].from_port == delta[lab.a].from_port == 0, delta
    udp_works(lab.client, lab.a.ns, lab.a.address(), count=1)


def test_frames_for_other_macs_are_the_stacks(lab):
    packet = udp_packet(CLIENT[4], lab.a.address(), free_port(), free_port())
    with Watch(lab) as seen:
        for mac in ("02:00:00:00:00:99", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01"):
            send_frame(lab.client, "eth0", mac, packet)
    assert seen.reason("nic0", "pass_other_mac") >= 3 and seen["nic0"].from_port == 0, seen


# -- spoofed

@FAMILIES
def test_spoofed_sources_are_dropped_and_counted(lab, family):
    port = free_port()
    forged = {4: "10.2.0.99", 6: "fd00:2::99"}[family]
    mac = lab.node.link(lab.a.host_end)["address"]
    with listen_udp(lab.b.ns, lab.b.address(family), port) as beside, listen_udp(
            lab.client, CLIENT[family], port) as outside, Watch(lab) as seen:
        for target in (lab.b.address(family), CLIENT[family]):
            for source in (forged, lab.b.address(family), NODE[family]):
                send_frame(lab.a.ns, "eth0", mac, udp_packet(source, target, free_port(), port))
        assert not receives(beside) and not receives(outside, 0.1)
    assert seen.reason(lab.a, "drop_spoofed") == 6, seen
    assert seen[lab.a].from_port == 0, seen


def test_spoofed_arp_does_not_steal_an_address(lab):
    """An ARP announcement of another container's address must not draw its traffic."""
    mine = lab.a.ns.link("eth0")["address"]
    arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + traffic.mac_bytes(mine) + socket.inet_aton(lab.b.address())
    arp += b"\0" * 6 + socket.inet_aton(lab.b.address())
    send_frame(lab.a.ns, "eth0", "ff:ff:ff:ff:ff:ff", arp, ethertype=0x0806)
    udp_works(lab.client, lab.b.ns, lab.b.address(), count=3)
    udp_works(lab.node, lab.b.ns, lab.b.address(), count=3)


@FAMILIES
def test_allowed_sources_and_switched_off_check(make_lab, family):
    extra = {4: "192.0.2.7", 6: "fd00:77::7"}[family]
    for keys in ({"allowedSources": ["192.0.2.0/24", "fd00:77::/64"]}, {"spoofCheck": False}):
        lab, port = make_lab(**keys), free_port()
        mac = lab.node.link(lab.a.host_end)["address"]
        with listen_udp(lab.b.ns, lab.b.address(family), port) as server, Watch(lab) as seen:
            send_frame(lab.a.ns, "eth0", mac, udp_packet(extra, lab.b.address(family), free_port(), port))
            assert receives(server, 1), seen
        assert seen.reason(lab.a, "drop_spoofed") == 0, seen


# -- masquerade, and nodes without a NIC

@FAMILIES
def test_masqueraded_traffic_is_the_stacks_and_correct(make_lab, family):
    lab = make_lab(ipMasq=True)
    lab.client.ip("route del 10.0.0.0/8") if family == 4 else lab.client.ip("-6 route del fd00::/16")
    with Watch(lab) as seen:
        flow = UdpFlow(lab.a.ns, lab.client, CLIENT[family])
        assert flow.request()[0] == NODE[family]
        flow.reply()
        flow.exchange(N)
        flow.close()
        flow = TcpFlow(lab.a.ns, lab.client, CLIENT[family])
        assert flow.peer[0] == NODE[family]
        flow.exchange()
        flow.close()
    assert seen[lab.a].from_port == seen[lab.a].to_port == seen["nic0"].from_port == seen["nic0"].to_port == 0, seen


@FAMILIES
def test_beside_masquerade_direct_flows_stay_fast_and_keep_their_addresses(make_lab, family):
    lab = make_lab(ipMasq=True)
    with Watch(lab) as seen:
        flow = UdpFlow(lab.client, lab.a.ns, lab.a.address(family))
        assert flow.request()[0] == CLIENT[family]
        flow.reply()
        flow.exchange(N - 1)
        flow.close()
        flow = UdpFlow(lab.a.ns, lab.b.ns, lab.b.address(family))
        assert flow.request()[0] == lab.a.address(family)
        flow.reply()
        flow.close()
        tcp_works(lab.client, lab.a.ns, lab.a.address(family))
    assert seen["nic0"].from_port > N and seen["nic0"].to_port > N, seen
    assert seen[lab.b].to_port == seen[lab.b].from_port == 1, seen


@FAMILIES
def test_without_a_nic_containers_are_fast_among_themselves(make_lab, family):
    lab = make_lab(nic="none")
    with Watch(lab) as seen:
        udp_works(lab.a.ns, lab.b.ns, lab.b.address(family), count=N)
        udp_works(lab.client, lab.a.ns, lab.a.address(family), count=N)
        tcp_works(lab.client, lab.a.ns, lab.a.address(family))
        udp_works(lab.a.ns, lab.client, CLIENT[family], count=N)
    assert (seen[lab.a].from_port, seen[lab.b].to_port) == (N, N), seen
    assert "xdp" not in lab.node.link("nic0")


def test_wire_whose_outer_end_is_not_armed_loses_nothing():
    """The NIC then takes no redirected frames: flows from outside have no fast way back and go by the stack."""
    lab = Topology(armed=False)
    pod = lab.attach(lab.network())
    with Watch(lab) as seen:
        udp_works(lab.client, pod.ns, pod.address(), count=N)
        tcp_works(lab.client, pod.ns, pod.address())
        udp_works(pod.ns, lab.client, CLIENT[4], count=N)
    assert seen["nic0"].from_port == seen["nic0"].to_port == 0, seen
    assert seen.reason("nic0", "pass_no_way_back") >= 1, seen
    lab.close()


# -- MTU

def test_large_mtu_between_containers_only(topology):
    runtime = topology.network()
    a, b = topology.attach(runtime), topology.attach(runtime)
    assert a.ns.link("eth0")["mtu"] == 65000 and topology.node.link(a.host_end)["mtu"] == 65000
    with Watch(topology) as seen:
        udp_works(a.ns, b.ns, b.address(), count=5, size=30000)
        tcp_works(a.ns, b.ns, b.address(), length=2_000_000)
    assert seen[a].from_port == seen[b].to_port and seen[a].from_port < 200, seen
    assert not l4_passes(seen[a]), seen
    udp_works(a.ns, topology.client, CLIENT[4], count=5, size=30000)
    tcp_works(a.ns, topology.client, CLIENT[4])
    tcp_works(topology.client, a.ns, a.address())
    with open_socket(a.ns, socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((CLIENT[4], 9))
        assert sock.getsockopt(socket.IPPROTO_IP, traffic.IP_MTU) == 1500


@pytest.mark.parametrize("families", [(6,), (4, 6)])
def test_no_large_mtu_with_ipv6(topology, families):
    pod = topology.attach(topology.network(families=families))
    assert pod.ns.link("eth0")["mtu"] == 1500


def test_large_container_beside_a_small_one_gets_too_big(topology):
    runtime = topology.network()
    large = topology.attach(runtime)
    runtime.plugins[0].update(mtu=1400, localMtu=0)
    small = topology.attach(runtime)
    flow = UdpFlow(large.ns, small.ns, small.address())
    flow.client.setsockopt(socket.IPPROTO_IP, traffic.IP_MTU_DISCOVER, traffic.IP_PMTUDISC_DONT)
    with Watch(topology) as seen:
        flow.request(5000)  # may be fragmented: arrives
    assert seen.reason(large, "pass_too_big") == 1 and seen[small].to_port == 0, seen
    flow.close()
    flow = UdpFlow(large.ns, small.ns, small.address())
    flow.client.setsockopt(socket.IPPROTO_IP, traffic.IP_MTU_DISCOVER, traffic.IP_PMTUDISC_DO)
    flow.client.setsockopt(socket.IPPROTO_IP, traffic.IP_RECVERR, 1)
    flow.client.send(b"x" * 5000)
    assert icmp_error_of(flow.client) == "EMSGSIZE"
    assert flow.client.getsockopt(socket.IPPROTO_IP, traffic.IP_MTU) == 1400
    flow.request(1300)
    flow.close()
    tcp_works(large.ns, small.ns, small.address(), length=1_000_000)
    tcp_works(small.ns, large.ns, large.address(), length=1_000_000)


@FAMILIES
def test_too_big_from_the_wire_is_answered(topology, family):
    """A jumbo wire and a container of 1500: the sender learns it from the node, never by silence."""
    for ns, device in ((topology.client, "eth0"), (topology.node, "nic0")):
        ns.ip(f"link set {device} mtu 9000")
    pod = topology.attach(topology.network(families=(4, 6), mtu=1500, localMtu=0))
    flow = UdpFlow(topology.client, pod.ns, pod.address(family))
    if family == 4:
        flow.client.setsockopt(socket.IPPROTO_IP, traffic.IP_MTU_DISCOVER, traffic.IP_PMTUDISC_DO)
        flow.client.setsockopt(socket.IPPROTO_IP, traffic.IP_RECVERR, 1)
    else:
        flow.client.setsockopt(socket.IPPROTO_IPV6, traffic.IPV6_MTU_DISCOVER, traffic.IP_PMTUDISC_DO)
        flow.client.setsockopt(socket.IPPROTO_IPV6, traffic.IPV6_RECVERR, 1)
    with Watch(topology) as seen:
        flow.client.send(b"x" * 5000)
        assert icmp_error_of(flow.client) == "EMSGSIZE"
    assert seen.reason("nic0", "pass_too_big") == 1, seen
    flow.request(1400)
    flow.close()
    tcp_works(topology.client, pod.ns, pod.address(family), length=1_000_000)


@pytest.mark.parametrize("mtu", [1280, 9000])
def test_other_mtus(make_lab, mtu):
    lab = make_lab(mtu=mtu)
    with Watch(lab) as seen:
        udp_works(lab.a.ns, lab.b.ns, lab.b.address(), count=5, size=mtu - 28)
        udp_works(lab.a.ns, lab.b.ns, lab.b.address(6), count=5, size=mtu - 48)
        tcp_works(lab.a.ns, lab.b.ns, lab.b.address())
    tcp_works(lab.client, lab.a.ns, lab.a.address())
    assert seen[lab.a].from_port == seen[lab.b].to_port >= 10, seen
    assert not l4_passes(seen[lab.a]), seen


# -- the container's end

def test_free_container_may_use_its_hook_and_lose_nothing(topology):
    """Attach, replace, detach, and the interface down and up: GRO keeps the end armed."""
    runtime = topology.network(containerXdp="free", localMtu=0)
    a, b = topology.attach(runtime), topology.attach(runtime)
    flow = TcpFlow(a.ns, b.ns, b.address())
    flow.exchange()
    b.ns.ip("link set eth0 xdp off", check=False)
    flow.exchange()
    routes, neighbours = b.ns.ip("route show"), b.ns.ip("neigh show nud permanent")
    b.ns.ip("link set eth0 down")
    b.ns.ip("link set eth0 up")
    for route in sorted(routes.splitlines(), key=lambda line: " via " in line):
        b.ns.ip(f"route replace {route}")
    for neighbour in neighbours.splitlines():
        b.ns.ip(f"neigh replace {neighbour.replace('PERMANENT', 'nud permanent')}")
    with Watch(topology) as seen:
        flow.exchange(50_000)
    flow.close()
    assert seen[b].to_port > 0, seen


def test_managed_container_cannot_take_the_hook(topology):
    pod = topology.attach(topology.network())
    program = pod.ns.link("eth0")["xdp"]["prog"]
    assert program["name"] == "xv_pod" and pod.ns.link("eth0")["xdp"]["mode"] == 1
    pod.ns.ip("link set eth0 xdp off", check=False)
    assert pod.ns.link("eth0")["xdp"]["prog"]["id"] == program["id"]


def test_both_ends_and_nic_are_native_and_prepared(topology):
    pod = topology.attach(topology.network())
    assert topology.node.link(pod.host_end)["xdp"]["prog"]["name"] == "xv_host"
    assert topology.node.link("nic0")["xdp"]["prog"]["name"] == "xv_nic"
    assert topology.node.link("nic0")["xdp"]["mode"] == topology.node.link(pod.host_end)["xdp"]["mode"] == 1
    features = pod.ns.features("eth0")
    assert features["generic-receive-offload"]
    assert not features["tx-checksum-ip-generic"] and not features["tx-vlan-offload"]


def test_changed_mac_of_a_container_heals_itself(make_lab):
    lab = make_lab()
    lab.a.ns.ip("link set eth0 address 02:00:00:00:00:77")
    udp_works(lab.a.ns, lab.b.ns, lab.b.address(), count=2)  # the container speaks: its new MAC is learned
    with Watch(lab) as seen:
        udp_works(lab.b.ns, lab.a.ns, lab.a.address(), count=N)
        udp_works(lab.client, lab.a.ns, lab.a.address(), count=N)
        udp_works(lab.node, lab.a.ns, lab.a.address(), count=N)
    assert seen[lab.a].to_port >= 2 * N, seen
