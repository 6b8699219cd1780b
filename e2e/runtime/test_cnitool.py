# SPDX-License-Identifier: Apache-2.0
"""The real libcni, through its own client cnitool: what it reads of our answers, caches, and sends back."""

import json
import os
import subprocess

import pytest

from lib import cni, gotools, residue
from lib.stats import Watch
from lib.topology import NODE
from lib.traffic import ping, tcp_works, udp_works


class CniTool:
    """One network on one node. cnitool derives the container id from the namespace's path."""

    def __init__(self, topology, version, *chained, **keys):
        self.topology, self.binary = topology, gotools.tool("cnitool")
        self.directory = f"{topology.directory}/net.d"
        os.makedirs(self.directory)
        conf = topology.conf(version=version, **keys)
        self.name = conf.pop("name")
        del conf["cniVersion"]
        with open(f"{self.directory}/10-net.conflist", "w", encoding="ascii") as file:
            json.dump({"cniVersion": version, "name": self.name, "plugins": [conf, *chained]}, file)

    def __call__(self, verb, container=None, check=True, **variables):
        env = {**os.environ, "NETCONFPATH": self.directory, "CNI_PATH": ":".join(cni.plugin_path()), **variables}
        argv = [self.binary, verb, self.name, container.ns.path if container else "/run/netns/any"]
        return self.topology.node.run(*argv, env=env, check=check)

    def add(self, container, **variables):
        container.result = json.loads(self("add", container, **variables))
        return container


@pytest.mark.parametrize("version", cni.VERSIONS)
def test_add_check_del_in_every_version(clean_topology, version):
    tool, pod = CniTool(clean_topology, version), clean_topology.container()
    result = tool.add(pod).result
    assert result["cniVersion"] == version
    address = (result["ip4"]["ip"] if "ip4" in result else result["ips"][0]["address"]).split("/")[0]
    udp_works(clean_topology.client, pod.ns, address)
    if version >= "0.4.0":
        tool("check", pod)
    tool("del", pod)
    assert not pod.ns.has_link("eth0")
    tool("del", pod)


def test_two_containers_exchange_by_redirect(clean_topology):
    tool = CniTool(clean_topology, "1.0.0", localMtu=0, families=(4, 6))
    a, b = tool.add(clean_topology.container()), tool.add(clean_topology.container())
    ping(clean_topology.client, NODE[4], count=1)
    for family in (4, 6):
        with Watch(clean_topology) as seen:
            udp_works(a.ns, b.ns, b.address(family), count=20)
            tcp_works(a.ns, b.ns, b.address(family))
        carried = [port.from_port for port in seen.delta.ports.values()]
        assert sum(count >= 70 for count in carried) == 2, seen
    for pod in (a, b):
        tool("check", pod)
        tool("del", pod)


def test_list_with_other_plugins(topology):
    tool = CniTool(topology, "1.0.0", {"type": "tuning", "mac": "02:aa:00:00:00:02"},
                   {"type": "portmap", "capabilities": {"portMappings": True}})
    pod = topology.container()
    tool.add(pod, CAP_ARGS='{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}')
    assert pod.ns.link("eth0")["address"] == "02:aa:00:00:00:02"
    udp_works(topology.client, pod.ns, pod.address())
    tool("check", pod)
    tool("del", pod)


def test_error_text_reaches_the_user(topology):
    tool = CniTool(topology, "1.0.0", nic="nosuchnic")
    pod = topology.container()
    env = {**os.environ, "NETCONFPATH": tool.directory, "CNI_PATH": ":".join(cni.plugin_path())}

    done = subprocess.run(["nsenter", f"--net={topology.node.path}", tool.binary, "add", tool.name, pod.ns.path], env=env,
                          capture_output=True, text=True, timeout=30)
    assert done.returncode != 0 and "nosuchnic" in done.stdout + done.stderr


def test_broken_check_and_mended_del(topology):
    tool, pod = CniTool(topology, "1.0.0"), topology.container()
    before = residue.snapshot(topology)
    tool.add(pod)
    pod.ns.ip("link del eth0")
    with pytest.raises(AssertionError, match="eth0"):
        tool("check", pod)
    tool("del", pod)
    residue.assert_same(before, topology)


def test_status_and_gc(topology):
    tool, pod, other = CniTool(topology, "1.1.0"), topology.container(), topology.container()
    before = residue.snapshot(topology)
    tool("status")
    tool.add(pod)
    tool.add(other)
    tool("gc")  # cnitool names no valid attachment: libcni sends DEL for all that it knows, then GC without a list
    assert not pod.ns.has_link("eth0") and not other.ns.has_link("eth0")
    residue.assert_same(before, topology)
    tool.add(pod)
    tool("check", pod)
    tool("del", pod)
