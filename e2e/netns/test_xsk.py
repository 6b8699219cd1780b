# SPDX-License-Identifier: Apache-2.0
"""AF_XDP sockets at a container's end, taken by libxveth-xsk's example programs with CAP_NET_RAW and nothing else."""

import itertools

import pytest

from lib.traffic import UdpFlow, ping, tcp_works, udp_works
from lib.xsk import FRAMES, Program, make_afxdp, refusal

FAMILIES = pytest.mark.parametrize("family", [4, 6], ids=["IPv4", "IPv6"])
N = 40


@pytest.fixture
def pod(topology):
    pod = make_afxdp(topology.attach(topology.network(families=(4, 6), containerXdp="free", queues=2)))
    for family in (4, 6):
        ping(topology.client, pod.address(family), count=1)
    return pod


@pytest.fixture
def start(pod):
    running = []

    def begin(name, *options, **how):
        running.append(Program(pod, name, *options, **how))
        return running[-1]
    yield begin
    for program in running:
        program.close()


def whole(counts, queues=2, frames=FRAMES):
    """No frame of memory is missing, none is there twice."""
    assert counts["free"] + counts["receiving"] + counts["sending"] == queues * frames, counts
    return counts


@FAMILIES
def test_ping_is_answered_in_user_space(topology, pod, start, family):
    other = topology.attach(topology.network(families=(4, 6), subnets=["10.3.0.0/24", "fd00:3::/64"]))
    program = start("xsk-ping")
    pod.ns.sysctl("net.ipv4.icmp_echo_ignore_all", 1)
    pod.ns.sysctl("net.ipv6.icmp.echo_ignore_all", 1)
    for side in (topology.client, topology.node, other.ns):
        ping(side, pod.address(family))
        ping(side, pod.address(family), size=1400)
        ping(side, pod.address(family), size=1)
    counts = whole(program.stop())
    assert counts["sent"] >= 27 and counts["lost"] == 0, counts
    assert "copy mode" in program.err and program.process.returncode == 0


@FAMILIES
def test_neighbours_are_answered(topology, pod, start, family):
    """The node that has forgotten the container's MAC finds it again."""
    start("xsk-ping")
    topology.node.ip(f"{'-6 ' if family == 6 else ''}neigh del {pod.address(family)} dev {pod.host_end}")
    ping(topology.node, pod.address(family))


@FAMILIES
def test_drop_counts_every_frame(topology, pod, start, family):
    """Of several flows, so that both queues get some."""
    program = start("xsk-drop")
    flows = [UdpFlow(topology.client, pod.ns, pod.address(family)) for _ in range(8)]
    for flow in itertools.islice(itertools.cycle(flows), N):
        flow.client.send(b"to nobody")
    counts = whole(program.stop())
    assert counts["frames"] >= N and counts["lost"] == 0, counts
    for flow in flows:
        assert flow.request_is_lost(wait=0) is False, "the stack got no datagram after the end"
        assert flow.server.recv(100) != b"to nobody"
        flow.close()


@FAMILIES
@pytest.mark.parametrize("end", ["TERM", "KILL"])
def test_stack_has_the_frames_again(topology, pod, start, family, end):
    for _ in range(2):
        udp_works(topology.client, pod.ns, pod.address(family))
        program = start("xsk-drop")
        flow = UdpFlow(topology.client, pod.ns, pod.address(family))
        assert flow.request_is_lost(wait=0.1)
        program.stop(end)
        flow.exchange()
        flow.close()
    tcp_works(topology.client, pod.ns, pod.address(family))


@FAMILIES
def test_l2fwd_turns_datagrams_round(topology, pod, start, family):
    program = start("xsk-l2fwd", "--ip")
    for size in (1, 100, 1400):
        flow = UdpFlow(topology.client, pod.ns, pod.address(family))
        for number in range(N):
            flow.client.send(bytes([number]) * size)
            assert flow.client.recv(2000) == bytes([number]) * size
        flow.close()
    counts = whole(program.stop())
    assert counts["sent"] >= 3 * N and counts["lost"] == 0, counts


def test_l2fwd_by_mac_alone_meets_the_source_check(topology, pod, start):
    start("xsk-l2fwd")
    flow = UdpFlow(topology.client, pod.ns, pod.address())
    flow.client.settimeout(0.2)
    flow.client.send(b"there")
    with pytest.raises(TimeoutError):
        flow.client.recv(100)
    flow.close()


def test_hundred_restarts(topology, pod, start):
    """A process that is gone, however it went, holds no queue for long."""
    for number in range(100):
        program = start("xsk-ping")
        ping(topology.client, pod.address(4 if number % 2 else 6), count=1)
        program.stop("KILL" if number % 3 else "TERM")
    udp_works(topology.client, pod.ns, pod.address())


# -- what it says when it cannot

def test_queue_that_somebody_has(topology, pod, start):
    first = start("xsk-ping")
    said = refusal(pod, "--patience", "50")
    assert "bind queue 0 of eth0: Device or resource busy: another process" in said
    ping(topology.client, pod.address())
    whole(first.stop())


def test_missing_right(pod):
    assert "CAP_NET_RAW" in refusal(pod, rights=())


def test_missing_interface(pod):
    assert "interface eth7: No such device" in refusal(pod, "--device", "eth7")


def test_missing_map(pod):
    said = refusal(pod, env={"XVETH_XSKS": None})
    assert "/run/xveth/eth0/xsks" in said and "No such file" in said and "xvethd" in said and "afxdp" in said
    assert "open the XSKMAP /sys/fs/bpf/none: No such file" in refusal(pod, "--map", "/sys/fs/bpf/none")


def test_map_of_another_kind(topology, pod):
    assert "this is no XSKMAP" in refusal(pod, "--map", topology.pins("maps")["xv_ports"])


def test_interface_that_goes_down_and_up(topology, pod, start):
    start("xsk-ping")
    pod.ns.ip("link set eth0 down")
    pod.ns.ip("link set eth0 up")
    pod.ns.await_carrier("eth0")
    ping(topology.client, pod.address())


def test_interface_that_is_removed(topology, pod, start):
    program = start("xsk-ping")
    topology.detach(pod)
    program.finish()
    assert program.process.returncode == 2 and "is the interface gone?" in program.err


def test_memory_beyond_the_limit(pod, start):
    said = refusal(pod, "--patience", 50, setup="ulimit -l 256")
    assert "RLIMIT_MEMLOCK is 256 KiB" in said and "--ulimit memlock" in said
    start("xsk-drop", setup="ulimit -S -l 256")  # what the hard limit permits, a process helps itself to


@pytest.mark.parametrize("mtu, said", [(1500, False), (3000, False), (3900, True)])
def test_frames_too_large_for_their_memory_are_said(pod, start, mtu, said):
    pod.ns.ip(f"link set eth0 mtu {mtu}")
    program = start("xsk-drop")
    whole(program.stop())
    assert ("MTU of 3900: frames of more than 3840 bytes are lost" in program.err) is said


def test_bind_mounted_map_is_found_by_itself(topology, pod, start):
    setup = ("mount -t tmpfs none /run && mkdir -p /run/xveth/eth0 && touch /run/xveth/eth0/xsks && "
             f"mount --bind {pod.xsks} /run/xveth/eth0/xsks && umount -l /sys/fs/bpf")
    start("xsk-ping", env={"XVETH_XSKS": None}, setup=setup)
    ping(topology.client, pod.address())
