# SPDX-License-Identifier: Apache-2.0
"""The operator's program at a container's end: attached before anything of the container runs, with maps of its own."""

import os
import random
import sys
import time

import pytest

from lib import bpf, cni, operator, owner, residue
from lib.netns import CommandFailed, run
from lib.operator import DIRECTORY, asks, install, maps_of, path_of, read_words
from lib.owner import program_on, seen_by
from lib.stats import Watch, xvethctl
from lib.topology import CLIENT
from lib.traffic import UdpFlow, tcp_connect_fails, tcp_works, udp_works

N = 20
TX, DROP = 7, 9  # ports of e2e/owner/bpf/owner.bpf.c
FAMILIES = pytest.mark.parametrize("family", [4, 6], ids=["IPv4", "IPv6"])
ANNOTATIONS = "io.kubernetes.cri.pod-annotations"


@pytest.fixture(autouse=True)
def empty_directory():
    run("rm", "-rf", DIRECTORY)
    yield
    run("rm", "-rf", DIRECTORY)


def attach(topology, built="first", program="entry", **keys):
    return topology.attach(topology.network(**asks(install(built), program), **keys))


def seen(pod, version=1):
    """Datagrams that this version of the program saw; none may have missed its tail call."""
    words = read_words(f"{maps_of(pod)}/seen")
    assert words[0] == 0, words
    return words[version]


# -- it works

def test_runs_from_the_first_frame_and_leaves_nothing(clean_topology):
    pod = attach(clean_topology, families=(4, 6))
    assert program_on(pod.ns)["name"] == "entry"
    for family in (4, 6):
        before = seen(pod)
        with Watch(clean_topology) as port:
            udp_works(clean_topology.client, pod.ns, pod.address(family), count=N)
            tcp_works(clean_topology.client, pod.ns, pod.address(family), length=50_000)
        assert seen(pod) - before == N < port[pod].to_port
    pod.runtime.check(pod).ok()
    clean_topology.detach(pod)
    assert not os.path.exists(os.path.dirname(maps_of(pod)))


def test_very_first_frame_meets_the_program(topology):
    """A datagram that waits for the container at ADD's end is counted."""
    pod = attach(topology, "frags", "owner")
    flow = UdpFlow(topology.client, pod.ns, pod.address())
    flow.request()
    assert seen_by(pod.ns)["udp4"] == 1
    flow.close()


@FAMILIES
@pytest.mark.parametrize("kind", ["plain", "frags"])
def test_verdicts(topology, family, kind):
    pod = attach(topology, kind, "owner", families=(4, 6))
    other = topology.attach(topology.network(families=(4, 6), subnets=["10.3.0.0/24", "fd00:3::/64"]))
    for side in (topology.client, other.ns):
        udp_works(side, pod.ns, pod.address(family), count=N)
        tcp_works(side, pod.ns, pod.address(family), length=50_000)
        dropped = UdpFlow(side, pod.ns, pod.address(family), port=DROP)
        assert dropped.request_is_lost()
        dropped.close()
        turned = UdpFlow(side, pod.ns, pod.address(family), port=TX)
        turned.client.send(b"turn")
        assert turned.client.recv(100) == b"turn"
        turned.close()
    udp_works(pod.ns, topology.client, CLIENT[family], count=N)
    pod.runtime.check(pod).ok()


def test_container_cannot_take_it_off(topology):
    pod = attach(topology)
    for argv in (["ip", "link", "set", "dev", "eth0", "xdpdrv", "off"], ["ip", "link", "set", "dev", "eth0", "xdp", "off"],
                 ["bpftool", "net", "detach", "xdpdrv", "dev", "eth0"],
                 ["ip", "-force", "link", "set", "dev", "eth0", "xdpdrv", "obj", owner.object_path("frags"), "sec", "xdp.frags"]):
        with pytest.raises(CommandFailed, match="busy|active BPF XDP link"):
            pod.ns.run(*argv)
    assert program_on(pod.ns)["name"] == "entry"
    pod.runtime.check(pod).ok()


def test_each_attachment_has_maps_of_its_own(topology):
    network = topology.network(**asks(install("first"), "entry"))
    one, two = topology.attach(network), topology.attach(network)
    udp_works(topology.client, one.ns, one.address(), count=N)
    assert seen(one) == N and seen(two) == 0
    assert program_on(one.ns)["id"] != program_on(two.ns)["id"]


