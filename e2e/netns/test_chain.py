# SPDX-License-Identifier: Apache-2.0
"""xveth as one of several plugins of a list: before Debian's, and after one that made the interface."""

import socket

import pytest

from lib import residue
from lib.cni import call
from lib.stats import Watch
from lib.topology import CLIENT, GATEWAY, NODE
from lib.traffic import free_port, listen_udp, open_socket, ping, tcp_works, udp_works

FIREWALL = {"type": "firewall", "backend": "iptables"}
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
TUNING_MAC = {"type": "tuning", "mac": "02:aa:00:00:00:01"}
BANDWIDTH = {"type": "bandwidth", "capabilities": {"bandwidth": True}}


@pytest.fixture
def world(topology):
    """Tables that iptables leaves empty behind are the other plugins' business: only ours is compared."""
    before = residue.snapshot(topology)
    yield topology
    lines = [line for line in residue.settled_difference(before, topology) if "rules of nftables" not in line]
    assert not lines, "\n".join(lines)


def test_before_tuning_that_changes_the_mac(world):
    runtime = world.network(TUNING_MAC, localMtu=0)
    other = world.attach(world.network(subnets=["10.3.0.0/24"], localMtu=0))
    pod = world.attach(runtime)
    assert pod.ns.link("eth0")["address"] == TUNING_MAC["mac"]
    runtime.check(pod).ok()
    # Program and neighbour entry must follow, though the container has not spoken yet.
    udp_works(world.client, pod.ns, pod.address(), count=1)
    ping(world.node, pod.address())
    for _ in range(2):
        udp_works(world.client, pod.ns, pod.address())
        udp_works(other.ns, pod.ns, pod.address())
        tcp_works(pod.ns, world.client, CLIENT[4])
    with Watch(world) as seen:
        udp_works(other.ns, pod.ns, pod.address(), count=5)
    assert seen[pod].to_port == 5, seen
    world.detach(pod)
    world.detach(other)


def test_before_portmap(world):
    runtime = world.network(PORTMAP, localMtu=0)
    port, inner = free_port(), free_port()
    pod = world.attach(runtime, runtime_config={"portMappings": [
        {"hostPort": port, "containerPort": inner, "protocol": "tcp"}, {"hostPort": port, "containerPort": inner, "protocol": "udp"}]})
    other = world.attach(world.network(subnets=["10.3.0.0/24"], localMtu=0))
    assert pod.result["ips"][0]["address"].split("/")[0] == pod.address()
    # DNAT changes the port too: the test's server listens on the container's, its client talks to the node's
    for client in (world.client, other.ns):
        mapped_udp(client, pod, port, inner)
    with Watch(world) as seen:
        udp_works(world.client, pod.ns, pod.address(), count=5)
        udp_works(other.ns, pod.ns, pod.address(), count=5)
    assert seen["nic0"].from_port == 5 and seen[pod].to_port == 10, seen
    # portmap 1.1.1 looks for its IPv4 rules in ip6tables too, and fails its CHECK behind any plugin.
    runtime.check(pod, only="xveth").ok()
    world.detach(pod)
    world.detach(other)


