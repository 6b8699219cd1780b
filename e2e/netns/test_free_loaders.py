# SPDX-License-Identifier: Apache-2.0
"""A container whose XDP hook is its own: every loader, every verdict, while traffic goes on."""

import subprocess

import pytest

from lib import bpf, owner, traffic
from lib.netns import CommandFailed, Netns
from lib.owner import LOADERS, program_on, seen_by, set_word
from lib.stats import Watch, xvethctl
from lib.topology import CLIENT, GATEWAY, NODE, Topology
from lib.traffic import (Stream, TcpFlow, UdpFlow, family_of, open_socket, ping, receives, tcp_connect_fails, tcp_works,
                         udp_works)

N = 20
TX, DROP, REDIRECT, DEVMAP = 7, 9, 11, 13  # ports of e2e/owner/bpf/owner.bpf.c
FAMILIES = pytest.mark.parametrize("family", [4, 6], ids=["IPv4", "IPv6"])
KINDS = pytest.mark.parametrize("kind", ["plain", "frags"])
POLICIES = ["auto", "stack", "fast"]
MODES = ["route"]
ANNOTATIONS = "io.kubernetes.cri.pod-annotations"


class Lab(Topology):
    """A free container, and another one beside it that is managed."""

    def __init__(self, mode="route", **keys):
        super().__init__()
        keys = {"families": (4, 6), "mode": mode, **keys}
        self.network_of_free = self.network(containerXdp="free", **keys)
        self.free = self.attach(self.network_of_free)
        self.network_of_free.plugins[0]["containerXdp"] = "managed"
        self.other = self.attach(self.network_of_free)
        self.network_of_free.plugins[0]["containerXdp"] = "free"
        for family in (4, 6):
            ping(self.node, CLIENT[family], count=1)
            ping(self.client, NODE[family], count=1)

    def sides(self):
        return self.client, self.other.ns


@pytest.fixture(scope="module", params=MODES)
def lab(request):
    world = Lab(mode=request.param)
    yield world
    world.close()


@pytest.fixture(scope="module", params=[(mode, policy) for mode in MODES for policy in POLICIES], ids="-".join)
def policy_lab(request):
    mode, policy = request.param
    world = Lab(mode=mode, policy=policy)
    yield world
    world.close()


@pytest.fixture
def load():
    """Makes loaders, and takes away at the end what they left."""
    made = []

    def begin(loader, ns, device="eth0"):
        made.append((LOADERS[loader](ns, device), ns, device))
        return made[-1][0]
    yield begin
    for loader, _, _ in made:
        loader.close()
    for _, ns, device in made:
        if ns.has_link(device) and ns.link(device).get("xdp"):
            ns.ip(f"link set dev {device} xdpdrv off")


@pytest.fixture(autouse=True)
def quiet_kernel():
    before = complaints()
    yield
    assert complaints() == before


def complaints():
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    return [line for line in log.splitlines() if any(word in line for word in ("WARNING:", "BUG:", "Oops", "stalled pool"))]


def all_traffic_works(lab):
    for family in (4, 6):
        for side in lab.sides():
            udp_works(side, lab.free.ns, lab.free.address(family), count=5)
            tcp_works(side, lab.free.ns, lab.free.address(family), length=50_000)
        udp_works(lab.free.ns, lab.other.ns, lab.other.address(family), count=5)
        tcp_works(lab.free.ns, lab.client, CLIENT[family], length=50_000)


# -- asking for it

def asked_by_key(topology):
    return topology.attach(topology.network(containerXdp="free"))


def asked_by_annotation(topology):
    return topology.attach(topology.network(capabilities={ANNOTATIONS: True}),
                           runtime_config={ANNOTATIONS: {"xveth.dev/container-xdp": "free"}})


def asked_by_args(topology):
    return topology.attach(topology.network(), args="IgnoreUnknown=1;XVETH_CONTAINER_XDP=free")