def test_two_interfaces_of_one_container(topology):
    """An interface's name may have a dot, which bpffs refuses."""
    first = attach(topology)
    dotted = topology.container(cid=first.cid, ifname="net1.100")
    dotted.ns.close()
    dotted.ns, dotted.netns_path = first.ns, first.netns_path
    topology.attach(topology.network(**asks("first.o", "entry"), ipam={**topology.ipam(subnets=["10.3.0.0/24"]), "routes": []}), dotted)
    assert maps_of(dotted).endswith("/net1%100") and sorted(os.listdir(maps_of(dotted))) == ["calls", "seen"]
    topology.detach(first)
    assert os.path.exists(f"{maps_of(dotted)}/seen") and not os.path.exists(maps_of(first))
    topology.detach(dotted)
    assert not os.path.exists(os.path.dirname(maps_of(dotted)))
    topology.containers.remove(dotted)


def test_behind_another_plugin(topology):
    own = {"type": "xveth", **asks(install("first"), "entry")}
    network = cni.Runtime(topology.node, "chained", [{"type": "ptp", "ipam": topology.ipam()}, own])
    pod = topology.attach(network)
    udp_works(topology.client, pod.ns, pod.address(), count=N)
    assert seen(pod) == N
    pod.runtime.check(pod).ok()
    topology.detach(pod)
    assert not os.path.exists(os.path.dirname(maps_of(pod)))


# -- asking for it

def by_annotation(value):
    return {"runtime_config": {ANNOTATIONS: {"xveth.dev/program": value}}}


def by_args(value):
    return {"args": f"IgnoreUnknown=1;XVETH_PROGRAM={value}"}


BY = pytest.mark.parametrize("ask", [by_annotation, by_args], ids=["annotation", "CNI_ARGS"])


@BY
@pytest.mark.parametrize("allowed", ["first.o", "first.o:entry"])
def test_container_asks_for_a_permitted_program(topology, ask, allowed):
    install("first")
    network = topology.network(capabilities={ANNOTATIONS: True}, allow={"programs": [allowed]})
    pod = topology.attach(network, **ask("first.o:entry"))
    assert program_on(pod.ns)["name"] == "entry"


@BY
@pytest.mark.parametrize("allowed", [[], ["other.o"], ["first.o:counted"]])
def test_container_asks_for_what_is_not_permitted(topology, ask, allowed):
    install("first")
    conf = topology.conf(capabilities={ANNOTATIONS: True}, allow={"programs": allowed})
    pod = topology.container()
    asked = ask("first.o:entry")
    if "runtime_config" in asked:
        conf["runtimeConfig"] = asked.pop("runtime_config")
    answer = cni.call(topology.node, "ADD", conf, cid=pod.cid, netns=pod.netns_path, ifname="eth0", **asked)
    answer.error(7, "allow.programs", "first.o:entry")
    assert pod.ns.link_names() == {"lo"}


def test_object_with_one_program_needs_no_name(topology):
    pod = topology.attach(topology.network(containerXdp="program", containerProgram={"object": install("frags")}))
    assert program_on(pod.ns)["name"] == "owner"


def test_pod_uid_names_the_directory(topology):
    """And a pod's second sandbox takes it over: a late DEL of the first one leaves it alone."""
    network = topology.network(**asks(install("first"), "entry"))
    uid = "0f1e2d3c-aaaa-bbbb-cccc-123456789abc"
    args = f"IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web;K8S_POD_UID={uid}"
    one = topology.attach(network, args=args)
    assert sorted(os.listdir(f"{operator.PODS}/{uid}/eth0")) == ["calls", "seen"]
    two = topology.attach(network, args=args)
    topology.detach(one)
    udp_works(topology.client, two.ns, two.address(), count=N)
    assert read_words(f"{operator.PODS}/{uid}/eth0/seen")[1] == N
    two.runtime.check(two).ok()
    topology.detach(two)
    assert not os.path.exists(f"{operator.PODS}/{uid}")


def test_wrong_pod_uid(topology):
    conf = topology.conf(**asks(install("first"), "entry"))
    pod = topology.container()
    answer = cni.call(topology.node, "ADD", conf, cid=pod.cid, netns=pod.netns_path, ifname="eth0", args="K8S_POD_UID=../../etc")
    answer.error(7, "K8S_POD_UID", "../../etc")


# -- what the container sees of it

