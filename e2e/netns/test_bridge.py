# SPDX-License-Identifier: Apache-2.0
"""Bridge mode: containers of a network on one link, the host with the gateway's address on a port of its own. Each test ends
with the node as it was: the bridge goes with the network's last container."""

import json
import os
import random
import select
import socket
import struct
import subprocess
import time

import pytest

from lib import cni, residue
from lib.cni import call, call_and_kill
from lib.netns import Netns
from lib.stats import Watch, xvethctl
from lib.topology import GATEWAY
from lib.traffic import Stream, UdpFlow, free_port, open_socket, ping, send_frame, tcp_connect_fails, tcp_works, udp_packet, udp_works

BROADCAST = "ff:ff:ff:ff:ff:ff"


@pytest.fixture
def lab(topology):
    """The node's shared objects, those of bridges too, are loaded already; nothing else may stay."""
    topology.detach(topology.attach(topology.network(mode="bridge")))
    before = residue.snapshot(topology)
    yield topology
    for container in topology.containers:
        if container.runtime:
            topology.detach(container)
    residue.assert_same(before, topology)


def bridge_of(container):
    return next(i["name"] for i in container.result["interfaces"] if i["name"].startswith("xvb-"))


def mac(container):
    return container.ns.link("eth0")["address"]


class Ears:
    """Frames that arrive at a device, by their UDP destination port; copies counted."""

    def __init__(self, ns, device="eth0"):
        self.sock = open_socket(ns, socket.AF_PACKET, socket.SOCK_RAW, protocol=socket.htons(3))
        with ns.entered():
            self.sock.bind((device, 3))
        self.sock.settimeout(0.2)

    def count(self, marker):
        """How many frames with `marker` in them came in by now; those that went out are not counted."""
        seen = 0
        while select.select([self.sock], [], [], 0)[0]:
            frame, (_, _, kind, _, _) = self.sock.recvfrom(70000)
            seen += marker in frame and kind != socket.PACKET_OUTGOING
        return seen

    def close(self):
        self.sock.close()


def marker():
    return struct.pack("!16s", f"mark{random.random():.10f}"[:16].encode())


def heard(listeners, send):
    """`send(marker)`, then who heard it how often."""
    ears = [Ears(*where) for where in listeners]
    mark = marker()
    send(mark)
    time.sleep(0.3)  # a second copy, where there must be none, would follow at once
    counts = [each.count(mark) for each in ears]
    for each in ears:
        each.close()
    return counts


# -- between containers, to the host, to the outside

@pytest.mark.parametrize("families", [(4,), (6,), (4, 6)], ids=["IPv4", "IPv6", "dual"])
def test_containers_host_and_outside(lab, families):
    runtime = lab.network(mode="bridge", families=families)
    pod, other = lab.attach(runtime), lab.attach(runtime)
    for family in families:
        outside = "10.1.0.1" if family == 4 else "fd00:1::1"
        udp_works(pod.ns, lab.client, outside, count=1)
        for a, b, address in ((pod.ns, other.ns, other.address(family)), (pod.ns, lab.node, GATEWAY[family]),
                              (lab.node, pod.ns, pod.address(family)), (pod.ns, lab.client, outside),
                              (lab.client, pod.ns, pod.address(family))):
            udp_works(a, b, address, count=5, size=1400)
            tcp_works(a, b, address)
        ping(pod.ns, GATEWAY[family], count=1)
        ping(pod.ns, other.address(family), count=1, size=4000)
    for each in (pod, other):
        runtime.check(each).ok()
    assert [i["name"][:4] for i in pod.result["interfaces"][:1]] == ["xvb-"]
    tentative = [a for link in pod.ns.ip_json("addr show dev eth0") for a in link["addr_info"] if a.get("tentative")]
    assert not tentative


def test_frames_between_containers_go_by_xdp(lab):
    runtime = lab.network(mode="bridge")
    pod, other = lab.attach(runtime), lab.attach(runtime)
    udp_works(pod.ns, other.ns, other.address(), count=1)
    with Watch(lab) as seen:
        udp_works(pod.ns, other.ns, other.address(), count=50)
    assert seen[pod].from_port >= 50 and seen[other].to_port >= 50, seen
    assert not {name for name in seen[pod].reasons if name.startswith(("drop", "error"))}, seen


