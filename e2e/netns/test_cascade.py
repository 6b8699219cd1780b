# SPDX-License-Identifier: Apache-2.0
"""Chains: frames for a protected container pass through functions, by position, whatever way they come."""

import contextlib
import ipaddress
import os
import socket
import subprocess
import threading
import time

import pytest

from lib import cni, residue
from lib.cascade import ANNOTATIONS, DROP, PASS, TX, Cascade, Seen, chains_of, last_byte, order, seen_by, slots_of
from lib.netns import CommandFailed
from lib.owner import program_on
from lib.stats import Watch, xvethctl
from lib.topology import CLIENT, NODE
from lib.traffic import (Stream, UdpFlow, family_of, listen_udp, open_socket, ping, receives, send_frame, tcp_connect_fails,
                         tcp_works, udp_packet, udp_works)

N = 20
ANSWERED, DROPPED, TO_ANOTHER, FROM_ANOTHER = 7, 9, 15, 17  # ports of e2e/owner/bpf/function.bpf.c
FAMILIES = pytest.mark.parametrize("family", [4, 6], ids=["IPv4", "IPv6"])
SIDES = ["NIC", "container", "node"]
POLICIES = ["auto", "stack"]


class Lab(Cascade):
    """One protected container behind two functions; the second one joined first. Beside a rule that punishes a conntrack
    which sees half of a flow."""

    def __init__(self, **keys):
        super().__init__(**keys)
        self.node.chain("forward", "ct state invalid drop")
        self.f20 = self.function(20)
        self.f10 = self.function(10)
        self.web = self.protected()
        self.other = self.plain()

    def side(self, name):
        return {"NIC": self.client, "container": self.other.ns, "node": self.node}[name]

    def rest(self):
        for function in (self.f10, self.f20):
            order(function, TX)


@pytest.fixture(scope="module", params=POLICIES)
def lab(request):
    world = Lab(policy=request.param)
    yield world
    world.close()


@pytest.fixture(autouse=True)
def at_rest(request):
    yield
    if "lab" in request.fixturenames:
        request.getfixturevalue("lab").rest()


@pytest.fixture
def cascade():
    world = Cascade()
    yield world
    world.close()


def wait_until(condition, what, patience=10.0):
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def udp_is_lost(client, pod, family=4, port=None):
    flow = UdpFlow(client, pod.ns, pod.address(family), port=port)
    try:
        return flow.request_is_lost(wait=0.15)
    finally:
        flow.close()


# -- the way of a frame

@FAMILIES
@pytest.mark.parametrize("side", SIDES)
def test_every_frame_passes_every_function_once(lab, side, family):
    client, address = lab.side(side), lab.web.address(family)
    with Seen(lab.f10, lab.f20, kind="udp") as seen:
        udp_works(client, lab.web.ns, address, count=N)
    assert list(seen) == [N, N]
    with Seen(lab.f10, lab.f20, kind="tcp") as seen:
        tcp_works(client, lab.web.ns, address, length=100_000)
    assert seen[lab.f10] == seen[lab.f20] > 20
    with Seen(lab.f10, lab.f20, kind="other") as seen:
        ping(client, address)
    assert list(seen) == [3, 3]


@FAMILIES
@pytest.mark.parametrize("side", SIDES)
def test_functions_come_in_order_of_position(lab, side, family):
    for verdict in (DROP, PASS):
        order(lab.f10, verdict)
        with Seen(lab.f10, lab.f20, kind="udp") as seen:
            assert udp_is_lost(lab.side(side), lab.web, family)
        assert list(seen) == [1, 0], "the first one keeps or drops: the second one sees nothing"
        order(lab.f10, TX)
        order(lab.f20, verdict)
        with Seen(lab.f10, lab.f20, kind="udp") as seen:
            assert udp_is_lost(lab.side(side), lab.web, family)
        assert list(seen) == [1, 1]
        order(lab.f20, TX)