@pytest.mark.parametrize("ask", [asked_by_key, asked_by_annotation, asked_by_args], ids=["key", "annotation", "CNI_ARGS"])
@KINDS
def test_both_kinds_attach_however_the_hook_was_asked_for(topology, load, ask, kind):
    pod = ask(topology)
    assert program_on(pod.ns) is None
    load("libbpf link", pod.ns).attach(kind)
    assert program_on(pod.ns)["name"] == "owner"
    udp_works(topology.client, pod.ns, pod.address(), count=N)
    assert seen_by(pod.ns)["udp4"] == N
    pod.runtime.check(pod).ok()


# -- loaders

@pytest.mark.parametrize("loader", LOADERS)
@KINDS
def test_redirected_frames_run_through_the_program(lab, load, loader, kind):
    load(loader, lab.free.ns).attach(kind)
    for family in (4, 6):
        for side in lab.sides():
            before = seen_by(lab.free.ns)
            with Watch(lab) as seen:
                udp_works(side, lab.free.ns, lab.free.address(family), count=N)
                tcp_works(side, lab.free.ns, lab.free.address(family), length=50_000)
            after = seen_by(lab.free.ns)
            udp, tcp = (after[f"{name}{family}"] - before[f"{name}{family}"] for name in ("udp", "tcp"))
            assert udp == N and udp + tcp == seen[lab.free].to_port, (before, after, seen)


PAIRS = [("plain", "plain"), ("frags", "frags"), ("plain", "frags"), ("frags", "plain")]


@pytest.mark.parametrize("loader, first, second", [
    (loader, *pair) for loader in LOADERS for pair in PAIRS if loader != "cilium/ebpf" or pair[0] == pair[1]])
def test_attach_replace_detach(lab, load, loader, first, second):
    owned = load(loader, lab.free.ns)
    owned.attach(first)
    before = program_on(lab.free.ns)["id"]
    udp_works(lab.client, lab.free.ns, lab.free.address(), count=5)
    owned.replace(second)
    assert program_on(lab.free.ns)["id"] != before
    udp_works(lab.client, lab.free.ns, lab.free.address(), count=5)
    assert seen_by(lab.free.ns)["udp4"] == 5
    owned.detach()
    assert program_on(lab.free.ns) is None
    with Watch(lab) as seen:
        udp_works(lab.client, lab.free.ns, lab.free.address(), count=5)
    assert seen[lab.free].to_port == 5, seen
    lab.free.runtime.check(lab.free).ok()


def test_other_kind_that_a_library_cannot_swap_in(lab, load):
    """cilium/ebpf loads plain programs without an attach type, and a link takes only its own: the old program stays."""
    owned = load("cilium/ebpf", lab.free.ns)
    owned.attach("plain")
    before = program_on(lab.free.ns)["id"]
    with pytest.raises(CommandFailed, match="invalid argument"):
        owned.replace("frags")
    assert program_on(lab.free.ns)["id"] == before
    udp_works(lab.client, lab.free.ns, lab.free.address(), count=5)


@pytest.mark.parametrize("loader", [name for name, kind in LOADERS.items() if issubclass(kind, owner._Process)])
def test_killed_loader(lab, load, loader):
    """A link goes with its process, a program attached by netlink stays: traffic goes on either way."""
    owned = load(loader, lab.free.ns)
    owned.attach("frags")
    flow = TcpFlow(lab.client, lab.free.ns, lab.free.address())
    flow.exchange(50_000)
    owned.kill()
    assert (program_on(lab.free.ns) is not None) == owned.survives_kill
    flow.exchange(50_000)
    flow.close()
    all_traffic_works(lab)
    lab.free.runtime.check(lab.free).ok()


@KINDS
def test_interface_down_and_up_keeps_program_and_path(lab, load, kind):
    load("libbpf link", lab.free.ns).attach(kind)
    down_and_up(lab.free.ns)
    assert program_on(lab.free.ns)["name"] == "owner"
    with Watch(lab) as seen:
        udp_works(lab.client, lab.free.ns, lab.free.address(), count=N)
    assert seen[lab.free].to_port == N == seen_by(lab.free.ns)["udp4"], seen


