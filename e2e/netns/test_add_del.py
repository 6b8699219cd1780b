# SPDX-License-Identifier: Apache-2.0
"""ADD and DEL under everything that runtimes and crashes do to them: whatever happens, nothing is left behind."""

import json
import os
import random
import shutil
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib import cni, residue
from lib.cni import call, call_and_kill
from lib.stats import xvethctl
from lib.topology import GATEWAY, NODE, Topology
from lib.traffic import UdpFlow, ping, tcp_works, udp_works


@pytest.fixture
def used_topology(topology):
    """A node whose shared objects are loaded already, with a promise about its end."""
    runtime = topology.network()
    topology.detach(topology.attach(runtime))
    before = residue.snapshot(topology)
    yield topology
    residue.assert_same(before, topology)


def options(pod):
    return {"cid": pod.cid, "netns": pod.netns_path, "ifname": pod.ifname}


# -- once, twice, again

@pytest.mark.parametrize("families", [(4,), (6,), (4, 6)], ids=["IPv4", "IPv6", "dual"])
def test_addresses_work_the_moment_add_returns(clean_topology, families):
    lab = clean_topology
    runtime = lab.network(families=families)
    pod, other = lab.attach(runtime), lab.attach(runtime)
    for family in families:
        udp_works(pod.ns, lab.client, "10.1.0.1" if family == 4 else "fd00:1::1", count=1)
        udp_works(lab.client, pod.ns, pod.address(family), count=1)
        udp_works(pod.ns, other.ns, other.address(family), count=1)
        ping(pod.ns, GATEWAY[family], count=1)
    tentative = [a for link in pod.ns.ip_json("addr show dev eth0") for a in link["addr_info"] if a["scope"] == "global" and a.get("tentative")]
    assert not tentative
    lab.detach(pod)
    lab.detach(other)


def test_first_packet_of_a_container_on_a_busy_node(used_topology, scale):
    """The kernel notices a new carrier in the background, late where namespaces come and go, and drops until then."""
    lab = used_topology
    runtime = lab.network()
    busy = [subprocess.Popen(["sh", "-c", "while :; do unshare -n ip link set lo up; done"]) for _ in range(4)]
    try:
        for _ in range(scale(300)):
            pod = lab.attach(runtime)
            udp_works(pod.ns, lab.client, "10.1.0.1", count=1)
            lab.detach(pod)
            pod.ns.close()
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_second_add_fails_and_leaves_the_first_alone(clean_topology):
    lab = clean_topology
    runtime = lab.network()
    pod, other = lab.attach(runtime), lab.attach(runtime)
    flow = UdpFlow(lab.client, pod.ns, pod.address())
    flow.exchange(3)
    call(lab.node, "ADD", {**runtime.plugins[0], "name": runtime.name}, **options(pod)).error()
    flow.exchange(3)
    flow.close()
    runtime.check(pod).ok()
    tcp_works(pod.ns, other.ns, other.address())
    third = lab.attach(runtime)  # a rollback that freed the address would hand it out again
    assert third.address() not in (pod.address(), other.address())
    for each in (pod, other, third):
        lab.detach(each)


def test_existing_interface_fails_add_and_stays(clean_topology):
    lab = clean_topology
    pod = lab.container()
    pod.ns.ip("link add eth0 type veth peer name other")
    before = pod.ns.link("eth0")
    call(lab.node, "ADD", lab.conf(), **options(pod)).error(None, "eth0")
    assert pod.ns.link("eth0") == before


def test_add_after_del_gives_the_same_again(used_topology):
    lab = used_topology
    runtime, pod = lab.network(), lab.container()
    for _ in range(3):
        lab.attach(runtime, pod)
        udp_works(lab.client, pod.ns, pod.address(), count=2)
        lab.detach(pod)