@FAMILIES
def test_what_the_protected_container_sends_and_gets_back(lab, family):
    for server, address in ((lab.other.ns, lab.other.address(family)), (lab.client, CLIENT[family]), (lab.node, NODE[family])):
        with Seen(lab.f10, lab.f20, kind="udp") as seen:
            udp_works(lab.web.ns, server, address, count=N)
        assert list(seen) == [N, N], "answers pass the chain as well"
        tcp_works(lab.web.ns, server, address, length=50_000)


def test_others_do_not_pass_the_chain(lab):
    with Seen(lab.f10, lab.f20, kind="udp") as seen:
        udp_works(lab.client, lab.other.ns, lab.other.address(), count=N)
        udp_works(lab.node, lab.other.ns, lab.other.address(), count=N)
    assert list(seen) == [0, 0]


def test_counters_of_each_hop(lab):
    before = lab.slots()
    udp_works(lab.client, lab.web.ns, lab.web.address(), count=N)
    order(lab.f20, DROP)
    assert udp_is_lost(lab.client, lab.web)
    after = lab.slots()
    grown = {p: {k: after[p][k] - before[p][k] for k in ("in", "out", "dropped")} for p in (10, 20)}
    assert grown == {10: {"in": N + 1, "out": N + 1, "dropped": 0}, 20: {"in": N + 1, "out": N, "dropped": 0}}
    assert [after[p]["attachment"] for p in (10, 20)] == [lab.f10.attachment, lab.f20.attachment]
    assert lab.chains()["edge"]["protected"] == [lab.web.attachment]
    table = xvethctl(lab.node, "chain", "show", "edge")
    assert "POSITION" in table and lab.f10.attachment in table


def test_check_and_doctor_find_it_well(lab):
    for pod in (lab.f10, lab.f20, lab.web, lab.other):
        pod.runtime.check(pod).ok()


# -- what functions must not

@FAMILIES
@pytest.mark.parametrize("side", ["NIC", "container"])
def test_a_function_answers_in_the_containers_name_to_nobody(lab, side, family):
    """What comes back from a function goes on to the protected container or nowhere: it cannot speak for it."""
    flow = UdpFlow(lab.side(side), lab.web.ns, lab.web.address(family), port=ANSWERED)
    try:
        with Watch(lab) as seen:
            assert flow.request_is_lost()
        assert not receives(flow.client)
        assert seen.reason(lab.f10, "drop_spoofed") == 1
    finally:
        flow.close()


@FAMILIES
def test_a_function_answers_its_own_request(lab, family):
    """To the protected container: through the positions above its own, so it does not see its own answer."""
    server = lab.f20 if lab.f20.address(family) else None
    client = open_socket(lab.web.ns, family_of(server.address(family)), 2, (lab.web.address(family), 0))
    try:
        client.connect((server.address(family), ANSWERED))
        with Seen(lab.f10, lab.f20, kind="udp") as seen:
            client.send(b"to you")
            assert client.recv(100) == b"to you"
        assert list(seen) == [0, 1]
        client.connect((lab.f10.address(family), ANSWERED))
        with Seen(lab.f10, lab.f20, kind="udp") as seen:
            client.send(b"to you")
            assert client.recv(100) == b"to you"
        assert list(seen) == [1, 1]
    finally:
        client.close()


@FAMILIES
def test_a_function_speaks_to_the_protected_container(lab, family):
    """Its own connections are as any container's, and pass the positions above its own; it gets back the answers alone."""
    order(lab.f10, PASS)
    order(lab.f20, TX)
    with Seen(lab.f10, lab.f20, kind="udp") as seen:
        udp_works(lab.f10.ns, lab.web.ns, lab.web.address(family), count=N)
    assert list(seen) == [N, N]
    with Seen(lab.f10, lab.f20, kind="tcp") as seen:
        tcp_works(lab.f10.ns, lab.web.ns, lab.web.address(family))
    assert seen[lab.f10] > 10 and seen[lab.f20] > 10
    order(lab.f20, PASS)
    with Seen(lab.f10, lab.f20, kind="udp") as seen:
        udp_works(lab.f20.ns, lab.web.ns, lab.web.address(family), count=N)
        tcp_works(lab.f20.ns, lab.web.ns, lab.web.address(family))
    assert list(seen) == [0, N]


