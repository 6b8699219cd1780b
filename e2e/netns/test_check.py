# SPDX-License-Identifier: Apache-2.0
"""CHECK passes right after ADD and after what others may change; it names what is broken. And other people's programs."""

import json
import os
import re
import socket

import pytest

from lib import bpf, cni
from lib.cni import call
from lib.netns import run
from lib.topology import GATEWAY, NODE
from lib.traffic import udp_works


@pytest.fixture
def pod(topology):
    pod = topology.attach(topology.network(families=(4, 6), localMtu=0))
    pod.runtime.check(pod).ok()
    return pod


def broken(pod, *words):
    """CHECK must fail, and say where."""
    text = pod.runtime.check(pod).error()
    assert any(word in text for word in words), f"none of {words} is in: {text}"


def bpftool(*argv):
    return run("bpftool", *argv)


@pytest.mark.parametrize("families", [(4,), (6,), (4, 6)])
@pytest.mark.parametrize("keys", [{}, {"containerXdp": "free"}, {"policy": "stack"}, {"nic": "none"}, {"ipMasq": True}],
                         ids=["default", "free", "stack", "no NIC", "masquerade"])
def test_passes_right_after_add(topology, families, keys):
    pod = topology.attach(topology.network(families=families, **keys))
    pod.runtime.check(pod).ok()


def test_passes_with_traffic_and_beside_another_attachment(topology, pod):
    topology.attach(pod.runtime)
    udp_works(topology.client, pod.ns, pod.address())
    pod.runtime.check(pod).ok()


@pytest.mark.parametrize("family", [4, 6])
def test_address_gone(pod, family):
    length = 24 if family == 4 else 64
    pod.ns.ip(f"addr del {pod.address(family)}/{length} dev eth0")
    broken(pod, pod.address(family))


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_default_route_gone(pod, family):
    pod.ns.ip(f"{family} route del default")
    broken(pod, "0.0.0.0/0" if family == "-4" else "::/0", "default", "route")


@pytest.mark.parametrize("family", [4, 6])
def test_route_of_the_node_gone(topology, pod, family):
    topology.node.ip(f"{'-6 ' if family == 6 else ''}route del {pod.address(family)}")
    broken(pod, pod.address(family))


def test_interface_gone(pod):
    pod.ns.ip("link del eth0")
    broken(pod, "eth0")


def test_interface_replaced_by_a_stranger(pod):
    pod.ns.ip("link del eth0")
    pod.ns.ip("link add eth0 type veth peer name other")
    broken(pod, "eth0", pod.host_end)


def test_interface_down(pod):
    pod.ns.ip("link set eth0 down")
    broken(pod, "eth0")


def test_host_end_down(topology, pod):
    topology.node.ip(f"link set {pod.host_end} down")
    broken(pod, pod.host_end)


def test_program_of_the_host_end_gone(topology, pod):
    """The link is detached behind our back; its pin is still there."""
    for name, path in topology.pins("links").items():
        if re.fullmatch(r"[0-9a-f]+h", name):
            bpftool("link", "detach", "pinned", path)
    broken(pod, pod.host_end)


def test_pin_of_the_host_end_gone(topology, pod):
    for name, path in topology.pins("links").items():
        if re.fullmatch(r"[0-9a-f]+h", name):
            os.unlink(path)
    broken(pod, pod.host_end)


def test_redirect_target_gone(topology, pod):
    path = topology.pins("maps")["xv_ports"]
    ifindex = topology.node.link(pod.host_end)["ifindex"]
    entries = json.loads(bpftool("-j", "map", "dump", "pinned", path))
    mine = [e for e in entries if int.from_bytes(bytes(int(b, 16) for b in e["value"][:4]), "little") == ifindex]
    assert len(mine) == 1, entries
    bpftool("map", "delete", "pinned", path, "key", *mine[0]["key"])
    broken(pod, pod.host_end, "xv_ports", "redirect")


@pytest.mark.parametrize("family", [4, 6])
def test_endpoint_gone(topology, pod, family):
    raw = socket.inet_pton(socket.AF_INET6, pod.address(6) if family == 6 else f"::ffff:{pod.address(4)}")
    bpftool("map", "delete", "pinned", topology.pins("maps")["xv_endpoints"], "key", *(f"0x{b:02x}" for b in raw))
    broken(pod, pod.address(family))


def test_unarmed_container_end(topology):
    """A free container without program and GRO would lose every redirected frame."""
    pod = topology.attach(topology.network(containerXdp="free"))
    pod.ns.run("ethtool", "-K", "eth0", "gro", "off")
    broken(pod, "eth0", pod.host_end)


def test_program_of_the_container_instead_of_gro_is_armed_too(topology):
    """A privileged container may run its own program: that is what the hook is for."""
    pod = topology.attach(topology.network(containerXdp="free", localMtu=0))
    pod.ns.run("ip", "link", "set", "dev", "eth0", "xdpdrv", "pinned", bpf.foreign_xdp())
    pod.runtime.check(pod).ok()
    udp_works(topology.client, pod.ns, pod.address())


def test_transmit_checksums_left_to_the_device(pod):
    pod.ns.run("ethtool", "-K", "eth0", "tx-checksum-ip-generic", "on")
    broken(pod, "checksum", "eth0")


