# SPDX-License-Identifier: Apache-2.0
"""A flow is fast both ways or not at all, and survives whatever changes under it.

Each test runs beside rules that punish a conntrack which sees half of a flow: `ct state invalid drop`, masquerade of what
looks new, and no picking up of TCP in the middle.
"""

import socket
import time

import pytest

from lib import traffic
from lib.netns import Netns
from lib.stats import Watch
from lib.topology import CLIENT, NODE, Topology
from lib.traffic import TcpFlow, UdpFlow, icmp_error_of, ping, tcp_works, udp_works

N = 20
FAMILIES = pytest.mark.parametrize("family", [4, 6], ids=["IPv4", "IPv6"])
REMEMBERED = 1.1  # seconds after which every verdict is asked anew
SERVICE = {4: "10.96.0.10", 6: "fd00:96::10"}


class Lab(Topology):
    def __init__(self, **keys):
        super().__init__()
        self.runtime = self.network(families=(4, 6), **{"localMtu": 0, "policy": "fast", **keys})
        self.a, self.b = self.attach(self.runtime), self.attach(self.runtime)
        for family in (4, 6):
            ping(self.node, CLIENT[family], count=1)
            ping(self.client, NODE[family], count=1)

    def punish_half_flows(self):
        """What kube-proxy and a firewall do to packets that fit no flow."""
        self.node.chain("forward", "ct state invalid counter drop")
        self.node.chain("postrouting", "ip saddr 10.2.0.0/16 oifname nic0 counter masquerade",
                        "ip6 saddr fd00:2::/64 oifname nic0 counter masquerade", kind="nat", priority="100")
        self.node.sysctl("net.netfilter.nf_conntrack_tcp_loose", 0)

    def serve(self, pod, port, family=4):
        """A service address that leads to a container's port, with the masquerade of what comes back through the node."""
        proto = "ip" if family == 4 else "ip6"
        target = f"{pod.address(family)}:{port}" if family == 4 else f"[{pod.address(family)}]:{port}"
        rules = [f"{proto} daddr {SERVICE[family]} {l4} dport {port} dnat to {target}" for l4 in ("tcp", "udp")]
        table = self.node.chain("prerouting", *rules, kind="nat", priority="-100", family=proto)
        self.node.nft(f"add chain {table} out {{ type nat hook postrouting priority 100; }}\n"
                      f"add rule {table} out {proto} saddr {pod.address(family)} {proto} daddr {pod.address(family)} masquerade")
        self.client.ip(f"route replace {SERVICE[family]} via {NODE[family]}")


@pytest.fixture
def lab():
    world = Lab()
    yield world
    world.close()


@FAMILIES
def test_beside_invalid_drop_everything_connects(lab, family):
    lab.punish_half_flows()
    with Watch(lab) as seen:
        tcp_works(lab.client, lab.a.ns, lab.a.address(family))
        tcp_works(lab.a.ns, lab.b.ns, lab.b.address(family))
        udp_works(lab.client, lab.a.ns, lab.a.address(family), count=N)
        flow = UdpFlow(lab.a.ns, lab.client, CLIENT[family])
        assert flow.request()[0] == NODE[family]  # masqueraded
        flow.exchange(3)
        flow.close()
        tcp_works(lab.a.ns, lab.client, CLIENT[family])
    assert seen["nic0"].from_port > N and seen[lab.b].to_port > 50, seen


def test_auto_policy_is_fast_beside_the_rules_of_kube_proxy():
    lab = Lab(policy="auto")
    lab.node.chain("forward", "ct state invalid drop")
    pod = lab.attach(lab.network(name="later", subnets=["10.3.0.0/24"], localMtu=0))
    with Watch(lab) as seen:
        udp_works(lab.client, pod.ns, pod.address(), count=N)
        tcp_works(lab.client, pod.ns, pod.address())
    assert seen["nic0"].from_port > N, seen
    lab.close()


