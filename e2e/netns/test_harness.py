# SPDX-License-Identifier: Apache-2.0
"""The harness itself, on Debian's ptp plugin: a test that cannot fail proves nothing, so each tool is shown to notice."""

import os

import pytest

from lib import residue
from lib.topology import CLIENT, Container
from lib.traffic import TcpFlow, UdpFlow, ping, tcp_connect_fails, tcp_works, udp_works

BOTH = (4, 6)


@pytest.fixture
def ptp(topology):
    return topology.network(type="ptp", families=BOTH)


def test_payloads_reach_client_and_container(topology, ptp):
    first, second = topology.attach(ptp), topology.attach(ptp)
    for family in BOTH:
        for target in (second.address(family), CLIENT[family]):
            there = second.ns if target == second.address(family) else topology.client
            udp_works(first.ns, there, target)
            tcp_works(first.ns, there, target)
            ping(first.ns, target)


def test_nothing_is_left_after_a_clean_del(topology, ptp):
    before = residue.snapshot(topology)
    pod = topology.attach(ptp)
    assert residue.difference(before, residue.snapshot(topology))
    topology.detach(pod)
    residue.assert_same(before, topology)


@pytest.mark.parametrize("kind, plant", [
    ("links", lambda t: t.node.ip("link add planted type veth peer name planted2")),
    ("routes", lambda t: t.node.ip("route add 10.9.9.9/32 dev lo")),
    ("neighbours", lambda t: t.node.ip_batch("link add planted type veth peer name p2\nneigh add 10.9.9.9 lladdr 02:00:00:00:00:09 dev planted")),
    ("rules of nftables", lambda t: t.node.nft("table ip planted { }")),
    ("leases", lambda t: _touch(f"{t.directory}/ipam/net/10.2.0.7")),
    ("state files", lambda t: _touch("/run/xveth/77/net/0123456789ab.json")),
    ("pins", lambda t: os.makedirs("/sys/fs/bpf/xveth/v1/77/links", exist_ok=True) or os.system(
        "bpftool map create /sys/fs/bpf/xveth/v1/77/links/0123456789abh type array key 4 value 4 entries 1 name planted")),
], ids=lambda value: value if isinstance(value, str) else "")
def test_residue_scanner_sees(topology, kind, plant):
    before = residue.snapshot(topology)
    plant(topology)
    lines = residue.difference(before, residue.snapshot(topology))
    _unplant()
    assert any(line.startswith(f"left behind, {kind}:") for line in lines), lines


def _touch(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii"):
        pass


def _unplant():
    for path in ("/run/xveth/77/net/0123456789ab.json", "/sys/fs/bpf/xveth/v1/77/links/0123456789abh"):
        if os.path.exists(path):
            os.unlink(path)


def test_lost_and_changed_payloads_are_noticed(topology, ptp):
    pod = topology.attach(ptp)
    topology.node.chain("forward", "udp length > 1000 drop")
    flow = UdpFlow(topology.client, pod.ns, pod.address())
    flow.exchange(5, size=100)
    assert flow.request_is_lost(size=1200)
    topology.node.run("nft", "flush", "ruleset")
    flow.client.send(b"not what the pattern says")
    with pytest.raises(AssertionError, match="changed"):
        flow.request()
    flow.close()


def test_stalled_and_refused_connections_are_noticed(topology, ptp):
    pod = topology.attach(ptp)
    flow = TcpFlow(topology.client, pod.ns, pod.address())
    flow.exchange(100_000)
    topology.node.chain("forward", "tcp dport != 22 drop")
    with pytest.raises(AssertionError, match="stalled"):
        flow.exchange(100_000, timeout=0.5)
    flow.close()
    assert tcp_connect_fails(topology.client, pod.ns, pod.address(), timeout=0.5)


def test_two_containers_never_share_a_name():
    first, second = Container(), Container()
    assert first.cid != second.cid and first.netns_path != second.netns_path
    first.ns.close()
    second.ns.close()