@FAMILIES
def test_a_frame_in_a_functions_own_name_does_not_come_back_to_it(lab, family):
    """Forged beyond the node, or come back to it: once through each function, as any other."""
    for side in (lab.other.ns, lab.client):
        packet = udp_packet(lab.f10.address(family), lab.web.address(family), 4000, 4001)
        with Seen(lab.f10, lab.f20, kind="udp") as seen:
            if side is lab.client:
                send_frame(side, "eth0", lab.node.link("nic0")["address"], packet)
            else:
                with Watch(lab) as watch:
                    send_frame(side, "eth0", lab.node.link(lab.other.host_end)["address"], packet)
                assert watch.reason(lab.other, "drop_spoofed") == 1
            time.sleep(0.2)
        assert list(seen) == ([1, 1] if side is lab.client else [0, 0])


@FAMILIES
def test_a_function_sends_to_another_container_in_vain(lab, family):
    """A foreign source is taken from a function only towards what its chain protects."""
    order(lab.f10, TX, last_byte(lab.other.address(family)))
    target = listen_udp(lab.other.ns, lab.other.address(family), TO_ANOTHER)
    try:
        with Watch(lab) as seen:
            assert udp_is_lost(lab.client, lab.web, family, port=TO_ANOTHER)
        assert not receives(target)
        assert seen.reason(lab.f10, "drop_spoofed") == 1
    finally:
        target.close()


def test_nothing_circulates(cascade):
    """Two chains whose functions send everything on, each towards the other chain's container; and within one chain, back
    to its own beginning. Each function sees a frame once at most."""
    webs = {chain: cascade.protected(chain) for chain in ("edge", "back")}
    second = cascade.protected("edge")
    functions = {(chain, position): cascade.function(position, chain) for chain in webs for position in (10, 20)}
    cross = {"edge": webs["back"], "back": webs["edge"]}
    for (chain, _), function in functions.items():
        order(function, TX, last_byte(cross[chain].address()))
    everyone = list(functions.values())
    for pod in everyone:  # a frame to the function itself, sent on unchanged
        with Seen(*everyone, kind="udp") as seen:
            assert udp_is_lost(cascade.client, pod)
        assert sum(seen) == 1, list(seen)
    for chain, web in webs.items():
        with Seen(*everyone, kind="udp") as seen:
            assert udp_is_lost(cascade.client, web, port=TO_ANOTHER)
            assert udp_is_lost(cascade.client, web, port=FROM_ANOTHER) or True
        assert max(seen) <= 2, list(seen)
        assert not any(seen[pod] for (other, _), pod in functions.items() if other != chain), list(seen)
    order(functions["edge", 20], TX, last_byte(second.address()))
    order(functions["edge", 10], TX, last_byte(webs["edge"].address()))
    with Seen(*everyone, kind="udp") as seen:  # 10 leaves the address as it is, 20 makes it the second container's
        UdpFlow(cascade.client, webs["edge"].ns, webs["edge"].address(), port=TO_ANOTHER).request_is_lost()
    assert [seen[functions["edge", 10]], seen[functions["edge", 20]]] == [1, 1], list(seen)


# -- gone, and back