@pytest.mark.parametrize("owner", ["managed", "free"])
def test_every_owner_of_the_hook(lab, owner):
    runtime = lab.network(mode="bridge", containerXdp=owner)
    pod, other = lab.attach(runtime), lab.attach(runtime)
    tcp_works(pod.ns, other.ns, other.address())
    udp_works(other.ns, lab.node, GATEWAY[4])
    runtime.check(pod).ok()


def test_stack_policy_goes_by_the_kernels_bridge(lab):
    runtime = lab.network(mode="bridge", policy="stack")
    pod, other = lab.attach(runtime), lab.attach(runtime)
    with Watch(lab) as seen:
        udp_works(pod.ns, other.ns, other.address())
        tcp_works(pod.ns, other.ns, other.address())
    assert seen[pod].from_port == 0 and seen.reason(pod, "pass_policy") > 10, seen
    runtime.check(pod).ok()


def test_masquerade_of_what_leaves(lab):
    runtime = lab.network(mode="bridge", ipMasq=True)
    pod, other = lab.attach(runtime), lab.attach(runtime)
    assert udp_works(pod.ns, lab.client, "10.1.0.1").peer[0] == "10.1.0.2"
    assert udp_works(pod.ns, other.ns, other.address()).peer[0] == pod.address()


def test_large_frames(lab):
    """Frames of several buffers are redirected; to all ports the kernel's bridge carries them."""
    runtime = lab.network(mode="bridge", localMtu=9000)
    pods = [lab.attach(runtime) for _ in range(3)]
    assert pods[0].ns.link("eth0")["mtu"] == 9000
    udp_works(pods[0].ns, pods[1].ns, pods[1].address(), count=5, size=8900)
    tcp_works(pods[0].ns, pods[1].ns, pods[1].address())
    tcp_works(pods[0].ns, lab.client, "10.1.0.1")
    with Watch(lab) as seen:
        counts = heard([(pod.ns, "eth0") for pod in pods[1:]], lambda mark: send_frame(
            pods[0].ns, "eth0", BROADCAST, udp_packet(pods[0].address(), "255.255.255.255", 9, 9, mark * 500)))
    assert counts == [1, 1]
    assert seen.reason(pods[0], "pass_flood") == 1, seen


# -- flooding

@pytest.mark.parametrize("destination", [BROADCAST, "01:00:5e:00:00:fb", "33:33:00:00:00:fb", "02:ab:cd:ef:00:01"],
                         ids=["broadcast", "mDNS IPv4", "mDNS IPv6", "unknown"])
def test_once_at_each_port(lab, destination):
    runtime = lab.network(mode="bridge")
    pods = [lab.attach(runtime) for _ in range(4)]
    host = next(n for n in lab.node.link_names() if n.startswith("xvbr-"))
    packet = lambda mark: udp_packet(pods[0].address(), "10.2.0.255", 7, 7, mark)
    where = [(lab.node, host), *((pod.ns, "eth0") for pod in pods)]
    assert heard(where, lambda mark: send_frame(pods[0].ns, "eth0", destination, packet(mark))) == [1, 0, 1, 1, 1]


@pytest.mark.parametrize("family", [4, 6])
def test_multicast_sockets(lab, family):
    """As mDNS does: who has joined the group hears one copy."""
    runtime = lab.network(mode="bridge", families=(family,))
    pods = [lab.attach(runtime) for _ in range(3)]
    port, kind = free_port(), socket.AF_INET if family == 4 else socket.AF_INET6
    receivers = []
    for pod in pods[1:]:
        sock = open_socket(pod.ns, kind, socket.SOCK_DGRAM, ("", port))
        index = pod.ns.link("eth0")["ifindex"]
        if family == 4:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                            socket.inet_aton("224.0.0.251") + socket.inet_aton(pod.address(4)))
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                            socket.inet_pton(kind, "ff02::fb") + struct.pack("@I", index))
        receivers.append(sock)
    sender = open_socket(pods[0].ns, kind, socket.SOCK_DGRAM, (pods[0].address(family), 0))
    index = pods[0].ns.link("eth0")["ifindex"]
    target = ("224.0.0.251", port) if family == 4 else ("ff02::fb", port, 0, index)
    for number in range(10):
        sender.sendto(b"%d" % number, target)
    for sock in receivers:
        assert [sock.recv(100) for _ in range(10)] == [b"%d" % n for n in range(10)]
        assert not select.select([sock], [], [], 0.2)[0]
        sock.close()
    sender.close()