@pytest.mark.parametrize("family", [4, 6])
def test_reused_address_is_the_new_container_at_once(used_topology, family):
    """A pool of one address: neither the node nor a neighbour may go on sending to the dead container's MAC."""
    lab = used_topology
    runtime = lab.network(families=(family,))
    neighbour = lab.attach(runtime)
    free = "10.2.0.50" if family == 4 else "fd00:2::50"
    macs = set()
    for _ in range(3):
        pod = lab.attach(runtime, args=f"IgnoreUnknown=1;IP={free}")
        assert pod.address(family) == free
        macs.add(pod.ns.link("eth0")["address"])
        begin = time.monotonic()
        ping(lab.node, free, count=1)
        udp_works(neighbour.ns, pod.ns, free, count=2)
        udp_works(lab.client, pod.ns, free, count=2)
        assert time.monotonic() - begin < 1
        lab.detach(pod)
    assert len(macs) == 3
    lab.detach(neighbour)


def test_del_three_times(clean_topology):
    lab = clean_topology
    runtime = lab.network()
    pod = lab.attach(runtime)
    for _ in range(3):
        runtime.delete(pod)
    assert not pod.ns.has_link("eth0")


def test_del_before_any_add(clean_topology):
    lab = clean_topology
    runtime = lab.network()
    runtime.delete(lab.container())


@pytest.mark.parametrize("changes", [
    {"netns": ""}, {"CNI_NETNS": None}, {"netns": "/run/netns/gone"}, {"netns": "/proc/999999/ns/net"}],
    ids=["empty", "unset", "gone", "dead pid"])
def test_del_without_namespace_finds_everything(clean_topology, changes):
    lab = clean_topology
    runtime = lab.network()
    pod = lab.attach(runtime)
    runtime.cache.clear()  # no prevResult either
    runtime.delete(pod, **changes)
    assert not pod.ns.has_link("eth0")


@pytest.mark.parametrize("netns", ["", "old path"])
def test_del_after_the_namespace_has_gone(clean_topology, netns):
    lab = clean_topology
    runtime = lab.network()
    pod = lab.attach(runtime)
    pod.ns.close()
    runtime.delete(pod, netns=netns and pod.netns_path)


def test_namespace_path_that_now_belongs_to_another_container(clean_topology):
    lab = clean_topology
    runtime = lab.network()
    pod, other = lab.attach(runtime), lab.attach(runtime)
    runtime.delete(pod, netns=other.netns_path)
    runtime.check(other).ok()
    udp_works(lab.client, other.ns, other.address())
    lab.detach(other)


def test_late_del_of_the_old_sandbox_leaves_the_new_one(clean_topology):
    lab = clean_topology
    runtime = lab.network()
    args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0"
    old, new = lab.attach(runtime, args=args), lab.attach(runtime, args=args)
    lab.detach(old)
    runtime.check(new).ok()
    udp_works(lab.client, new.ns, new.address())
    lab.detach(new)


def test_del_with_a_lost_or_broken_state_file(clean_topology):
    lab = clean_topology
    runtime = lab.network()
    for damage in (os.unlink, lambda path: open(path, "w", encoding="ascii").write('{"half')):
        pod = lab.attach(runtime)
        for path in residue.files_below("/run/xveth"):
            if f"/{runtime.name}/" in path:
                damage(path)
        lab.detach(pod, netns="")


def test_wiped_pins_of_an_old_container_are_not_those_of_a_new_one(used_topology):
    """Port ids begin anew with new maps: the DEL of the old container must not take the port of the new one."""
    lab = used_topology
    runtime = lab.network()
    old = lab.attach(runtime)
    shutil.rmtree(f"/sys/fs/bpf/xveth/v1/{lab.cookie}")
    new = [lab.attach(runtime) for _ in range(3)]
    lab.detach(old)
    for pod in new:
        runtime.check(pod).ok()
        udp_works(lab.client, pod.ns, pod.address())
        lab.detach(pod)


def test_add_where_state_and_namespace_were_lost_and_pins_stay(used_topology):
    lab = used_topology
    runtime, pod = lab.network(ipam=None), lab.container(cid="again")
    lab.attach(runtime, pod)
    shutil.rmtree(f"/run/xveth/{lab.cookie}/{runtime.name}")
    pod.ns.close()
    deadline = time.monotonic() + 5
    while lab.node.has_link(pod.host_end) and time.monotonic() < deadline:
        time.sleep(0.05)  # the kernel ends a namespace's devices a moment later
    again = lab.attach(runtime, lab.container(cid="again"))
    runtime.check(again).ok()
    lab.detach(again)


# -- at once