@pytest.mark.parametrize("shown, seen_there", [("", "/maps/seen"), ("/seen", "/maps")], ids=["directory", "one map"])
def test_container_reads_its_maps_by_a_bind_mount(topology, tmp_path, shown, seen_there):
    """A root process without capabilities, with nothing of the node's bpffs but the documented mount."""
    pod = attach(topology)
    udp_works(topology.client, pod.ns, pod.address(), count=N)
    (tmp_path / "maps").touch() if shown else (tmp_path / "maps").mkdir()
    script = (f"mount --bind {maps_of(pod)}{shown} {tmp_path}/maps && umount -l /sys/fs/bpf && "
              "exec setpriv --bounding-set -all --inh-caps -all -- "
              f"{sys.executable} {bpf.__file__} {tmp_path}{seen_there} 1")
    assert int(pod.ns.run("unshare", "--mount", "--", "sh", "-ec", script)) == seen(pod) == N


def test_rights_of_directory_and_maps(topology):
    pod = attach(topology)
    modes = {path: oct(os.stat(path).st_mode & 0o777) for path in (
        operator.PODS, os.path.dirname(maps_of(pod)), maps_of(pod), f"{maps_of(pod)}/seen")}
    assert list(modes.values()) == ["0o700", "0o700", "0o700", "0o600"], modes
    assert sorted(os.listdir(maps_of(pod))) == ["calls", "seen"], "global variables are not pinned"


def test_show_and_doctor_name_it(topology):
    pod = attach(topology)
    assert "first.o:entry" in xvethctl(topology.node, "show")
    program = program_on(pod.ns)["id"]
    assert f'"id":{program}' in xvethctl(topology.node, "show", "--json").replace(" ", "")
    said = xvethctl(topology.node, "doctor", check=False)
    assert "program of eth0" in said and "PROBLEM" not in said, said


# -- the example

@FAMILIES
def test_example_limits_each_source(topology, family):
    example = os.path.join(os.path.dirname(cni.BIN_DIR), "examples", "xdp-limit", "limit.o")
    pod = attach(topology, example, "xdp_limit", families=(4, 6))
    other = topology.attach(topology.network(families=(4, 6), subnets=["10.3.0.0/24", "fd00:3::/64"]))
    udp_works(topology.client, pod.ns, pod.address(family), count=N)
    hour, burst = (3600 * 10**9).to_bytes(8, "little"), (5).to_bytes(8, "little")
    run("bpftool", "map", "update", "pinned", f"{maps_of(pod)}/limits", "key", 0, 0, 0, 0, "value", *(hour + burst))
    for side in (topology.client, other.ns):
        limited = read_words(f"{maps_of(pod)}/seen")[1]
        flow = UdpFlow(side, pod.ns, pod.address(family))
        for _ in range(5):
            flow.request()
        assert flow.request_is_lost(wait=0.1) and flow.request_is_lost(wait=0.1)
        flow.close()
        assert read_words(f"{maps_of(pod)}/seen")[1] - limited == 2
    assert tcp_connect_fails(topology.client, pod.ns, pod.address(family), timeout=0.5)
    run("bpftool", "map", "update", "pinned", f"{maps_of(pod)}/limits", "key", 0, 0, 0, 0, "value", *bytes(16))
    tcp_works(topology.client, pod.ns, pod.address(family))
    pod.runtime.check(pod).ok()


# -- MTU

@pytest.mark.parametrize("built, keys, mtu", [
    ("first", {}, 65000), ("plain-first", {}, 1500), ("first", {"families": (4, 6)}, 1500), ("first", {"localMtu": 0}, 1500),
    ("plain-first", {"mtu": 3000}, 3000)])
def test_local_mtu_is_on_for_frags_objects(topology, built, keys, mtu):
    pod = attach(topology, built, **keys)
    assert pod.ns.link("eth0")["mtu"] == mtu
    other = topology.attach(topology.network(localMtu=65000, subnets=["10.3.0.0/24"]))
    flow = UdpFlow(other.ns, pod.ns, pod.address())
    for size in (100, 1400, 8000, 60000) if mtu == 65000 else (100, 1400):
        flow.request(size)
    flow.close()
    tcp_works(other.ns, pod.ns, pod.address())
    tcp_works(topology.client, pod.ns, pod.address())


def refused(topology, *words, code=105, **keys):
    """ADD fails with these words and leaves nothing; returns the text."""
    topology.attach(topology.network(subnets=["10.9.0.0/24"]))  # what a node's first container brings stays
    before = residue.snapshot(topology)
    conf = topology.conf(**keys)
    pod = topology.container()
    answer = cni.call(topology.node, "ADD", conf, cid=pod.cid, netns=pod.netns_path, ifname="eth0")
    text = answer.error(code, *words)
    residue.assert_same(before, topology)
    assert pod.ns.link_names() == {"lo"}
    return text