@FAMILIES
@pytest.mark.parametrize("end", ["DEL", "namespace"])
@pytest.mark.parametrize("on_failure", ["bypass", "drop"])
def test_a_function_that_is_gone(cascade, on_failure, end, family):
    web, other = cascade.protected(), cascade.plain()
    first, second = cascade.function(10, on_failure=on_failure), cascade.function(20)
    sides = (cascade.client, other.ns, cascade.node)
    for side in sides:
        udp_works(side, web.ns, web.address(family), count=3)
    if end == "DEL":
        cascade.detach(first)
        assert cascade.states() == {10: "gone", 20: "live"}
    else:
        first.loader.close()
        first.ns.close()
        wait_until(lambda: not cascade.node.has_link(first.host_end), "the device stays")
        assert cascade.states()[10] == "gone"
    with Seen(second, kind="udp") as seen:
        for side in sides:
            if on_failure == "bypass":
                udp_works(side, web.ns, web.address(family), count=3)
                tcp_works(side, web.ns, web.address(family), length=20_000)
            else:
                assert udp_is_lost(side, web, family)
    assert (seen[second] > 0) == (on_failure == "bypass")
    again = cascade.function(10, on_failure=on_failure)
    assert cascade.states() == {10: "live", 20: "live"}
    with Seen(again, kind="udp") as seen:
        for side in sides:
            udp_works(side, web.ns, web.address(family), count=3)
    assert seen[again] == 9


def test_forgetting_a_function(cascade):
    web = cascade.protected()
    cascade.detach(cascade.function(10))
    second = cascade.function(20)
    assert udp_is_lost(cascade.client, web)
    with pytest.raises(CommandFailed, match="position 20.*live"):
        xvethctl(cascade.node, "chain", "forget", "edge", "20")
    with pytest.raises(CommandFailed, match="no function.*30"):
        xvethctl(cascade.node, "chain", "forget", "edge", "30")
    xvethctl(cascade.node, "chain", "forget", "edge", "10")
    assert cascade.states() == {20: "live"}
    with Seen(second, kind="udp") as seen:
        udp_works(cascade.client, web.ns, web.address(), count=N)
    assert seen[second] == N


def test_a_chain_without_functions_is_closed(cascade):
    web = cascade.protected()
    assert udp_is_lost(cascade.client, web)
    assert udp_is_lost(cascade.node, web)
    cascade.function(10)
    udp_works(cascade.client, web.ns, web.address())
    udp_works(cascade.node, web.ns, web.address())


@FAMILIES
@pytest.mark.parametrize("on_failure", ["bypass", "drop"])
def test_a_function_that_is_disarmed(cascade, on_failure, family):
    cascade.start_agent()
    web = cascade.protected()
    function = cascade.function(10, on_failure=on_failure, armed=False)
    cascade.function(20)
    assert cascade.states() == {10: "disarmed", 20: "live"}

    def passes():
        if on_failure == "bypass":
            udp_works(cascade.client, web.ns, web.address(family), count=3)
        else:
            assert udp_is_lost(cascade.client, web, family)
    passes()
    for _ in range(2):
        cascade.arm(function)
        wait_until(lambda: cascade.states()[10] == "live", "armed and not noticed")
        with Seen(function, kind="udp") as seen:
            udp_works(cascade.client, web.ns, web.address(family), count=3)
        assert seen[function] == 3
        function.loader.detach()
        wait_until(lambda: cascade.states()[10] == "disarmed", "disarmed and not noticed")
        passes()


def test_the_agent_looks_when_it_starts_and_leaves_all_when_it_ends(cascade):
    web = cascade.protected()
    function = cascade.function(10, on_failure="bypass")
    function.loader.detach()
    assert cascade.states() == {10: "live"}, "without xvethd nobody looks"
    assert "xvethd" in xvethctl(cascade.node, "doctor", check=False)
    log = open("/run/e2e/xveth.log", encoding="utf-8").read()
    assert "xvethd does not run" in log
    agent = cascade.start_agent()
    assert cascade.states() == {10: "disarmed"}
    udp_works(cascade.client, web.ns, web.address())
    agent.stop()
    cascade.agent = None
    assert cascade.states() == {10: "disarmed"}
    udp_works(cascade.client, web.ns, web.address())