def test_changed_mac_mtu_and_extra_routes_of_later_plugins_pass(pod):
    pod.ns.ip("link set eth0 address 02:00:00:00:00:42")
    pod.ns.ip("link set eth0 mtu 1450")
    pod.ns.ip(f"route add 10.50.0.0/16 via {GATEWAY[4]}")
    pod.ns.ip("addr add 10.51.0.1/32 dev eth0")
    pod.runtime.cache[(pod.cid, "eth0")][0]["interfaces"][1]["mac"] = "02:00:00:00:00:42"
    pod.runtime.check(pod).ok()


def test_lease_gone_is_the_delegates_word(topology, pod):
    for address in pod.addresses:
        os.unlink(f"{topology.directory}/ipam/{pod.runtime.name}/{address}")
    pod.runtime.check(pod).error()


def test_of_an_attachment_that_never_was(topology, pod):
    stranger = topology.container()
    pod.runtime.cache[(stranger.cid, "eth0")] = (pod.result, {})
    pod.runtime.check(stranger).error()


def test_namespace_gone(pod):
    pod.ns.close()
    pod.runtime.check(pod).error()


# -- other people's programs

def stranger_on(ns, device, mode="xdpdrv"):
    ns.run("ip", "link", "set", "dev", device, mode, "pinned", bpf.foreign_xdp())
    return ns.link(device)["xdp"]["prog"]["id"]


def add(topology, **keys):
    pod = topology.container()
    return pod, call(topology.node, "ADD", topology.conf(**keys), cid=pod.cid, netns=pod.netns_path, ifname="eth0")


@pytest.mark.parametrize("mode, words", [("xdpdrv", ("native",)), ("xdpgeneric", ("generic",))])
def test_required_nic_with_a_foreign_program_is_an_error_that_names_it(topology, mode, words):
    program = stranger_on(topology.node, "nic0", mode)
    pod, answer = add(topology, nic="nic0")
    answer.error(None, "nic0", str(program), "stranger", *words)
    assert topology.node.link("nic0")["xdp"]["prog"]["id"] == program
    assert pod.ns.link_names() == {"lo"}
    conf = topology.conf(version="1.1.0", nic="nic0")
    status = call(topology.node, "STATUS", conf)
    status.error(None, "nic0", "stranger")
    assert status.json["code"] in (50, 51)


@pytest.mark.parametrize("keys", [{"nic": "auto"}, {"nic": "nic0", "nicRequired": False}], ids=["auto", "not required"])
def test_foreign_program_on_another_nic_is_skipped_and_said(topology, keys):
    program = stranger_on(topology.node, "nic0")
    pod = topology.attach(topology.network(**keys))
    assert topology.node.link("nic0")["xdp"]["prog"]["id"] == program
    udp_works(topology.client, pod.ns, pod.address())
    udp_works(pod.ns, topology.node, NODE[4])
    pod.runtime.check(pod).ok()
    with open(os.environ["XVETH_LOG"], encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert any("nic0" in json.dumps(line) and "stranger" in json.dumps(line) for line in lines), lines[-5:]
    call(topology.node, "STATUS", topology.conf(version="1.1.0", **keys)).ok()
    topology.detach(pod)
    assert topology.node.link("nic0")["xdp"]["prog"]["id"] == program


def test_required_list_of_nics(topology):
    topology.node.ip("link add nic1 type veth peer name outer1")
    topology.node.ip("link set nic1 up")
    topology.attach(topology.network(nic=["nic0", "nic1"]))
    assert topology.node.link("nic0")["xdp"]["prog"]["name"] == topology.node.link("nic1")["xdp"]["prog"]["name"] == "xv_nic"


def test_nic_that_cannot_run_native_programs(topology):
    """A bridge as the device of the default route: containers work all the same, unless it was named."""
    topology.node.ip_batch(f"""
        addr del {NODE[4]}/24 dev nic0
        link add br0 type bridge
        link set nic0 master br0
        addr add {NODE[4]}/24 dev br0
        link set br0 up
        route replace default via 10.1.0.1""")
    pod = topology.attach(topology.network())
    udp_works(topology.client, pod.ns, pod.address())
    _, answer = add(topology, nic="br0")
    answer.error(None, "br0")


def test_foreign_program_in_the_container_survives_del_and_check(topology):
    pod = topology.attach(topology.network(containerXdp="free", localMtu=0))
    pod.ns.ip("link add own type veth peer name own2")
    program = stranger_on(pod.ns, "own")
    pod.runtime.check(pod).ok()
    topology.detach(pod)
    assert pod.ns.link("own")["xdp"]["prog"]["id"] == program


def test_nic_keeps_its_program_when_the_last_container_goes(topology):
    runtime = topology.network()
    pod = topology.attach(runtime)
    program = topology.node.link("nic0")["xdp"]["prog"]["id"]
    topology.detach(pod)
    assert topology.node.link("nic0")["xdp"]["prog"]["id"] == program
    topology.attach(runtime)
    assert topology.node.link("nic0")["xdp"]["prog"]["id"] == program


def test_plugin_needs_no_tools_beside_it(topology):
    """It must not call ip, tc, ethtool or bpftool."""
    pod = topology.container()
    env = {**cni.environment("ADD", CNI_CONTAINERID=pod.cid, CNI_NETNS=pod.netns_path, CNI_IFNAME="eth0"), "PATH": "/nonexistent"}
    process = cni.start(topology.node, os.path.join(cni.BIN_DIR, "xveth"), env, json.dumps(topology.conf()))
    result = cni.finish(process, "ADD").ok()
    udp_works(topology.client, pod.ns, result["ips"][0]["address"].split("/")[0])
