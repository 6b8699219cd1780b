# SPDX-License-Identifier: Apache-2.0
"""`xvethctl program replace`: running containers get what the file holds now, without a frame that misses both programs."""

import json
import os
import subprocess

import pytest

from lib import bpf, cni, operator, owner
from lib.netns import CommandFailed, run
from lib.operator import DIRECTORY, asks, install, maps_of, read_words
from lib.owner import program_on
from lib.stats import xvethctl
from lib.traffic import Stream, TcpFlow, udp_works

N = 20
ROUNDS = 10


@pytest.fixture(autouse=True)
def empty_directory():
    run("rm", "-rf", DIRECTORY)
    yield
    run("rm", "-rf", DIRECTORY)


@pytest.fixture
def network(topology):
    install("first", "op.o")
    return topology.network(**asks("op.o", "entry"), families=(4, 6))


def seen(pod):
    words = read_words(f"{maps_of(pod)}/seen")
    assert words[0] == 0, f"a frame missed its tail call: {words}"
    return words[1:]


def replace(topology, *argv):
    return xvethctl(topology.node, "program", "replace", *argv)


def refused(topology, pods, *words, argv=("op.o",)):
    """It fails with these words, and every container runs what it ran."""
    before = [program_on(pod.ns)["id"] for pod in pods], [os.listdir(maps_of(pod)) for pod in pods], xvethctl(topology.node, "show", "--json")
    with pytest.raises(CommandFailed) as failure:
        replace(topology, *argv)
    assert "exit 2" in str(failure.value)
    for word in words:
        assert word in str(failure.value), f"{word!r} is not in {failure.value}"
    assert before == ([program_on(pod.ns)["id"] for pod in pods], [os.listdir(maps_of(pod)) for pod in pods], xvethctl(topology.node, "show", "--json"))
    for pod in pods:
        pod.runtime.check(pod).ok()


def test_no_frame_is_lost_and_each_is_seen_once(topology, network):
    """Numbered datagrams and a TCP stream while the program changes again and again: sent = arrived, and what both versions
    counted in the map that they share is the same."""
    pod = topology.attach(network)
    streams = [Stream(topology.client, pod.ns, pod.address(family)) for family in (4, 6)]
    flow = TcpFlow(topology.client, pod.ns, pod.address())
    for i in range(ROUNDS):
        install("second" if i % 2 == 0 else "first", "op.o")
        assert "op.o:entry is program" in replace(topology, "op.o")
        flow.exchange(20_000)
    flow.close()
    for stream in streams:
        stream.stop()
        assert not stream.lost and not stream.doubled and not stream.overtaken, stream
        assert stream.sent > ROUNDS
    first, second = seen(pod)[:2]
    assert first > 0 and second > 0 and first + second == sum(stream.sent for stream in streams)
    pod.runtime.check(pod).ok()


def test_maps_go_on_and_new_ones_come(topology, network):
    pod = topology.attach(network)
    udp_works(topology.client, pod.ns, pod.address(), count=N)
    old = program_on(pod.ns)["id"]
    install("second", "op.o")
    said = replace(topology, "op.o")
    new = program_on(pod.ns)["id"]
    assert f"{pod.attachment}: op.o:entry is program {new} now, was {old}" in said and new != old
    udp_works(topology.client, pod.ns, pod.address(), count=N)
    assert seen(pod)[:2] == [N, N]
    assert sorted(os.listdir(maps_of(pod))) == ["calls", "second", "seen"]
    pod.runtime.check(pod).ok()
    assert json.loads(xvethctl(topology.node, "program", "list", "--json"))["programs"] == [
        {"attachment": pod.attachment, "hostEnd": pod.host_end, "object": "op.o", "program": "entry", "id": new, "frags": True,
         "maps": maps_of(pod)}]
    install("first", "op.o")
    replace(topology, "op.o")
    assert sorted(os.listdir(maps_of(pod))) == ["calls", "seen"]
    topology.detach(pod)
    assert not os.path.exists(os.path.dirname(maps_of(pod)))


def test_fresh_maps(topology, network):
    pod = topology.attach(network)
    udp_works(topology.client, pod.ns, pod.address(), count=N)
    install("larger", "op.o")
    refused(topology, [pod], "map seen cannot be kept", "number of entries was 4 and is 8", "--fresh-maps")
    replace(topology, "op.o", "--fresh-maps")
    udp_works(topology.client, pod.ns, pod.address(), count=N)
    words = seen(pod)
    assert len(words) == 7 and words[:3] == [0, 0, N], words
    pod.runtime.check(pod).ok()