def down_and_up(ns, device="eth0"):
    """Down takes routes and IPv6 addresses away: who does it has to put them back, whatever made the interface."""
    saved = []
    for family in ("-4", "-6"):
        saved += [f"{family} route replace {line}" for line in ns.ip(f"{family} route show dev {device}").splitlines()
                  if not line.startswith(("fe80", "multicast"))]
        saved += [f"{family} neigh replace {line.replace('PERMANENT', f'dev {device} nud permanent')}"
                  for line in ns.ip(f"{family} neigh show dev {device} nud permanent").splitlines()]
    addresses = [a for a in ns.ip_json(f"addr show dev {device}")[0]["addr_info"] if a["family"] == "inet6" and a["scope"] == "global"]
    ns.ip(f"link set {device} down")
    ns.ip(f"link set {device} up")
    for address in addresses:
        ns.ip(f"addr replace {address['local']}/{address['prefixlen']} dev {device} nodad noprefixroute")
    for line in sorted(saved, key=lambda text: " via " in text):
        ns.ip(line if f"dev {device}" in line else f"{line} dev {device}")


# -- verdicts

@FAMILIES
@KINDS
def test_drop_drops_and_nothing_else(policy_lab, load, family, kind):
    lab = policy_lab
    load("libbpf link", lab.free.ns).attach(kind)
    for side in lab.sides():
        flow = UdpFlow(side, lab.free.ns, lab.free.address(family), port=DROP)
        for _ in range(3):
            flow.client.send(b"dropped")
        assert not receives(flow.server)
        flow.close()
        assert tcp_connect_fails(side, lab.free.ns, lab.free.address(family), port=DROP)
        udp_works(side, lab.free.ns, lab.free.address(family), count=5)


@FAMILIES
@KINDS
def test_tx_comes_back_out_to_wire_and_containers(policy_lab, load, family, kind):
    """The container's stack is not asked: nobody listens there."""
    lab = policy_lab
    load("libbpf link", lab.free.ns).attach(kind)
    for side in lab.sides():
        with Watch(lab) as seen:
            assert mirrored_udp(side, lab.free.address(family)) == list(range(N))
            mirrored_tcp(side, lab.free.address(family))
        fast = seen[lab.free].from_port
        assert fast == 0 if lab.network_of_free.plugins[0]["policy"] == "stack" else fast >= N + 3, seen


def mirrored_udp(side, address):
    """Numbers of the datagrams that came back, in order."""
    came = []
    with open_socket(side, family_of(address), traffic.socket.SOCK_DGRAM) as sock:
        sock.connect((address, TX))
        for number in range(N):
            sock.send(number.to_bytes(8, "big") + traffic.pattern(number, 500))
        while len(came) < N and receives(sock, 1.0):
            data = sock.recv(2000)
            came.append(int.from_bytes(data[:8], "big"))
            assert data[8:] == traffic.pattern(came[-1], 500)
    return came


def mirrored_tcp(side, address):
    """A connection to oneself, as of two ends that connect at the same time: each byte comes back."""
    with open_socket(side, family_of(address), traffic.socket.SOCK_STREAM) as sock:
        sock.connect((address, TX))
        for number in range(20):
            sock.sendall(traffic.pattern(number, 3000))
            back = b""
            while len(back) < 3000:
                back += sock.recv(3000 - len(back))
            assert back == traffic.pattern(number, 3000)


@FAMILIES
def test_tx_of_echo(lab, load, family):
    load("libbpf link", lab.free.ns).attach("frags")
    set_word(lab.free.ns, "owner_targets", 1, 1)
    before = lab.free.ns.read_sysctl("net.ipv4.icmp_echo_ignore_all")
    lab.free.ns.sysctl("net.ipv4.icmp_echo_ignore_all", 1)
    lab.free.ns.sysctl("net.ipv6.icmp.echo_ignore_all", 1)
    try:
        for side in lab.sides():
            ping(side, lab.free.address(family))
    finally:
        lab.free.ns.sysctl("net.ipv4.icmp_echo_ignore_all", before)
        lab.free.ns.sysctl("net.ipv6.icmp.echo_ignore_all", before)