@FAMILIES
def test_service_address_leads_to_a_container_and_answers_come_from_it(lab, family):
    lab.punish_half_flows()
    lab.serve(lab.a, 8080, family)
    with Watch(lab) as seen:
        udp_works(lab.client, lab.a.ns, lab.a.address(family), via=SERVICE[family], port=8080, count=N)
        tcp_works(lab.client, lab.a.ns, lab.a.address(family), via=SERVICE[family], port=8080)
        udp_works(lab.b.ns, lab.a.ns, lab.a.address(family), via=SERVICE[family], port=8080, count=N)
        tcp_works(lab.b.ns, lab.a.ns, lab.a.address(family), via=SERVICE[family], port=8080)
    assert all(seen[p].from_port == seen[p].to_port == 0 for p in (lab.a, lab.b, "nic0")), seen
    with Watch(lab) as seen:  # the same port, addressed directly, is fast
        udp_works(lab.client, lab.a.ns, lab.a.address(family), port=8080, count=N)
    assert seen["nic0"].from_port == seen["nic0"].to_port == N, seen


@FAMILIES
def test_container_that_calls_itself_through_its_service(lab, family):
    lab.serve(lab.a, 8081, family)
    tcp_works(lab.a.ns, lab.a.ns, lab.a.address(family), via=SERVICE[family], port=8081)


@FAMILIES
def test_service_that_moves_to_another_container(lab, family):
    """The old flow goes on where it was; new ones reach the new container, whatever was remembered."""
    lab.serve(lab.a, 8082, family)
    first = TcpFlow(lab.b.ns, lab.a.ns, lab.a.address(family), via=SERVICE[family], port=8082)
    first.exchange()
    lab.node.run("nft", "flush", "ruleset")
    lab.serve(lab.b, 8082, family)
    tcp_works(lab.client, lab.b.ns, lab.b.address(family), via=SERVICE[family], port=8082)
    udp_works(lab.client, lab.b.ns, lab.b.address(family), via=SERVICE[family], port=8082)
    first.close()


@FAMILIES
def test_empty_neighbour_tables(lab, family):
    """Nobody knows anybody: the first frames go by the stack, which resolves; none is lost."""
    lab.punish_half_flows()
    for ns in (lab.node, lab.client):
        ns.run("ip", "neigh", "flush", "all")
        ns.ip(f"neigh del {CLIENT[family]} dev nic0", check=False)
    udp_works(lab.client, lab.a.ns, lab.a.address(family), count=N)
    tcp_works(lab.client, lab.a.ns, lab.a.address(family))
    lab.node.run("ip", "neigh", "flush", "all")
    udp_works(lab.a.ns, lab.b.ns, lab.b.address(family), count=N)


@FAMILIES
@pytest.mark.parametrize("speaks_first", ["client", "container"])
def test_neighbours_flushed_under_a_running_connection(lab, family, speaks_first):
    lab.punish_half_flows()
    flow = TcpFlow(lab.client, lab.a.ns, lab.a.address(family))
    with Watch(lab) as seen:
        flow.exchange()
    assert seen["nic0"].from_port > 50, seen
    for _ in range(3):
        time.sleep(REMEMBERED)
        lab.node.run("ip", "neigh", "flush", "all", "nud", "all")
        lab.node.run("ip", "-6", "neigh", "flush", "all", "nud", "all")
        if speaks_first == "client":
            flow.exchange(30_000, reply_length=0)
        else:
            flow.exchange(0, reply_length=30_000)
    flow.exchange()
    flow.close()


@FAMILIES
def test_neighbours_flushed_under_udp(lab, family):
    lab.punish_half_flows()
    flow = UdpFlow(lab.client, lab.a.ns, lab.a.address(family))
    flow.exchange(5)
    time.sleep(REMEMBERED)
    lab.node.run("ip", "neigh", "flush", "all", "nud", "all")
    lab.node.run("ip", "-6", "neigh", "flush", "all", "nud", "all")
    with Watch(lab) as seen:
        flow.reply()  # the container speaks first: its answer must not look like a new flow, to be masqueraded
    assert seen.reason(lab.a, "pass_neighbour") == 1, seen
    flow.exchange(5)
    flow.close()