def test_dhcp_across_the_bridge(lab, tmp_path):
    """A container serves addresses, another one asks for one."""
    server = lab.attach(lab.network(mode="bridge", name="dhcpnet"))
    guest = lab.attach(lab.network(mode="bridge", name="dhcpnet", ipam=None))
    conf, lease, script = (tmp_path / name for name in ("udhcpd.conf", "leases", "bound"))
    lease.touch()
    conf.write_text(f"start 10.2.0.100\nend 10.2.0.110\ninterface eth0\nlease_file {lease}\npidfile {tmp_path}/pid\n"
                    f"option subnet 255.255.255.0\noption router {GATEWAY[4]}\n")
    script.write_text("#!/bin/sh\n[ \"$1\" = bound ] || exit 0\nip addr add $ip/24 dev $interface\n")
    script.chmod(0o755)
    daemon = subprocess.Popen([cni.NSENTER, f"--net={server.ns.path}", "--", "busybox", "udhcpd", "-f", str(conf)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        guest.ns.run("busybox", "udhcpc", "-i", "eth0", "-n", "-q", "-t", "10", "-T", "1", "-s", str(script))
        address = next(a["local"] for link in guest.ns.ip_json("addr show dev eth0") for a in link["addr_info"] if a["family"] == "inet")
        assert address.startswith("10.2.0.1"), address
        udp_works(guest.ns, server.ns, server.address())
        udp_works(server.ns, guest.ns, address)
    finally:
        daemon.kill()
        daemon.wait()


# -- MACs

def test_a_container_sends_from_its_own_mac_alone(lab):
    runtime = lab.network(mode="bridge")
    pod, other = lab.attach(runtime), lab.attach(runtime)
    packet = lambda mark: udp_packet(pod.address(), other.address(), 7, 7, mark)
    with Watch(lab) as seen:
        counts = heard([(other.ns, "eth0")], lambda mark: send_frame(
            pod.ns, "eth0", mac(other), packet(mark), source_mac="02:de:ad:00:00:01"))
    assert counts == [0] and seen.reason(pod, "drop_spoofed") == 1, seen
    with Watch(lab) as seen:  # nor can it take another one's place
        send_frame(pod.ns, "eth0", BROADCAST, packet(b"x"), source_mac=mac(other))
    assert seen.reason(pod, "drop_spoofed") == 1, seen
    udp_works(pod.ns, other.ns, other.address())


def test_macs_are_learned_where_they_are_not_checked(lab):
    runtime = lab.network(mode="bridge", spoofCheck=False)
    pod, other, third = (lab.attach(runtime) for _ in range(3))
    guest = "02:ca:fe:00:00:01"
    packet = lambda mark: udp_packet(pod.address(), other.address(), 7, 7, mark)
    to_guest = lambda mark: send_frame(other.ns, "eth0", guest, packet(mark))
    ears = [(pod.ns, "eth0"), (third.ns, "eth0")]
    assert heard(ears, to_guest) == [1, 1]  # unknown
    send_frame(pod.ns, "eth0", BROADCAST, packet(b"here"), source_mac=guest)
    assert heard(ears, to_guest) == [1, 0]
    send_frame(third.ns, "eth0", BROADCAST, packet(b"moved"), source_mac=guest)
    assert heard(ears, to_guest) == [0, 1]
    entries = json.loads(xvethctl(lab.node, "fdb", runtime.name, "--json"))["entries"]
    learned = [e for e in entries if e["mac"] == guest]
    assert len(learned) == 1 and learned[0]["attachment"] == third.attachment and learned[0]["age"] <= 5, entries
    assert {e["mac"] for e in entries if e["age"] is None} >= {mac(pod), mac(other), mac(third)}
    assert guest in xvethctl(lab.node, "fdb")


def test_mac_of_a_later_plugin_counts_from_check_on(lab):
    runtime = lab.network({"type": "tuning", "mac": "02:11:22:33:44:55"}, mode="bridge")
    pod = lab.attach(runtime)
    runtime.check(pod).ok()
    assert mac(pod) == "02:11:22:33:44:55"
    udp_works(pod.ns, lab.node, GATEWAY[4])
    udp_works(lab.node, pod.ns, pod.address())


@pytest.mark.parametrize("family", [4, 6])
def test_reused_address_is_the_new_container_at_once(lab, family):
    runtime = lab.network(mode="bridge", families=(family,))
    neighbour = lab.attach(runtime)
    free = "10.2.0.50" if family == 4 else "fd00:2::50"
    for _ in range(2):
        pod = lab.attach(runtime, args=f"IgnoreUnknown=1;IP={free}")
        begin = time.monotonic()
        udp_works(neighbour.ns, pod.ns, free, count=2)
        udp_works(lab.node, pod.ns, free, count=2)
        assert time.monotonic() - begin < 1
        lab.detach(pod)
        pod.runtime = None


# -- who reaches whom

def test_isolated_containers_reach_the_host_only(lab):
    runtime = lab.network(mode="bridge", portIsolation=True)
    pod, other = lab.attach(runtime), lab.attach(runtime)
    for ns, peer in ((pod, other), (other, pod)):
        udp_works(ns.ns, lab.node, GATEWAY[4])
        udp_works(ns.ns, lab.client, "10.1.0.1")
        assert tcp_connect_fails(ns.ns, peer.ns, peer.address())
    packet = lambda mark: udp_packet(pod.address(), "10.2.0.255", 7, 7, mark)
    for payload in (1, 100):  # one buffer by XDP
        assert heard([(other.ns, "eth0")], lambda mark: send_frame(pod.ns, "eth0", BROADCAST, packet(mark * payload)[:1500])) == [0]
    runtime.check(pod).ok()


def test_two_networks_are_apart(lab):
    one = lab.attach(lab.network(mode="bridge", subnets=["10.3.0.0/24"]))
    two = lab.attach(lab.network(mode="bridge", subnets=["10.4.0.0/24"]))
    assert bridge_of(one) != bridge_of(two)
    assert heard([(two.ns, "eth0")], lambda mark: send_frame(
        one.ns, "eth0", BROADCAST, udp_packet(one.address(), "255.255.255.255", 7, 7, mark))) == [0]
    udp_works(one.ns, two.ns, two.address())  # the host routes


def test_routed_and_bridged_containers_talk(lab):
    bridged = lab.attach(lab.network(mode="bridge", subnets=["10.3.0.0/24"]))
    routed = lab.attach(lab.network(subnets=["10.4.0.0/24"]))
    for a, b in ((bridged, routed), (routed, bridged)):
        udp_works(a.ns, b.ns, b.address())
        tcp_works(a.ns, b.ns, b.address())


# -- coming and going

def test_no_datagram_is_lost_while_others_come_and_go(lab):
    runtime = lab.network(mode="bridge")
    pod, other = lab.attach(runtime), lab.attach(runtime)
    udp_works(pod.ns, other.ns, other.address(), count=1)
    stream = Stream(pod.ns, other.ns, other.address())
    for _ in range(5):
        passing = lab.attach(runtime)
        udp_works(passing.ns, other.ns, other.address(), count=2)
        lab.detach(passing)
        passing.runtime = None
    stream.stop()
    assert stream.sent > 100 and not stream.lost and not stream.doubled and not stream.overtaken, stream


def test_the_bridge_comes_with_the_first_and_goes_with_the_last(lab):
    runtime = lab.network(mode="bridge")
    pod, other = lab.attach(runtime), lab.attach(runtime)
    names = {n for n in lab.node.link_names() if n.startswith("xvb")}
    assert len(names) == 3, names
    lab.detach(pod)
    udp_works(other.ns, lab.node, GATEWAY[4])
    lab.detach(other)
    assert not {n for n in lab.node.link_names() if n.startswith("xvb")}
    pod.runtime = other.runtime = None


def test_killed_add_leaves_nothing(lab, scale):
    chance = random.Random(5)
    runtime = lab.network(mode="bridge", families=(4, 6))
    conf = {**runtime.plugins[0], "name": runtime.name}
    pod = lab.container()
    whole = call(lab.node, "ADD", conf, cid=pod.cid, netns=pod.netns_path, ifname="eth0")
    whole.ok()
    runtime.delete(pod)
    before = residue.snapshot(lab)
    for _ in range(scale(100)):
        pod = lab.container()
        call_and_kill(lab.node, conf, pod.cid, pod.netns_path, "eth0", chance.uniform(0.005, whole.seconds))
        call(lab.node, "DEL", conf, cid=pod.cid, netns=pod.netns_path, ifname="eth0").ok()
        residue.assert_same(before, lab)


def test_gc_takes_the_rest(lab):
    runtime = lab.network(mode="bridge", version="1.1.0")
    keep, lose = lab.attach(runtime), lab.attach(runtime)
    conf = {**runtime.plugins[0], "name": runtime.name}
    call(lab.node, "GC", {**conf, "cni.dev/valid-attachments": [{"containerID": keep.cid, "ifname": "eth0"}]}).ok()
    udp_works(keep.ns, lab.node, GATEWAY[4])
    assert not lose.ns.has_link("eth0")
    keep.ns.close()
    call(lab.node, "GC", {**conf, "cni.dev/valid-attachments": []}).ok()
    assert not {n for n in lab.node.link_names() if n.startswith("xvb")}
    keep.runtime = lose.runtime = None


@pytest.mark.parametrize("damage, words", [
    (lambda lab, pod: lab.node.ip(f"link set {pod.host_end} nomaster"), "no longer a port"),
    (lambda lab, pod: lab.node.ip(f"link set {bridge_of(pod)} down"), "down"),
    (lambda lab, pod: lab.node.ip(f"link set {pod.host_end} down"), "down"),
    (lambda lab, pod: os.unlink(next(path for name, path in lab.pins("links").items() if name.endswith("h"))), "link"),
    (lambda lab, pod: lab.node.run("bridge", "fdb", "del", mac(pod), "dev", pod.host_end, "master"), "does not lead to"),
    (lambda lab, pod: lab.node.run("bridge", "link", "set", "dev", pod.host_end, "learning", "on"), "learns"),
    (lambda lab, pod: lab.node.ip("addr del 10.2.0.1/24 dev " + next(n for n in lab.node.link_names() if n.startswith("xvbr-"))), "10.2.0.1"),
], ids=["left", "bridge down", "port down", "program", "FDB", "learning", "gateway"])
def test_check_says_what_is_wrong(lab, damage, words):
    runtime = lab.network(mode="bridge")
    pod = lab.attach(runtime)
    damage(lab, pod)
    assert words in runtime.check(pod).error()


def test_errors(lab):
    runtime = lab.network(mode="bridge", mtu=1400, name="onenet")
    pod = lab.attach(runtime)
    other = lab.container()
    where = {"cid": other.cid, "netns": other.netns_path, "ifname": "eth0"}
    call(lab.node, "ADD", lab.conf(mode="bridge", mtu=1300, name="onenet"), **where).error(7, "MTU 1300", "1400")
    chained = lab.conf(mode="bridge", prevResult={"cniVersion": "1.0.0", "interfaces": [], "ips": []})
    call(lab.node, "ADD", chained, **where).error(7, "bridge", "prevResult")
    call(lab.node, "ADD", lab.conf(mode="bridge", fastPathTo=["10.0.0.0/8"]), **where).error(7, "fastPathTo")
    udp_works(pod.ns, lab.node, GATEWAY[4])
    assert pod.ns.link("eth0")["mtu"] == 1400
    status = {**runtime.plugins[0], "name": runtime.name, "cniVersion": "1.1.0"}
    status["ipam"] = {**status["ipam"], "type": "host-local-1.1"}
    call(lab.node, "STATUS", status).ok()


# -- NICs and VLANs

class Wire:
    """A NIC of the node without addresses, and a machine at its other end, armed as a real NIC's would be."""

    def __init__(self, lab):
        self.ns = Netns("far")
        self.ns.ip(f"link add eth0 type veth peer name lan0 netns {lab.node.name}")
        self.ns.run("ethtool", "-K", "eth0", "gro", "on", "tx-checksum-ip-generic", "off", "tx-vlan-offload", "off")
        self.ns.sysctl("net.ipv6.conf.eth0.accept_dad", 0)
        lab.node.sysctl("net.ipv6.conf.lan0.disable_ipv6", 1)
        self.ns.ip_batch("addr add 10.2.0.250/24 dev eth0\naddr add fd00:2::250/64 dev eth0 nodad\nlink set eth0 up")
        lab.node.ip("link set lan0 up")

    def close(self):
        self.ns.close()


@pytest.fixture
def wire(topology):
    far = Wire(topology)
    yield far
    far.close()


@pytest.fixture
def wired(wire, lab):
    return lab


@pytest.mark.parametrize("family", [4, 6])
def test_a_nic_is_a_port(wired, wire, family):
    runtime = wired.network(mode="bridge", nic="lan0", families=(4, 6))
    pod, other = wired.attach(runtime), wired.attach(runtime)
    far = "10.2.0.250" if family == 4 else "fd00:2::250"
    for a, b, address in ((pod.ns, wire.ns, far), (wire.ns, pod.ns, pod.address(family)), (pod.ns, other.ns, other.address(family))):
        udp_works(a, b, address, size=1400)
        tcp_works(a, b, address)
    with Watch(wired) as seen:
        udp_works(pod.ns, wire.ns, far, count=50)
    assert seen["lan0"].to_port >= 50 and seen["lan0"].from_port >= 50, seen
    assert json.loads(xvethctl(wired.node, "fdb", runtime.name, "--json"))["entries"]
    runtime.check(pod).ok()
    # The gateway is somebody behind the NIC.
    assert not [a for l in wired.node.ip_json("addr") if l["ifname"].startswith("xvbr-") for a in l["addr_info"] if a["family"] == "inet"]


def test_a_nic_that_serves_the_node_is_refused(wired):
    pod = wired.container()
    where = {"cid": pod.cid, "netns": pod.netns_path, "ifname": "eth0"}
    call(wired.node, "ADD", wired.conf(mode="bridge", nic="nic0"), **where).error(7, "nic0", "address")
    call(wired.node, "ADD", wired.conf(mode="bridge", nic="nosuch"), **where).error(7, "nosuch")


def test_vlans_are_apart(wired, wire):
    """Containers of one network in two VLANs, the NIC a trunk, and a container that takes both with their tags."""
    conf = {"mode": "bridge", "name": "vlannet", "nic": "lan0", "policy": "fast"}
    ten, also_ten = (wired.attach(wired.network(**conf, vlan=10)) for _ in range(2))
    twenty = wired.attach(wired.network(**conf, vlan=20))
    trunk = wired.attach(wired.network(**conf, vlanTrunk=[{"id": 10}, {"minID": 20, "maxID": 21}]))
    udp_works(ten.ns, also_ten.ns, also_ten.address())
    tcp_works(ten.ns, also_ten.ns, also_ten.address())
    assert tcp_connect_fails(ten.ns, twenty.ns, twenty.address())
    ears = [(also_ten.ns, "eth0"), (twenty.ns, "eth0"), (trunk.ns, "eth0"), (wire.ns, "eth0")]
    packet = lambda mark: udp_packet(ten.address(), "10.2.0.255", 7, 7, mark)
    assert heard(ears, lambda mark: send_frame(ten.ns, "eth0", BROADCAST, packet(mark))) == [1, 0, 1, 1]
    assert heard(ears, lambda mark: send_frame(twenty.ns, "eth0", BROADCAST, packet(mark))) == [0, 0, 1, 1]
    ears = [(ten.ns, "eth0"), (also_ten.ns, "eth0"), (twenty.ns, "eth0"), (trunk.ns, "eth0"), (wire.ns, "eth0")]
    assert heard(ears, lambda mark: send_frame(wire.ns, "eth0", BROADCAST, packet(mark), vlan=10)) == [1, 1, 0, 1, 0]
    assert heard(ears, lambda mark: send_frame(wire.ns, "eth0", BROADCAST, packet(mark), vlan=20)) == [0, 0, 1, 1, 0]
    assert heard(ears, lambda mark: send_frame(wire.ns, "eth0", BROADCAST, packet(mark), vlan=30)) == [0] * 5
    assert heard(ears, lambda mark: send_frame(wire.ns, "eth0", BROADCAST, packet(mark))) == [0] * 5
    assert heard(ears, lambda mark: send_frame(trunk.ns, "eth0", mac(twenty), packet(mark), vlan=20)) == [0, 0, 1, 0, 0]
    assert heard(ears, lambda mark: send_frame(ten.ns, "eth0", mac(twenty), packet(mark), vlan=20)) == [0] * 5
    assert heard(ears, lambda mark: send_frame(ten.ns, "eth0", mac(trunk), packet(mark))) == [0, 0, 0, 1, 0]
    for each in (ten, twenty, trunk):
        each.runtime.check(each).ok()
    where = wired.container()
    call(wired.node, "ADD", wired.conf(mode="bridge", name="vlannet"), cid=where.cid, netns=where.netns_path,
         ifname="eth0").error(7, "VLAN")


def test_gateway_of_a_vlan(lab):
    runtime = lab.network(mode="bridge", vlan=10, policy="fast", families=(4, 6))
    pod, other = lab.attach(runtime), lab.attach(runtime)
    for family in (4, 6):
        for ns, address in ((lab.node, GATEWAY[family]), (other.ns, other.address(family))):
            udp_works(pod.ns, ns, address)
            tcp_works(pod.ns, ns, address)
    udp_works(pod.ns, lab.client, "10.1.0.1")
    runtime.check(pod).ok()