# -- while traffic goes on

@FAMILIES
@pytest.mark.parametrize("side", SIDES)
def test_functions_join_and_leave_without_loss(cascade, side, family):
    cascade.start_agent()
    web, other = cascade.protected(), cascade.plain()
    cascade.function(50)
    client = {"NIC": cascade.client, "container": other.ns, "node": cascade.node}[side]
    stream = Stream(client, web.ns, web.address(family))
    saw = 0
    for position in (10, 90):
        function = cascade.function(position, on_failure="bypass")
        wait_until(lambda: cascade.states()[position] == "live", "armed and not noticed")
        with Seen(function, kind="udp") as seen:
            time.sleep(0.05)
        saw += seen[function]
        cascade.detach(function)
        time.sleep(0.02)
    stream.stop()
    assert saw > 10 and stream.sent > 100
    assert not stream.lost and stream.doubled == 0, stream
    print(stream)


class Flood:
    """Datagrams to an address, on and on, whether it is there or not."""

    def __init__(self, ns, address):
        self.sock = open_socket(ns, family_of(address), socket.SOCK_DGRAM)
        self.end = threading.Event()
        self.thread = threading.Thread(target=self._send, args=((address, 5000),))
        self.thread.start()

    def _send(self, to):
        while not self.end.wait(0.0005):
            with contextlib.suppress(OSError):  # nobody has the address
                self.sock.sendto(b"unasked", to)

    def stop(self):
        self.end.set()
        self.thread.join(10)
        self.sock.close()


def arrived(sniffer):
    """How many of a flood's datagrams have come to a packet socket."""
    count = 0
    while receives(sniffer, wait=0.1):
        data, address = sniffer.recvfrom(2000)
        count += data.endswith(b"unasked") and address[2] != socket.PACKET_OUTGOING
    return count


@FAMILIES
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("stack_path", ["drop", "pass"])
def test_no_frame_gets_by_while_a_container_comes_and_goes(policy, stack_path, family):
    """From the client and from the node itself, before, during and after ADD and DEL: nobody but the function sees any."""
    cascade = Cascade(policy=policy)
    try:
        function = cascade.function(10, does=DROP)
        last = ipaddress.ip_address(cascade.plain().address(family))
        cascade.net.plugins[0]["protectedBy"] = {"chain": "edge", "stackPath": stack_path}
        for number in range(1, 4):
            pod, address = cascade.container(), str(last + number)
            sniffer = open_socket(pod.ns, socket.AF_PACKET, socket.SOCK_RAW, protocol=socket.htons(3))  # ETH_P_ALL
            floods = [Flood(side, address) for side in (cascade.client, cascade.node)]
            try:
                cascade.attach(cascade.net, pod)
                assert pod.address(family) == address
                before = seen_by(function, "udp")
                time.sleep(0.05)
                cascade.detach(pod)
            finally:
                for flood in floods:
                    flood.stop()
            assert seen_by(function, "udp") - before > 10
            assert arrived(sniffer) == 0
            sniffer.close()
    finally:
        cascade.close()


# -- the example