def _together(work, items, workers=32):
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))


def test_32_containers_at_once(used_topology):
    lab = used_topology
    runtime = lab.network(families=(4, 6))
    pods = [lab.container() for _ in range(32)]
    _together(lambda pod: lab.attach(runtime, pod), pods)
    assert len({pod.address(4) for pod in pods}) == 32
    for pod, other in zip(pods[::4], pods[1::4]):
        udp_works(pod.ns, other.ns, other.address(4), count=2)
        udp_works(lab.client, pod.ns, pod.address(6), count=2)
    answers = _together(runtime.check, pods)
    for answer in answers:
        answer.ok()
    _together(lab.detach, pods)


def test_20_first_adds_at_once_share_one_set_of_maps(scale):
    """Nothing is loaded yet: who comes first loads, all others use the same."""
    for _ in range(scale(50)):
        lab = Topology()
        before = residue.snapshot(lab)
        runtime = lab.network()
        pods = [lab.container() for _ in range(20)]
        _together(lambda pod: lab.attach(runtime, pod), pods, 20)
        udp_works(pods[0].ns, pods[19].ns, pods[19].address(), count=2)
        programs = {(pod.ns.link("eth0")["xdp"]["prog"]["id"], lab.node.link(pod.host_end)["xdp"]["prog"]["id"]) for pod in pods}
        assert len(programs) == 1, programs
        _together(lab.detach, pods, 20)
        residue.assert_same(before, lab)
        lab.close()


def test_del_that_comes_while_add_runs(used_topology, scale):
    lab = used_topology
    for _ in range(scale(40)):
        runtime, pod = lab.network(), lab.container()
        conf = {**runtime.plugins[0], "name": runtime.name}
        env = cni.environment("ADD", CNI_CONTAINERID=pod.cid, CNI_NETNS=pod.netns_path, CNI_IFNAME="eth0")
        adding = cni.start(lab.node, cni.find_plugin("xveth", cni.plugin_path()), env, json.dumps(conf))
        time.sleep(0.01)
        call(lab.node, "DEL", conf, **options(pod)).ok()
        cni.finish(adding, "ADD")
        call(lab.node, "DEL", conf, **options(pod)).ok()
        pod.ns.close()


# -- killed

def test_kill_at_any_point_of_add_then_del_leaves_nothing(used_topology, scale):
    lab = used_topology
    runtime, chance = lab.network(families=(4, 6)), random.Random(2026)
    conf = {**runtime.plugins[0], "name": runtime.name}
    pod = lab.container()
    duration = call(lab.node, "ADD", conf, **options(pod))
    duration.ok()
    runtime.delete(pod)
    before, killed = residue.snapshot(lab), 0
    for round_number in range(scale(200)):
        pod = lab.container()
        delay = chance.uniform(0.001, duration.seconds)
        killed += call_and_kill(lab.node, conf, pod.cid, pod.netns_path, "eth0", delay)
        if round_number % 2:
            pod.ns.close()  # the runtime throws the namespace away first
        call(lab.node, "DEL", conf, cid=pod.cid, netns="" if round_number % 2 else pod.netns_path, ifname="eth0").ok()
        lines = residue.settled_difference(before, lab)
        assert not lines, f"killed after {delay * 1000:.1f} ms of {duration.seconds * 1000:.1f}:\n" + "\n".join(lines)
        pod.ns.close()
    assert killed >= scale(200) // 3, "hardly any ADD was still at work when it was killed"


def test_node_of_a_killed_add_still_serves(used_topology, scale):
    lab = used_topology
    runtime, chance = lab.network(), random.Random(7)
    conf = {**runtime.plugins[0], "name": runtime.name}
    for _ in range(scale(30)):
        dead = lab.container()
        call_and_kill(lab.node, conf, dead.cid, dead.netns_path, "eth0", chance.uniform(0.005, 0.05))
        pod = lab.attach(runtime)
        udp_works(lab.client, pod.ns, pod.address(), count=1)
        lab.detach(pod)
        call(lab.node, "DEL", conf, **options(dead)).ok()