def test_plain_object_on_a_large_mtu_is_refused_with_the_reason(topology):
    text = refused(topology, "Numerical result out of range", "MTU", code=101, localMtu=9000, **asks(install("plain-first"), "entry"))
    assert "eth0" in text


# -- what cannot be loaded

def test_missing_file(topology):
    install("first")
    refused(topology, "/etc/xveth/programs/none.o", "No such file or directory", **asks("none.o", "entry"))


def test_missing_directory(topology):
    refused(topology, DIRECTORY, "No such file or directory", **asks("none.o", "entry"))


def test_wrong_program_names_the_right_ones(topology):
    refused(topology, "first.o: no program nobody", "counted, entry", **asks(install("first"), "nobody"))


def test_program_for_something_else(topology):
    refused(topology, "program shaper is no XDP program", "section is \"tc\"", **asks(install("first"), "shaper"))


def test_ambiguous_program(topology):
    refused(topology, "which program?", "counted, entry", containerXdp="program", containerProgram={"object": install("first")})


def test_verifier_refusal_shows_its_last_words(topology):
    refused(topology, "refused.o: load program entry: Permission denied", "R1 invalid mem access 'pkt_end'", "processed",
            **asks(install("refused"), "entry"))


def write(name, content, mode=0o644):
    os.makedirs(DIRECTORY, exist_ok=True)
    with open(path_of(name), "wb") as file:
        file.write(content)
    os.chmod(path_of(name), mode)
    return name


def built_bytes():
    with open(owner.object_path("first"), "rb") as file:
        return file.read()