@pytest.fixture
def inner(policy_lab, load):
    """A namespace inside the container, with the container's address, behind redirects in both directions."""
    lab, ns = policy_lab, Netns("inner")
    pod = lab.free.ns
    pod.ip(f"link add in0 type veth peer name in1 netns {ns.name}")
    mac, gateway = pod.link("eth0")["address"], lab.node.link(lab.free.host_end)["address"]
    for where, device in ((pod, "in0"), (ns, "in1")):
        where.run("ethtool", "-K", device, "gro", "on", "tx-checksum-ip-generic", "off", "tx-vlan-offload", "off")
        where.sysctl(f"net.ipv6.conf.{device}.accept_dad", 0)
    ns.ip_batch(f"""
        link set in1 address {mac}
        link set in1 up
        addr add {lab.free.address(4)}/32 dev in1
        addr add {lab.free.address(6)}/128 dev in1 nodad
        route add {GATEWAY[4]} dev in1
        route add default via {GATEWAY[4]}
        route add {GATEWAY[6]} dev in1
        route add default via {GATEWAY[6]} dev in1
        neigh add {GATEWAY[4]} lladdr {gateway} nud permanent dev in1
        neigh add {GATEWAY[6]} lladdr {gateway} nud permanent dev in1""")
    pod.ip("link set in0 up")
    for device, target in (("eth0", "in0"), ("in0", "eth0")):
        load("libbpf link", pod, device).attach("frags")
        number = pod.link(target)["ifindex"]
        set_word(pod, "owner_targets", 0, number, device)
        set_word(pod, "owner_ways", 0, number, device)
    yield ns
    pod.ip("link del in0")
    ns.close()


@FAMILIES
@pytest.mark.parametrize("port", [REDIRECT, DEVMAP], ids=["ifindex", "devmap"])
def test_redirect_within_the_container(policy_lab, inner, family, port):
    lab = policy_lab
    for side in lab.sides():
        udp_works(side, inner, lab.free.address(family), count=N, port=port)
        tcp_works(side, inner, lab.free.address(family), length=100_000, port=port)


# -- while traffic goes on

@FAMILIES
def test_toggling_loses_no_frame(lab, load, scale, family):
    """GRO keeps the receive path as it is whatever is attached, so that nothing is in flight that could be lost."""
    streams = [Stream(side, lab.free.ns, lab.free.address(family)) for side in lab.sides()]
    streams.append(Stream(lab.free.ns, lab.other.ns, lab.other.address(family)))
    flow = TcpFlow(lab.client, lab.free.ns, lab.free.address(family), timeout=30)
    rounds = scale(1000)
    for kind, other in (("plain", "plain"), ("frags", "plain")):
        owned = load("libbpf link", lab.free.ns)
        order = f"toggle {rounds // 2} {owner.object_path(kind)} {owner.object_path(other)}"
        owned.begin(order)
        flow.exchange(500_000, timeout=60)
        owned.end(order)
        flow.exchange(50_000)
    flow.close()
    for stream in streams:
        stream.stop()
        assert stream.sent > rounds, stream
        assert (len(stream.lost), stream.doubled, stream.overtaken) == (0, 0, 0), stream
    lab.free.runtime.check(lab.free).ok()


@FAMILIES
def test_down_and_up_loses_what_was_sent_meanwhile(lab, load, scale, family):
    """Bound: frames sent between down and up, and one ring (256) that the kernel empties when the interface goes down."""
    load("libbpf link", lab.free.ns).attach("frags")
    stream = Stream(lab.client, lab.free.ns, lab.free.address(family))
    windows = []
    for _ in range(scale(100)):
        begin = stream.sent
        down_and_up(lab.free.ns)
        windows.append(range(begin - 256, stream.sent + 1))
        udp_works(lab.client, lab.free.ns, lab.free.address(family), count=2)
    stream.stop()
    stray = [number for number in stream.lost if not any(number in window for window in windows)]
    assert not stray and stream.doubled == 0, (stream, stray[:10])
    assert stream.arrived[-1] >= stream.sent - 1, stream


# -- MTU