def test_kill_during_del_then_del_leaves_nothing(used_topology, scale):
    lab = used_topology
    runtime, chance = lab.network(), random.Random(11)
    conf = {**runtime.plugins[0], "name": runtime.name}
    for _ in range(scale(60)):
        pod = lab.attach(runtime)
        process = cni.start(lab.node, cni.find_plugin("xveth", cni.plugin_path()), cni.environment(
            "DEL", CNI_CONTAINERID=pod.cid, CNI_NETNS=pod.netns_path, CNI_IFNAME="eth0"), json.dumps(conf))
        time.sleep(chance.uniform(0.001, 0.06))
        process.kill()
        process.communicate(timeout=30)
        call(lab.node, "DEL", conf, **options(pod)).ok()
        pod.ns.close()


# -- what fails on the way

def test_ipam_missing(clean_topology):
    lab = clean_topology
    pod, conf = lab.container(), lab.conf(ipam={"type": "nosuchipam"})
    text = call(lab.node, "ADD", conf, **options(pod)).error(None, "nosuchipam")
    assert cni.BIN_DIR in text and cni.PLUGIN_DIR in text
    assert not pod.ns.has_link("eth0")


def test_ipam_missing_at_del_frees_ours_and_says_so(clean_topology):
    lab = clean_topology
    runtime = lab.network()
    pod = lab.attach(runtime)
    conf = {**runtime.plugins[0], "name": runtime.name}
    text = call(lab.node, "DEL", conf, **options(pod), path=[cni.BIN_DIR]).error(None, "host-local")
    assert "not found" not in text  # runtimes swallow errors that say so, and the lease would be lost
    assert not pod.ns.has_link("eth0") and not lab.node.has_link(pod.host_end)
    runtime.delete(pod)


def test_ipam_failing_and_path_with_odd_elements(clean_topology):
    lab = clean_topology
    pod = lab.container()
    call(lab.node, "ADD", lab.conf(ipam=lab.ipam(subnets=["10.2.0.0/33"])), **options(pod)).error()
    conf = lab.conf()
    path = ["", "/nonexistent dir", *cni.plugin_path()]
    call(lab.node, "ADD", conf, **options(pod), path=path, binary=f"{cni.BIN_DIR}/xveth").ok()
    call(lab.node, "DEL", conf, **options(pod), path=path, binary=f"{cni.BIN_DIR}/xveth").ok()


def _script(lab, name, body):
    os.makedirs(f"{lab.directory}/bin", exist_ok=True)
    with open(f"{lab.directory}/bin/{name}", "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n" + body)
    os.chmod(f"{lab.directory}/bin/{name}", stat.S_IRWXU)
    return cni.plugin_path(f"{lab.directory}/bin")


def test_killed_add_takes_its_hanging_ipam_along(clean_topology):
    """A child that keeps the runtime's pipe open makes the runtime wait for it, even after SIGKILL of the plugin."""
    lab = clean_topology
    path, pod = _script(lab, "hanging", f"echo $$ > {lab.directory}/ipam-pid; exec sleep 60"), lab.container()
    conf = lab.conf(ipam={"type": "hanging"})
    process = cni.start(lab.node, f"{cni.BIN_DIR}/xveth", cni.environment(
        "ADD", CNI_CONTAINERID=pod.cid, CNI_NETNS=pod.netns_path, CNI_IFNAME="eth0", CNI_PATH=":".join(path)),
        json.dumps(conf))
    while not os.path.exists(f"{lab.directory}/ipam-pid"):
        time.sleep(0.01)
    process.kill()
    begin = time.monotonic()
    process.communicate(timeout=20)
    assert time.monotonic() - begin < 2
    _script(lab, "hanging", "exit 0")
    call(lab.node, "DEL", conf, **options(pod), path=path).ok()


def test_other_containers_do_not_wait_for_a_hanging_ipam(clean_topology):
    lab = clean_topology
    path, stuck = _script(lab, "hanging", f"touch {lab.directory}/started; exec sleep 60"), lab.container()
    conf = lab.conf(ipam={"type": "hanging"})
    process = cni.start(lab.node, f"{cni.BIN_DIR}/xveth", cni.environment(
        "ADD", CNI_CONTAINERID=stuck.cid, CNI_NETNS=stuck.netns_path, CNI_IFNAME="eth0", CNI_PATH=":".join(path)), json.dumps(conf))
    while not os.path.exists(f"{lab.directory}/started"):
        time.sleep(0.01)
    begin = time.monotonic()
    pod = lab.attach(lab.network())
    lab.detach(pod)
    assert time.monotonic() - begin < 5
    process.kill()
    process.communicate(timeout=20)
    _script(lab, "hanging", "exit 0")
    call(lab.node, "DEL", conf, **options(stuck), path=path).ok()