class ExampleFunction:
    """A function of examples/chain at work; `end` gives its last line: frames sent on, frames dropped."""

    def __init__(self, pod, *argv):
        program, *rest = argv
        self.process = subprocess.Popen([cni.NSENTER, f"--net={pod.ns.path}", "--", os.path.join(cni.BIN_DIR, program), *rest],
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().startswith("sent on ")

    def end(self):
        self.process.terminate()
        last = self.process.communicate(timeout=10)[0].splitlines()[-1].split()
        return int(last[2]), int(last[4])


@FAMILIES
def test_the_example(cascade, family):
    """Rate limiter, filter, web server: each source has its rate, and closed ports nobody behind them."""
    web, other = cascade.protected(), cascade.plain()
    functions = [ExampleFunction(cascade.function(20, armed=False), "chain-filter", "80"),
                 ExampleFunction(cascade.function(10, armed=False), "chain-limiter", "300")]
    try:
        address = web.address(family)
        tcp_works(cascade.client, web.ns, address, port=80, length=20_000)
        assert tcp_connect_fails(cascade.client, web.ns, address, port=81, timeout=0.5)
        assert udp_is_lost(cascade.client, web, family, port=53)
        listener = listen_udp(web.ns, address, 80)
        with listener, open_socket(cascade.client, family_of(address), socket.SOCK_DGRAM) as flood:
            flood.connect((address, 80))
            for _ in range(2000):
                flood.send(b"x" * 8)
        tcp_works(other.ns, web.ns, address, port=80, length=20_000)  # another source, another bucket
    finally:
        (_, closed), (_, too_many) = [function.end() for function in functions]
    assert closed >= 2 and too_many > 500, (closed, too_many)


# -- configuration

def test_members_by_key(topology):
    function = topology.attach(topology.network(name="f", containerXdp="free", subnets=["10.2.1.0/24"],
                                                chain={"name": "edge", "position": 10, "onFailure": "bypass"}))
    web = topology.attach(topology.network(name="w", protectedBy="edge", subnets=["10.2.2.0/24"]))
    slots = slots_of(topology)
    assert {p: (s["state"], s["onFailure"]) for p, s in slots.items()} == {10: ("live", "bypass")}
    topology.detach(web)
    topology.detach(function)
    assert slots_of(topology) == {}


@pytest.mark.parametrize("annotations, word", [
    ({"chain": "other:10", "container-xdp": "free"}, "allow.chains.join"),
    ({"protected-by": "other"}, "allow.chains.use"),
    ({"chain": "edge:10", "container-xdp": "managed"}, "managed"),
    ({"chain": "edge:10", "container-xdp": "free", "protected-by": "edge"}, "protectedBy")])
def test_requests_that_are_refused(cascade, annotations, word):
    before = residue.snapshot(cascade)
    conf = {**cascade.net.plugins[0], "name": cascade.net.name,
            "runtimeConfig": {ANNOTATIONS: {f"xveth.dev/{k}": v for k, v in annotations.items()}}}
    pod = cascade.container()
    cni.call(cascade.node, "ADD", conf, pod.cid, pod.netns_path, "eth0").error(7, word)
    residue.assert_same(before, cascade)


def test_a_position_has_one_function_and_a_chain_sixteen(cascade):
    functions = [cascade.function(position, armed=False) for position in range(1, 17)]

    def refused(position, *words):
        conf = {**cascade.net.plugins[0], "name": cascade.net.name, "runtimeConfig": {ANNOTATIONS: {
            "xveth.dev/chain": f"edge:{position}", "xveth.dev/container-xdp": "free"}}}
        pod = cascade.container()
        cni.call(cascade.node, "ADD", conf, pod.cid, pod.netns_path, "eth0").error(7, *words)
    refused(7, "position 7", "edge", functions[6].attachment)
    refused(17, "edge", "16")
    cascade.detach(functions[3])
    refused(17, "edge", "forget")
    cascade.function(4, armed=False)
    assert set(cascade.states().values()) == {"live"}


@pytest.mark.parametrize("path, arrives", [("drop", False), ("pass", True)])
def test_what_no_chain_carries(cascade, path, arrives):
    cascade.net.plugins[0]["protectedBy"] = {"chain": "edge", "stackPath": path}
    web = cascade.plain()
    del cascade.net.plugins[0]["protectedBy"]
    cascade.function(10)
    with web.ns.entered():
        listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
    try:
        with Watch(cascade) as seen:
            with contextlib.nullcontext() if arrives else pytest.raises(OSError, match="buffer space"):
                send_frame(cascade.node, web.host_end, web.ns.link("eth0")["address"], bytes(60), ethertype=0x88B5)
            assert receives(listener) == arrives
        assert (seen.reason(web, "drop_chain_stack") == 0) == arrives
    finally:
        listener.close()
    udp_works(cascade.client, web.ns, web.address())


def test_mtu_is_the_smallest_of_the_chain(cascade):
    cascade.net.plugins[0]["mtu"] = 1400
    cascade.function(10)
    cascade.net.plugins[0]["mtu"] = 1500
    web = cascade.protected()
    assert web.ns.link("eth0")["mtu"] == 1400
    udp_works(cascade.client, web.ns, web.address(), count=3, size=1300)
    tcp_works(cascade.client, web.ns, web.address(), length=100_000)
    cascade.net.plugins[0]["mtu"] = 1300
    conf = {**cascade.net.plugins[0], "name": cascade.net.name, "runtimeConfig": {ANNOTATIONS: {
        "xveth.dev/chain": "edge:20", "xveth.dev/container-xdp": "free"}}}
    pod = cascade.container()
    cni.call(cascade.node, "ADD", conf, pod.cid, pod.netns_path, "eth0").error(7, "1300", "1400", web.attachment)


# -- what goes wrong

def test_check_says_what_is_missing(cascade):
    web, function = cascade.protected(), cascade.function(10)
    for pod in (web, function):
        pod.runtime.check(pod).ok()
    pins = cascade.pins("links")
    egress = [path for name, path in pins.items() if name.endswith("e")]
    assert len(egress) == 1
    os.unlink(egress[0])
    web.runtime.check(web).error(101, web.host_end)
    assert "protect" in xvethctl(cascade.node, "doctor", check=False)


def test_a_killed_add_heals(cascade, scale):
    web = cascade.protected()
    conf = {**cascade.net.plugins[0], "name": cascade.net.name, "runtimeConfig": {ANNOTATIONS: {
        "xveth.dev/chain": "edge:10", "xveth.dev/container-xdp": "free"}}}
    pod = cascade.container()
    rounds = scale(60)
    for round_ in range(rounds):
        cni.call_and_kill(cascade.node, conf, pod.cid, pod.netns_path, "eth0", 0.12 * round_ / rounds)
        cni.call(cascade.node, "DEL", conf, pod.cid, pod.netns_path, "eth0").ok()
        assert cascade.states() in ({}, {10: "gone"})
        cni.call(cascade.node, "ADD", conf, pod.cid, pod.netns_path, "eth0").ok()
        assert cascade.states() == {10: "live"}
        cni.call(cascade.node, "DEL", conf, pod.cid, pod.netns_path, "eth0").ok()
        assert cascade.states() == {10: "gone"}
    cascade.detach(web)
    assert cascade.chains() == {}


def test_gc_collects_members(cascade):
    web, function = cascade.protected(), cascade.function(10)
    valid = [{"containerID": web.cid, "ifname": "eth0"}]
    conf = {**cascade.net.plugins[0], "name": cascade.net.name, "cniVersion": "1.1.0"}

    def collect(keep):
        cni.call(cascade.node, "GC", {**conf, "cni.dev/valid-attachments": keep}).ok()
    collect([*valid, {"containerID": function.cid, "ifname": "eth0"}])
    assert cascade.states() == {10: "live"}
    function.loader.close()
    collect(valid)
    assert cascade.states() == {10: "gone"}
    collect([])
    assert cascade.chains() == {}


def test_nothing_is_left(clean_topology):
    world = clean_topology
    first = world.attach(world.network(containerXdp="free", subnets=["10.2.1.0/24"], chain={"name": "edge", "position": 10}))
    web = world.attach(world.network(protectedBy="edge", subnets=["10.2.2.0/24"]))
    assert set(chains_of(world)) == {"edge"}
    world.detach(first)
    world.detach(web)
    assert chains_of(world) == {}