def mapped_udp(client, pod, port, inner):
    with listen_udp(pod.ns, pod.address(), inner) as server, open_socket(client, socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((NODE[4], port))
        for number in range(5):
            sock.send(b"request %d" % number)
            data, peer = server.recvfrom(100)
            assert data == b"request %d" % number
            server.sendto(b"reply %d" % number, peer)
            assert sock.recv(100) == b"reply %d" % number


def test_before_firewall(world):
    """The plugin's rules accept; nothing is dropped, and the flows are fast."""
    runtime = world.network(FIREWALL, localMtu=0)
    pod, other = world.attach(runtime), world.attach(runtime)
    udp_works(world.client, pod.ns, pod.address())
    tcp_works(pod.ns, world.client, CLIENT[4])
    tcp_works(pod.ns, other.ns, other.address())
    runtime.check(pod).ok()
    world.detach(pod)
    world.detach(other)


def test_before_bandwidth(world):
    runtime = world.network(BANDWIDTH, localMtu=0, capabilities={"bandwidth": True})
    limits = {"bandwidth": {"ingressRate": 8_000_000, "ingressBurst": 800_000, "egressRate": 8_000_000, "egressBurst": 800_000}}
    pod, other = world.attach(runtime, runtime_config=limits), world.attach(world.network(subnets=["10.3.0.0/24"], localMtu=0))
    with Watch(world) as seen:
        udp_works(world.client, pod.ns, pod.address())
        udp_works(other.ns, pod.ns, pod.address())
        udp_works(pod.ns, other.ns, other.address())
        tcp_works(world.client, pod.ns, pod.address(), length=50_000)
    assert seen[pod].to_port == seen[pod].from_port == 0, seen
    world.detach(pod)
    world.detach(other)


def test_whole_list_of_a_cluster_node(world):
    runtime = world.network({"type": "tuning", "sysctl": {"net.ipv4.conf.eth0.arp_notify": "1"}}, PORTMAP, FIREWALL,
                            version="0.4.0", families=(4, 6), localMtu=0)
    pods = [world.attach(runtime) for _ in range(3)]
    for pod in pods:
        runtime.check(pod).ok()
    udp_works(pods[0].ns, pods[1].ns, pods[1].address(6))
    tcp_works(world.client, pods[2].ns, pods[2].address())
    for pod in pods:
        world.detach(pod)


# -- after a plugin that made the interface

@pytest.fixture(params=["ptp", "bridge"])
def chained(request, topology):
    first = {"type": request.param, "ipam": topology.ipam(), "mtu": 1500}
    if request.param == "bridge":
        first.update(bridge="cni0", isGateway=True)
    return topology.network(before=[first], ipam=None)


def ours(runtime):
    return runtime.plugins[-1]


def test_after_ptp_or_bridge_the_result_stays(topology, chained):
    container = topology.container()
    first = {**chained.plugins[0], "name": chained.name, "cniVersion": "1.0.0"}
    options = {"cid": container.cid, "netns": container.netns_path, "ifname": "eth0"}
    before = call(topology.node, "ADD", first, **options).ok()
    plugin = {**ours(chained), "name": chained.name, "cniVersion": "1.0.0", "prevResult": before}
    after = call(topology.node, "ADD", plugin, **options).ok()
    assert {k: v for k, v in after.items() if v} == {k: v for k, v in before.items() if v}
    call(topology.node, "CHECK", {**plugin, "prevResult": after}, **options).ok()
    call(topology.node, "DEL", {**plugin, "prevResult": after}, **options).ok()
    assert container.ns.has_link("eth0"), "the interface is the first plugin's to remove"
    ping(container.ns, GATEWAY[4])
    call(topology.node, "DEL", {**first, "prevResult": after}, **options).ok()


def test_after_ptp_or_bridge_both_ends_are_armed_and_traffic_flows(topology, chained):
    pod, other = topology.attach(chained), topology.attach(chained)
    assert "xdp" in pod.ns.link("eth0")
    for client, server, address in ((topology.client, pod.ns, pod.address()), (pod.ns, other.ns, other.address()),
                                    (pod.ns, topology.client, CLIENT[4]), (topology.node, pod.ns, pod.address())):
        udp_works(client, server, address)
        tcp_works(client, server, address)
    chained.check(pod).ok()
    before = pod.ns.features("eth0")
    topology.detach(pod)
    assert before["generic-receive-offload"]
    tcp_works(topology.client, other.ns, other.address())
    topology.detach(other)


def test_after_ptp_containers_are_fast_among_themselves(topology):
    chained = topology.network(before=[{"type": "ptp", "ipam": topology.ipam(), "mtu": 1500}], ipam=None)
    pod, other = topology.attach(chained), topology.attach(chained)
    with Watch(topology) as seen:
        udp_works(pod.ns, other.ns, other.address(), count=20)
    assert seen[pod].from_port == seen[other].to_port == 20, seen
    topology.detach(pod)
    topology.detach(other)


def test_del_of_the_chained_plugin_gives_the_offloads_back(topology, chained):
    container = topology.container()
    options = {"cid": container.cid, "netns": container.netns_path, "ifname": "eth0"}
    first = {**chained.plugins[0], "name": chained.name, "cniVersion": "1.0.0"}
    result = call(topology.node, "ADD", first, **options).ok()
    before = container.ns.features("eth0")
    plugin = {**ours(chained), "name": chained.name, "cniVersion": "1.0.0", "prevResult": result}
    call(topology.node, "ADD", plugin, **options).ok()
    assert not container.ns.features("eth0")["tx-checksum-ip-generic"]
    call(topology.node, "DEL", plugin, **options).ok()
    assert container.ns.features("eth0") == before
    assert "xdp" not in container.ns.link("eth0")
    call(topology.node, "DEL", first, **options).ok()


def test_twice_in_one_list_is_an_error_or_one_interface(topology):
    """The same plugin again, with its own result as prevResult: never a second eth0."""
    runtime = topology.network({"type": "xveth"})
    pod = topology.container()
    options = {"cid": pod.cid, "netns": pod.netns_path, "ifname": "eth0"}
    first = {**runtime.plugins[0], "name": runtime.name}
    result = call(topology.node, "ADD", first, **options).ok()
    call(topology.node, "ADD", {"type": "xveth", "cniVersion": "1.0.0", "name": runtime.name, "prevResult": result}, **options).error()
    assert pod.ns.link_names() == {"lo", "eth0"}
    udp_works(topology.client, pod.ns, result["ips"][0]["address"].split("/")[0])
    call(topology.node, "DEL", first, **options).ok()


def test_chained_without_an_interface_to_arm(topology):
    pod = topology.container()
    empty = {"cniVersion": "1.0.0", "interfaces": [], "ips": [], "dns": {}}
    call(topology.node, "ADD", {"type": "xveth", "cniVersion": "1.0.0", "name": "n", "prevResult": empty}, cid=pod.cid,
         netns=pod.netns_path, ifname="eth0").error(None, "eth0")