def test_pool_exhausted(clean_topology):
    lab = clean_topology
    runtime = lab.network(subnets=["10.2.0.0/30"])  # a gateway and one address
    pod, second = lab.attach(runtime), lab.container()
    call(lab.node, "ADD", {**runtime.plugins[0], "name": runtime.name}, **options(second)).error()
    assert not second.ns.has_link("eth0")
    runtime.check(pod).ok()
    udp_works(lab.client, pod.ns, pod.address())
    lab.detach(pod)
    lab.attach(runtime, second)
    lab.detach(second)


def test_address_that_another_attachment_holds_is_named(clean_topology):
    lab = clean_topology
    first, second = lab.network(), lab.network()
    static = {"ipam": {"type": "static", "addresses": [{"address": "10.2.0.40/24", "gateway": "10.2.0.1"}],
                       "routes": [{"dst": "0.0.0.0/0"}]}}
    first, second = lab.network(**static), lab.network(**static)
    pod, other = lab.attach(first), lab.container()
    text = call(lab.node, "ADD", {**second.plugins[0], "name": second.name}, **options(other)).error(None, "10.2.0.40")
    assert pod.cid in text or first.name in text, text
    assert not other.ns.has_link("eth0")
    first.check(pod).ok()
    udp_works(lab.client, pod.ns, "10.2.0.40")
    lab.detach(pod)


@pytest.mark.parametrize("family", [4, 6])
def test_range_that_holds_the_nodes_own_address(used_topology, family):
    """The first address of the wire's own subnet is the node's: what is sent to the node must still reach it."""
    lab, own = used_topology, NODE[family]
    conf = lab.conf(families=(family,), policy="fast", subnets=["10.1.0.0/24" if family == 4 else "fd00:1::/64"])
    call(lab.node, "ADD", conf, **options(lab.container())).error(7, f"{own} is one of the node's own")
    udp_works(lab.client, lab.node, own)


def test_nic_that_was_replaced_leaves_nothing_after_gc(topology):
    lab = topology
    runtime = lab.network(nic="nic0")
    lab.detach(lab.attach(runtime))
    lab.node.ip("link del nic0")
    lab.node.ip(f"link add nic0 type veth peer name eth0 netns {lab.client.name}")
    lab.node.ip("link set nic0 up")
    lab.detach(lab.attach(runtime))
    call(lab.node, "GC", {**lab.conf(version="1.1.0", ipam=None), "cni.dev/valid-attachments": []}).ok()
    assert len(json.loads(xvethctl(lab.node, "stats", "--json"))["ports"]) == 1
    assert len(lab.pins("links")) == 1


@pytest.mark.parametrize("keys, word", [
    ({"nic": "nosuchnic"}, "nosuchnic"), ({"mtu": 70000}, "70000"), ({"nic": "lo"}, "lo")])
def test_failure_in_the_middle_gives_everything_back(used_topology, keys, word):
    lab = used_topology
    pod = lab.container()
    call(lab.node, "ADD", lab.conf(localMtu=0, **keys), **options(pod)).error(None, word)
    assert pod.ns.link_names() == {"lo"}


def test_host_end_name_taken_by_a_stranger(used_topology):
    lab = used_topology
    runtime, pod = lab.network(), lab.container()
    lab.attach(runtime, pod)
    name = pod.host_end
    lab.detach(pod)
    lab.node.ip(f"link add {name} type veth peer name stranger")
    answer = call(lab.node, "ADD", {**runtime.plugins[0], "name": runtime.name}, **options(pod))
    assert lab.node.has_link("stranger"), "a foreign device was removed"
    if answer.rc != 0:
        answer.error(None, name)
    call(lab.node, "DEL", {**runtime.plugins[0], "name": runtime.name}, **options(pod)).ok()
    assert lab.node.has_link("stranger"), "a foreign device was removed"
    lab.node.ip("link del stranger")