@FAMILIES
def test_route_to_the_client_changes_under_a_running_connection(lab, family):
    """A second wire to the same client: the way back moves there and back again."""
    lab.punish_half_flows()
    lab.client.ip(f"link add eth1 type veth peer name nic1 netns {lab.node.name}")
    near, far = ("10.9.0.1", "10.9.0.2") if family == 4 else ("fd00:9::1", "fd00:9::2")
    length = 24 if family == 4 else 64
    flag = " nodad" if family == 6 else ""
    lab.client.ip(f"addr add {near}/{length} dev eth1{flag}")
    lab.client.ip("link set eth1 up")
    lab.node.ip(f"addr add {far}/{length} dev nic1{flag}")
    lab.node.ip("link set nic1 up")
    flow = TcpFlow(lab.client, lab.a.ns, lab.a.address(family))
    flow.exchange()
    host = f"{CLIENT[family]}/{32 if family == 4 else 128}"
    lab.node.ip(f"route add {host} via {near} dev nic1")
    time.sleep(REMEMBERED)
    with Watch(lab) as seen:
        flow.exchange(0, reply_length=50_000)
    assert seen.reason(lab.a, "pass_neighbour") + seen.reason(lab.a, "pass_no_target") == 1, seen
    flow.exchange()
    lab.node.ip(f"route del {host}")
    flow.exchange()
    flow.close()


@FAMILIES
def test_containers_come_and_go_under_a_running_connection(lab, family):
    """Each change makes every remembered verdict be asked anew; who started a flow is not forgotten."""
    lab.punish_half_flows()
    flows = [TcpFlow(lab.client, lab.a.ns, lab.a.address(family)), TcpFlow(lab.a.ns, lab.b.ns, lab.b.address(family))]
    udp = UdpFlow(lab.client, lab.b.ns, lab.b.address(family))
    udp.exchange(2)
    for _ in range(3):
        pod = lab.attach(lab.runtime)
        with Watch(lab) as seen:
            udp.reply()
            for flow in flows:
                flow.exchange(0, reply_length=30_000)
                flow.exchange(30_000)
            udp.exchange(2)
        assert seen["nic0"].from_port > 3 and seen[lab.b].to_port > 3, seen
        lab.detach(pod)
    for flow in flows:
        flow.close()
    udp.close()


@FAMILIES
def test_reused_address_does_not_inherit_flows(lab, family):
    """A new container with a dead one's address and port is a new endpoint: its connections begin on the fast path."""
    lab.punish_half_flows()
    runtime = lab.network(name="one", families=(family,), subnets=[{4: "10.3.0.0/24", 6: "fd00:3::/64"}[family]],
                          localMtu=0, policy="fast")
    address = {4: "10.3.0.60", 6: "fd00:3::60"}[family]
    for _ in range(2):
        pod = lab.attach(runtime, args=f"IgnoreUnknown=1;IP={address}")
        with Watch(lab) as seen:
            flow = UdpFlow(lab.client, pod.ns, address, port=9000, source_port=9001)
            flow.exchange(N)
            flow.close()
        assert seen["nic0"].from_port == seen["nic0"].to_port == N, seen
        lab.detach(pod)


@FAMILIES
def test_large_reply_to_a_small_fast_request(lab, family):
    """The reply's fragments are the stack's; so is the flow from then on, without a frame lost or masqueraded."""
    lab.punish_half_flows()
    for client, server in ((lab.client, lab.a), (lab.b.ns, lab.a)):
        flow = UdpFlow(client, server.ns, server.address(family))
        with Watch(lab) as seen:
            flow.request()
            flow.reply()
        assert seen[lab.a].to_port == seen[lab.a].from_port == 1, seen
        flow.reply(4000)
        flow.reply(4000)
        flow.request()
        flow.reply()
        flow.exchange(5, size=100, reply_size=4000)
        with Watch(lab) as seen:
            flow.exchange(5)
        assert seen[lab.a].to_port == seen[lab.a].from_port == 0, seen  # stays with the stack
        flow.close()


@FAMILIES
def test_large_request_after_small_ones(lab, family):
    lab.punish_half_flows()
    flow = UdpFlow(lab.client, lab.a.ns, lab.a.address(family))
    flow.exchange(3)
    flow.exchange(3, size=4000, reply_size=100)
    flow.exchange(3)
    flow.close()