def test_only_those_that_are_meant(topology, network):
    one, two = topology.attach(network), topology.attach(network)
    other = topology.attach(topology.network(**asks("op.o", "entry"), subnets=["10.3.0.0/24"]))
    install("plain-first", "else.o")
    last = topology.attach(topology.network(**asks("else.o", "entry"), subnets=["10.4.0.0/24"]))
    pods = [one, two, other, last]

    def changed(*argv):
        before = [program_on(pod.ns)["id"] for pod in pods]
        replace(topology, *argv)
        return [pod for pod, old in zip(pods, before) if program_on(pod.ns)["id"] != old]
    assert changed("--container", one.cid) == [one]
    assert changed("--network", other.runtime.name) == [other]
    assert changed("op.o", "--network", network.name) == [one, two]
    assert changed("op.o") == [one, two, other]
    assert changed("op.o", "else.o") == pods
    for pod in pods:
        pod.runtime.check(pod).ok()
    table = xvethctl(topology.node, "program", "list")
    assert all(pod.attachment in table for pod in pods) and "plain" in table and "frags" in table


@pytest.mark.parametrize("built, words", [
    ("refused", ["load program entry: Permission denied", "R1 invalid mem access"]), ("frags", ["no program entry", "owner"]),
    ("plain-first", ["plain xdp now", "xdp.frags", "MTU limit"])], ids=["verifier", "no such program", "another kind"])
def test_all_are_loaded_before_any_is_replaced(topology, network, built, words):
    pods = [topology.attach(network), topology.attach(network)]
    install(built, "op.o")
    refused(topology, pods, *words)
    os.unlink(operator.path_of("op.o"))
    refused(topology, pods, "No such file")


def test_plain_programs_are_not_exchanged_for_frags_ones(topology):
    install("plain-first", "op.o")
    pod = topology.attach(topology.network(**asks("op.o", "entry")))
    install("first", "op.o")
    refused(topology, [pod], "xdp.frags now", "plain xdp")


def test_link_that_somebody_else_updated(topology, network):
    """Found before anything is exchanged: the other container keeps its program too."""
    pods = [topology.attach(network), topology.attach(network)]
    run("bpftool", "prog", "load", owner.object_path("frags"), "/sys/fs/bpf/strange", "type", "xdp")
    victim = pods[1]
    pin = topology.pins("links")[victim.host_end[2:] + "c"]
    bpf.update_link(pin, "/sys/fs/bpf/strange")
    before = program_on(pods[0].ns)["id"]
    with pytest.raises(CommandFailed, match="somebody updated our XDP link") as failure:
        replace(topology, "op.o")
    assert victim.attachment in str(failure.value)
    assert program_on(pods[0].ns)["id"] == before and program_on(victim.ns)["name"] == "owner"
    victim.runtime.check(victim).error(101, "somebody updated our XDP link")
    os.unlink("/sys/fs/bpf/strange")


def test_killed_replacement_is_taken_up_by_the_next(topology, network, scale):
    pods = [topology.attach(network), topology.attach(network)]
    for i in range(scale(200)):
        install("second" if i % 2 == 0 else "first", "op.o")
        process = subprocess.Popen([cni.NSENTER, f"--net={topology.node.path}", "--", os.path.join(cni.BIN_DIR, "xvethctl"),
                                    "program", "replace", "op.o"], stdout=subprocess.DEVNULL)
        try:
            process.wait(0.002 * (i % 40))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pod in pods:
            pod.runtime.check(pod).ok()
    replace(topology, "op.o")
    for pod in pods:
        pod.runtime.check(pod).ok()
        udp_works(topology.client, pod.ns, pod.address(), count=N)
        topology.detach(pod)
        assert not os.path.exists(os.path.dirname(maps_of(pod)))


def test_nothing_to_replace(topology, network):
    with pytest.raises(CommandFailed, match="no such container runs op.o"):
        replace(topology, "op.o")
    with pytest.raises(CommandFailed, match="exit 1"):
        replace(topology)
    assert xvethctl(topology.node, "program", "list").splitlines()[0].split()[:3] == ["OBJECT", "PROGRAM", "ID"]