def test_veth_churn_beside_it(used_topology):
    """Devices that come and go make the kernel flag dumps as interrupted: nothing may be taken for absent."""
    lab = used_topology
    churn = subprocess.Popen(["nsenter", f"--net={lab.node.path}", "sh", "-c",
                              "while :; do ip link add churn0 type veth peer name churn1; ip link del churn0; done"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        runtime = lab.network()
        for _ in range(8):
            pod = lab.attach(runtime)
            runtime.check(pod).ok()
            lab.detach(pod)
    finally:
        churn.kill()
        churn.wait()
        lab.node.ip("link del churn0", check=False)


def test_ipv4_where_ipv6_is_switched_off(clean_topology):
    lab = clean_topology
    pod = lab.container()
    pod.ns.sysctl("net.ipv6.conf.all.disable_ipv6", 1)
    for ns in (pod.ns, lab.node):
        ns.sysctl("net.ipv6.conf.default.disable_ipv6", 1)
    lab.attach(lab.network(), pod)
    udp_works(lab.client, pod.ns, pod.address())
    lab.detach(pod)


def test_ipv6_is_switched_on_where_asked(clean_topology):
    lab = clean_topology
    pod = lab.container()
    pod.ns.sysctl("net.ipv6.conf.default.disable_ipv6", 1)
    lab.attach(lab.network(families=(6,)), pod)
    udp_works(lab.client, pod.ns, pod.address(6))
    lab.detach(pod)


def test_forwarding_is_on_per_family_and_no_other_setting_changes(topology):
    keys = ["net.ipv4.conf.all.rp_filter", "net.ipv4.conf.nic0.rp_filter", "net.ipv4.conf.all.proxy_arp",
            "net.ipv4.ip_default_ttl", "net.ipv6.conf.nic0.accept_ra", "net.netfilter.nf_conntrack_tcp_loose"]
    before = {key: topology.node.read_sysctl(key) for key in keys}
    topology.attach(topology.network())
    assert topology.node.read_sysctl("net.ipv4.ip_forward") == "1"
    assert topology.node.read_sysctl("net.ipv6.conf.all.forwarding") == "0"
    assert {key: topology.node.read_sysctl(key) for key in keys} == before
    topology.attach(topology.network(families=(6,)))
    assert topology.node.read_sysctl("net.ipv6.conf.all.forwarding") == "1"


def test_reverse_path_filter_of_the_node_does_not_cut(topology):
    topology.node.sysctl("net.ipv4.conf.all.rp_filter", 1)
    topology.node.sysctl("net.ipv4.conf.default.rp_filter", 1)
    runtime = topology.network()
    pod, other = topology.attach(runtime), topology.attach(runtime)
    udp_works(pod.ns, topology.client, "10.1.0.1")
    udp_works(topology.client, pod.ns, pod.address())
    udp_works(pod.ns, other.ns, other.address())


def test_two_nodes_with_one_run_directory_do_not_meet(topology):
    """The same network, container id and addresses in two host namespaces that share /run and bpffs."""
    second = Topology()
    pods = []
    for lab in (topology, second):
        runtime = lab.network(name="same")
        pods.append(lab.attach(runtime, lab.container(cid="same-id")))
        udp_works(lab.client, pods[-1].ns, pods[-1].address())
    assert pods[0].address() == pods[1].address()
    topology.detach(pods[0])
    pods[1].runtime.check(pods[1]).ok()
    udp_works(second.client, pods[1].ns, pods[1].address())
    second.detach(pods[1])
    second.close()


def test_gateway_and_subnets_as_given(topology):
    pod = topology.attach(topology.network(families=(4, 6)))
    assert any(r["dst"] == "default" and r["gateway"] == GATEWAY[4] for r in pod.ns.ip_json("route"))
    assert any(r["dst"] == "default" and r["gateway"] == GATEWAY[6] for r in pod.ns.ip_json("-6 route"))
    routes = {r["dst"] for r in topology.node.ip_json("route")} | {r["dst"] for r in topology.node.ip_json("-6 route")}
    assert set(pod.addresses) <= routes