@FAMILIES
def test_connection_survives_the_fall_to_the_stack(lab, family):
    """Its neighbour is gone: the connection drains to the stack without being cut, though conntrack never heard its window
    scale. What is sent after that exceeds by far the window that conntrack can see."""
    lab.punish_half_flows()
    flow = TcpFlow(lab.client, lab.a.ns, lab.a.address(family))
    flow.exchange()
    time.sleep(REMEMBERED)
    lab.node.ip(f"neigh replace {CLIENT[family]} lladdr 02:00:00:00:00:55 dev nic0 nud permanent")
    lab.node.ip(f"neigh del {CLIENT[family]} dev nic0")
    with Watch(lab) as seen:
        flow.exchange(0, reply_length=40_000)
    assert seen.reason(lab.a, "pass_neighbour") == 1, seen
    flow.exchange(3_000_000)
    flow.close()


@FAMILIES
def test_new_connection_on_the_ports_of_an_old_one(lab, family):
    lab.punish_half_flows()
    port, source_port = traffic.free_port(), traffic.free_port()
    for _ in range(4):
        flow = UdpFlow(lab.client, lab.a.ns, lab.a.address(family), port=port, source_port=source_port)
        flow.exchange(2)
        flow.close()
    for _ in range(4):
        tcp_works(lab.client, lab.a.ns, lab.a.address(family), port=port, length=1000)


@FAMILIES
def test_flow_that_conntrack_knew_before_stays_with_the_stack(lab, family):
    """The container begins a flow by the stack; what the other side then sends on it must come back the same way."""
    lab.punish_half_flows()
    flow = UdpFlow(lab.a.ns, lab.client, CLIENT[family])
    with Watch(lab) as seen:
        assert flow.request()[0] == NODE[family]
        for _ in range(N):
            flow.reply()
        flow.exchange(N)
    assert seen["nic0"].from_port == seen[lab.a].to_port == seen[lab.a].from_port == 0, seen
    flow.close()


@FAMILIES
def test_closed_port_is_answered(lab, family):
    """Errors about a fast flow travel with it: the sender learns at once that nobody listens."""
    lab.punish_half_flows()
    kind = traffic.family_of(CLIENT[family])
    for ns in (lab.client, lab.b.ns):
        with traffic.open_socket(ns, kind, socket.SOCK_DGRAM) as sock:
            sock.connect((lab.a.address(family), traffic.free_port()))
            sock.send(b"anybody?")
            assert icmp_error_of(sock) == "ECONNREFUSED"
        with traffic.open_socket(ns, kind, socket.SOCK_STREAM) as sock, pytest.raises(ConnectionRefusedError):
            sock.connect((lab.a.address(family), traffic.free_port()))


@FAMILIES
def test_path_mtu_is_discovered_on_a_fast_flow(lab, family):
    """A router behind the client's wire says "too big" about a fast reply: the container must hear it, though conntrack
    knows nothing of the flow."""
    lab.punish_half_flows()
    beyond = host_behind_a_narrow_wire(lab, family)
    try:
        flow = TcpFlow(beyond, lab.a.ns, lab.a.address(family))
        with Watch(lab) as seen:
            flow.exchange(1000, reply_length=500_000, timeout=15)
        flow.close()
        assert seen["nic0"].to_port > 50, seen
    finally:
        beyond.close()


def host_behind_a_narrow_wire(lab, family):
    """A host behind the client, which is its router, with a narrow wire between them; the host itself believes in 1500."""
    beyond = Netns("beyond")
    router, host, length = (("10.8.0.1", "10.8.0.2", 24) if family == 4 else ("fd00:8::1", "fd00:8::2", 64))
    flag = " nodad" if family == 6 else ""
    lab.client.ip(f"link add eth8 type veth peer name eth0 netns {beyond.name}")
    lab.client.ip(f"addr add {router}/{length} dev eth8{flag}")
    lab.client.ip("link set eth8 up mtu 1300")
    beyond.ip(f"addr add {host}/{length} dev eth0{flag}")
    beyond.ip("link set eth0 up")
    beyond.ip(f"{'-6 ' if family == 6 else ''}route add default via {router}")
    lab.client.sysctl("net.ipv4.ip_forward" if family == 4 else "net.ipv6.conf.all.forwarding", 1)
    return beyond


def test_many_flows_at_once(lab):
    lab.punish_half_flows()
    flows = [UdpFlow(lab.client, lab.a.ns, lab.a.address()) for _ in range(200)]
    with Watch(lab) as seen:
        for _ in range(2):
            for flow in flows:
                flow.exchange(1)
    assert seen["nic0"].from_port == seen["nic0"].to_port == 400, seen
    for flow in flows:
        flow.close()