def test_plain_program_on_a_large_pair_gets_the_kernels_reason(topology, load):
    pod = topology.attach(topology.network(containerXdp="free", localMtu=65000))
    with pytest.raises(CommandFailed, match="error 34 "):  # ERANGE
        load("libbpf link", pod.ns).attach("plain")
    with pytest.raises(CommandFailed, match="[Pp]eer MTU is too large"):
        LOADERS["ip link"](pod.ns).attach("plain")
    assert program_on(pod.ns) is None
    udp_works(topology.client, pod.ns, pod.address())
    load("libbpf link", pod.ns).attach("frags")
    udp_works(topology.client, pod.ns, pod.address())
    pod.runtime.check(pod).ok()


@KINDS
def test_large_pod_and_free_pod_talk_in_every_size(topology, load, kind):
    runtime = topology.network(containerXdp="free")
    free = topology.attach(runtime)
    runtime.plugins[0]["containerXdp"] = "managed"
    large = topology.attach(runtime)
    assert large.ns.link("eth0")["mtu"] == 65000 and free.ns.link("eth0")["mtu"] == 1500
    load("libbpf link", free.ns).attach(kind)
    learn = UdpFlow(large.ns, free.ns, free.address())
    assert learn.request_is_lost(2000)  # and the node answered "too big": from here on the large pod knows
    learn.close()
    for client, server in ((large, free), (free, large)):
        udp = UdpFlow(client.ns, server.ns, server.address())
        for size in (*range(8, 4000), *range(4001, 65000, 997), 65507):
            udp.exchange(count=1, size=size)
        udp.close()
        tcp = TcpFlow(client.ns, server.ns, server.address())
        for size in (*range(1, 4000, 7), *range(4001, 66000, 997), 2_000_000):
            tcp.exchange(size)
        tcp.close()


# -- what a container's program cannot do

@pytest.fixture
def hostile(policy_lab):
    """The same container with a program that tries (e2e/owner/bpf/hostile.bpf.c)."""
    pin = "/sys/fs/bpf/hostile"
    policy_lab.free.ns.run("bpftool", "prog", "load", owner.object_path("hostile"), pin, "type", "xdp")
    policy_lab.free.ns.run("bpftool", "net", "attach", "xdpdrv", "pinned", pin, "dev", "eth0")
    owner.os.unlink(pin)
    yield policy_lab
    policy_lab.free.ns.run("bpftool", "net", "detach", "xdpdrv", "dev", "eth0")


def provoke(lab, side, family, port, count=5, size=200):
    """Datagrams to a port of the hostile program; what came back to the asker."""
    with open_socket(side, family_of(lab.free.address(family)), traffic.socket.SOCK_DGRAM) as sock:
        # Not connected: an answer from anybody would be seen.
        for _ in range(count):
            sock.sendto(b"?" * size, (lab.free.address(family), port))
        came = 0
        while receives(sock, 0.2):
            sock.recv(70000)
            came += 1
        return came


@FAMILIES
def test_forged_source_is_dropped_at_the_host_end_and_counted(hostile, family):
    for side in hostile.sides():
        with Watch(hostile) as seen:
            assert provoke(hostile, side, family, 1001) == 0
        assert seen.reason(hostile.free, "drop_spoofed") == 5, seen
        assert seen[hostile.free].from_port == 0, seen


@FAMILIES
def test_frame_sent_back_unchanged_is_a_forged_source(hostile, family):
    """What the asker sent, with the asker's address as its source, must not come back into the node."""
    for side in hostile.sides():
        with Watch(hostile) as seen:
            assert provoke(hostile, side, family, 1010) == 0
        assert seen.reason(hostile.free, "drop_spoofed") == 5, seen


@FAMILIES
@pytest.mark.parametrize("port", [1003, 1004, 1005, 1006, 1007, 1008], ids=[
    "another MAC", "VLAN tag", "too long", "cut", "broadcast", "multicast source"])
def test_misshapen_frames_reach_nobody_and_hurt_nobody(hostile, family, port):
    for side in hostile.sides():
        came = provoke(hostile, side, family, port)
        # By the stack a packet to everybody's MAC is not forwarded; one with bytes behind its end is cut to its length.
        assert came == 0 or port in (1005, 1008), came
    nobody_is_hurt(hostile)