@pytest.mark.parametrize("content, words", [
    (lambda: b"", "the file is empty"), (lambda: b"text\n", "not read as a BPF object"),
    (lambda: open("/bin/true", "rb").read(), "not read as a BPF object"),
    (lambda: built_bytes()[:len(built_bytes()) // 2], "broken.o"), (lambda: built_bytes()[:100], "broken.o"),
    (lambda: b"\x7fELF" + bytes(17 << 20), "more than an object of 16 MiB")],
    ids=["empty", "text", "another ELF", "half", "head", "huge"])
def test_broken_file(topology, content, words):
    refused(topology, words, **asks(write("broken.o", content()), "entry"))


def test_file_cut_anywhere_is_an_error_and_no_crash(topology):
    """STATUS reads the file as ADD does."""
    whole = built_bytes()
    for length in range(1, len(whole), max(1, len(whole) // 60)):
        conf = topology.conf(**asks(write("cut.o", whole[:length]), "entry"))
        cni.call(topology.node, "STATUS", {**conf, "cniVersion": "1.1.0"}).error(50, "cut.o")


def test_file_with_wrong_bytes_is_an_error_and_no_crash(topology):
    """Some of these crash libbpf, which believes what a file says of its own sizes."""
    chance = random.Random(1)
    conf = topology.conf(version="1.1.0", **asks("wrong.o", "entry"))
    for _ in range(200):
        content = bytearray(built_bytes())
        for _ in range(chance.choice((1, 8, 64))):
            content[chance.randrange(len(content))] = chance.choice((0, 255, chance.randrange(256)))
        write("wrong.o", content)
        answer = cni.call(topology.node, "STATUS", conf)
        assert answer.rc == 0 or "wrong.o" in answer.error(50)


@pytest.mark.parametrize("prepare, words", [
    (lambda: os.symlink(owner.object_path("first"), path_of("x.o")), "leaves the directory"),
    (lambda: os.symlink("../../hosts", path_of("x.o")), "leaves the directory"),
    (lambda: os.mkdir(path_of("x.o")), "no regular file"),
    (lambda: os.mkfifo(path_of("x.o")), "no regular file"),
    (lambda: install("first", "x.o", 0o666), "others than root may write it"),
    (lambda: install("first", "x.o", 0o664), "others than root may write it"),
    (lambda: os.chown(path_of(install("first", "x.o")), 1000, 0), "belongs to user 1000"),
    (lambda: (install("first", "x.o"), os.chmod(DIRECTORY, 0o777)), "others than root may write it")],
    ids=["link out", "relative link out", "directory", "FIFO", "world", "group", "owner", "directory's mode"])
def test_file_that_is_not_the_operators_alone(topology, prepare, words):
    os.makedirs(DIRECTORY)
    prepare()
    refused(topology, words, **asks("x.o", "entry"))


def test_link_within_the_directory(topology):
    """As a mounted ConfigMap has it."""
    install("first")
    os.symlink("first.o", path_of("link.o"))
    pod = topology.attach(topology.network(**asks("link.o", "entry")))
    assert program_on(pod.ns)["name"] == "entry"


@pytest.mark.parametrize("name", [".hidden.o", "../x.o", "a/b.o", "/etc/xveth/programs/first.o", ""])
def test_what_is_no_file_name(topology, name):
    refused(topology, "containerProgram", code=7, **asks(name, "entry"))


# -- STATUS, CHECK, DEL, GC

def test_status(topology):
    conf = topology.conf(version="1.1.0", **asks("first.o", "entry"))
    install("frags")
    cni.call(topology.node, "STATUS", conf).error(50, "first.o: No such file")
    install("first")
    cni.call(topology.node, "STATUS", conf).ok()


def link_pin(topology, pod):
    name = next(name for name in topology.pins("links") if name.endswith("c") and name.startswith(pod.host_end[2:]))
    return topology.pins("links")[name]


def test_check_says_what_was_done(topology):
    pod = attach(topology)
    ours = program_on(pod.ns)["id"]
    run("bpftool", "prog", "load", owner.object_path("frags"), "/sys/fs/bpf/strange", "type", "xdp")
    pod.ns.run("bpftool", "link", "detach", "pinned", link_pin(topology, pod))
    text = pod.runtime.check(pod).error(101, "first.o:entry", "detached by somebody", "no program is attached")
    assert "eth0" in text
    pod.ns.run("bpftool", "net", "attach", "xdpdrv", "pinned", "/sys/fs/bpf/strange", "dev", "eth0")
    pod.runtime.check(pod).error(101, '"owner" (native) is attached instead')
    os.unlink(link_pin(topology, pod))
    pod.runtime.check(pod).error(101, "removed its pin")
    assert ours != program_on(pod.ns)["id"]
    assert "PROBLEM" in xvethctl(topology.node, "doctor", check=False)
    os.unlink("/sys/fs/bpf/strange")


def test_check_misses_the_maps(topology):
    pod = attach(topology)
    run("rm", "-rf", f"/sys/fs/bpf/xveth/v1/{topology.cookie}/instances")
    pod.runtime.check(pod).error(102, "maps are no longer pinned", pod.cid)
    topology.detach(pod)
    assert not os.path.exists(os.path.dirname(maps_of(pod)))


def test_del_of_a_container_that_is_gone_and_of_a_lost_record(clean_topology):
    topology = clean_topology
    network = topology.network(**asks(install("first"), "entry"))
    one, two = topology.attach(network), topology.attach(network)
    one.ns.close()
    topology.detach(one)
    run("rm", "-rf", f"/run/xveth/{topology.cookie}/{network.name}")
    topology.detach(two)


def test_gc(clean_topology):
    topology = clean_topology
    conf = topology.conf(version="1.1.0", **asks(install("first"), "entry"))
    for lost in (False, True):
        pod = topology.container()
        cni.call(topology.node, "ADD", conf, cid=pod.cid, netns=pod.netns_path, ifname="eth0").ok()
        if lost:
            run("rm", "-rf", f"/run/xveth/{topology.cookie}/{conf['name']}")
            host_end = topology.node.link_names() - {"lo", "nic0"}
            pod.ns.close()
            while topology.node.link_names() & host_end:  # the kernel takes a namespace's devices away a moment later
                time.sleep(0.01)
        cni.call(topology.node, "GC", {**conf, "cni.dev/valid-attachments": []}).ok()
        assert not os.path.exists(maps_of(pod))
        cni.call(topology.node, "DEL", conf, cid=pod.cid, netns="", ifname="eth0").ok()  # the lease


def test_killed_add_leaves_nothing_after_del(clean_topology, scale):
    topology = clean_topology
    conf = topology.conf(**asks(install("first"), "entry"))
    for i in range(scale(200)):
        pod = topology.container()
        cni.call_and_kill(topology.node, conf, pod.cid, pod.netns_path, "eth0", 0.002 * (i % 40))
        cni.call(topology.node, "DEL", conf, cid=pod.cid, netns=pod.netns_path, ifname="eth0").ok()
        pod.ns.close()