@FAMILIES
def test_another_mac_hurts_only_the_container_itself(hostile, family):
    for side in hostile.sides():
        provoke(hostile, side, family, 1002)
    nobody_is_hurt(hostile)
    assert heals(hostile.free.ns, hostile.other.ns, hostile.other.address(family))


def heals(client, server, address, attempts=30):
    """The node learns a container's MAC from what it sends, about once a second at most."""
    for _ in range(attempts):
        flow = UdpFlow(client, server, address)
        flow.request()
        flow.client.settimeout(0.2)
        try:
            flow.reply()
            return True
        except TimeoutError:
            pass
        finally:
            flow.close()
    return False


def nobody_is_hurt(lab):
    for family in (4, 6):
        udp_works(lab.client, lab.other.ns, lab.other.address(family), count=3)
        tcp_works(lab.client, lab.other.ns, lab.other.address(family), length=50_000)
        udp_works(lab.other.ns, lab.node, GATEWAY[family], count=3)
        udp_works(lab.client, lab.node, NODE[family], count=3)


def test_redirect_by_number_stays_in_the_containers_namespace(hostile):
    """Each device of the node, by its number: as seen by a program in the container there is no such device."""
    own = {link["ifindex"] for link in hostile.free.ns.ip_json("link")}
    busy = ("lo", "nic0", hostile.free.host_end)  # the first two by chance, the last by what it is sent
    devices = {link["ifname"]: link["ifindex"] for link in hostile.node.ip_json("link") if link["ifname"] not in busy}
    assert not own.intersection(devices.values())
    assert devices
    for name, number in devices.items():
        set_word(hostile.free.ns, "hostile_target", 0, number)
        before = hostile.node.ip_json(f"-s link show dev {name}")[0]["stats64"]["tx"]["packets"]
        assert provoke(hostile, hostile.client, 4, 1009) == 0
        after = hostile.node.ip_json(f"-s link show dev {name}")[0]["stats64"]["tx"]["packets"]
        assert after - before < 5, (name, before, after)
    nobody_is_hurt(hostile)


def test_devmap_of_a_container_holds_only_its_own_devices(lab, load):
    load("libbpf link", lab.free.ns).attach("frags")
    own = {link["ifindex"] for link in lab.free.ns.ip_json("link")}
    foreign = [link["ifindex"] for link in lab.node.ip_json("link") if link["ifindex"] not in own]
    assert foreign
    for number in foreign:
        with pytest.raises(CommandFailed):
            set_word(lab.free.ns, "owner_ways", 0, number)


# -- a foreign agent that strips XDP programs

def strip_by_netlink(ns, device):
    for mode in ("xdp", "xdpdrv", "xdpgeneric"):
        for force in ((), ("-force",)):
            ns.run("ip", *force, "link", "set", "dev", device, mode, "off", check=False)
    ns.run("bpftool", "net", "detach", "xdpdrv", "dev", device, check=False)
    ns.run("xdp-loader", "unload", device, "--all", check=False)


def our_ends(lab):
    return [(lab.node, "nic0"), (lab.node, lab.free.host_end), (lab.node, lab.other.host_end), (lab.other.ns, "eth0")]


def test_stripping_by_netlink_changes_nothing(lab):
    before = [program_on(ns, device)["id"] for ns, device in our_ends(lab)]
    streams = [Stream(side, pod.ns, pod.address()) for side, pod in (
        (lab.client, lab.other), (lab.client, lab.free), (lab.free.ns, lab.other))]
    for _ in range(3):
        for ns, device in our_ends(lab):
            strip_by_netlink(ns, device)
    for stream in streams:
        stream.stop()
        assert stream.sent > 0 and (len(stream.lost), stream.doubled, stream.overtaken) == (0, 0, 0), stream
    assert [program_on(ns, device)["id"] for ns, device in our_ends(lab)] == before
    for pod in (lab.free, lab.other):
        pod.runtime.check(pod).ok()


def test_stripping_a_free_container_is_its_owners_right(lab, load):
    load("libbpf netlink", lab.free.ns).attach("frags")
    lab.free.ns.ip("link set dev eth0 xdp off")
    assert program_on(lab.free.ns) is None
    lab.free.runtime.check(lab.free).ok()
    all_traffic_works(lab)


def detach_link(pin):
    """As root and by the link's number, which anybody may list: no pin is needed."""
    number = owner.json.loads(owner.run("bpftool", "-j", "link", "show", "pinned", pin))["id"]
    owner.run("bpftool", "link", "detach", "id", number)


ENDS = {"nic0": lambda pod, name: name.startswith("nic-"), "host end": lambda pod, name: name.endswith("h"),
        "eth0": lambda pod, name: name.endswith("c")}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("how, words", [("detached", "was detached by somebody (BPF_LINK_DETACH)"), ("unpinned", "somebody removed its pin")])
@pytest.mark.parametrize("stranger", [False, True], ids=["nobody after it", "a stranger after it"])
def test_what_root_takes_off_is_said_exactly(topology, end, how, words, stranger):
    pod = topology.attach(topology.network(families=(4, 6)))
    pins = [path for name, path in topology.pins("links").items() if ENDS[end](pod, name)]
    assert len(pins) == 1, pins
    detach_link(pins[0])
    if how == "unpinned":
        owner.os.unlink(pins[0])
    ns, device = {"nic0": (topology.node, "nic0"), "host end": (topology.node, pod.host_end), "eth0": (pod.ns, "eth0")}[end]
    instead = "no program is attached"
    if stranger:
        ns.run("ip", "link", "set", "dev", device, "xdpdrv", "pinned", bpf.foreign_xdp())
        instead = f'XDP program {program_on(ns, device)["id"]} "stranger" (native) is attached instead'
    said = xvethctl(topology.node, "doctor", check=False)
    lines = [line for line in said.splitlines() if line.startswith("PROBLEM") and words in line and instead in line]
    assert len(lines) == 1 and device in lines[0], said
    if end == "nic0":
        pod.runtime.check(pod).ok()  # the container works; its NIC is the node's affair
    else:
        pod.runtime.check(pod).error(101, device, words, instead)
    udp_works(topology.client, pod.ns, pod.address(), count=3)
    udp_works(topology.client, pod.ns, pod.address(6), count=3)


# -- the rest of the attachment

UNFINISHED = ("tx-checksum-ip-generic", "tx-vlan-offload")


def test_host_end_sends_whole_frames_to_a_free_container(lab):
    """Its program may send back or redirect what the node's stack sent: nothing of that may be left unfinished."""
    features = lab.node.features(lab.free.host_end)
    assert features["generic-receive-offload"] and not any(features[name] for name in UNFINISHED), features
    assert all(lab.node.features(lab.other.host_end)[name] for name in UNFINISHED)


@FAMILIES
def test_tx_of_what_the_nodes_stack_sent_is_whole(lab, load, family):
    load("libbpf link", lab.free.ns).attach("frags")
    assert mirrored_udp(lab.node, lab.free.address(family)) == list(range(N))
    mirrored_tcp(lab.node, lab.free.address(family))


@pytest.mark.parametrize("loader", ["libbpf link", "libbpf netlink"])
def test_del_while_the_owners_program_is_attached(clean_topology, load, loader):
    pod = clean_topology.attach(clean_topology.network(containerXdp="free"))
    owned = load(loader, pod.ns)
    owned.attach("plain")
    udp_works(clean_topology.client, pod.ns, pod.address(), count=2)
    clean_topology.detach(pod)
    assert not pod.ns.has_link("eth0")


def test_chained_behind_ptp(topology, load):
    """Arms what another plugin made, and leaves its hook to the container."""
    ptp = {"type": "ptp", "ipam": topology.ipam()}
    runtime = topology.network(before=[ptp], containerXdp="free", ipam=None)
    pod = topology.attach(runtime)
    assert program_on(pod.ns) is None
    load("libbpf link", pod.ns).attach("plain")
    udp_works(topology.client, pod.ns, pod.address(), count=N)
    tcp_works(topology.client, pod.ns, pod.address())
    assert seen_by(pod.ns)["udp4"] == N
    assert mirrored_udp(topology.client, pod.address()) == list(range(N))
    runtime.check(pod, only="xveth").ok()
