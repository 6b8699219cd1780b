# SPDX-License-Identifier: Apache-2.0
"""podman with CNI networks: its containers on xveth, with roots, state and configuration of its own."""

import json
import os
import time

import pytest

from lib import cni, image, residue
from lib.netns import Netns
from lib.stats import Watch
from lib.topology import CLIENT, GATEWAY, NODE, Topology
from lib.traffic import ping, tcp_works, udp_works

IMAGE = "localhost/e2e:1"


class Podman:
    def __init__(self, topology):
        self.topology, self.base = topology, f"{topology.directory}/podman"
        for directory in ("net.d", "root", "runroot", "tmp"):
            os.makedirs(f"{self.base}/{directory}")
        self._configure()
        image.write_archive(f"{self.base}/image.tar", IMAGE, ["sleep", "600"])
        self.run("load", "-i", f"{self.base}/image.tar")

    def _configure(self):
        # A machine without CAP_SYS_RESOURCE cannot raise limits: the container's are given, not inherited.
        directories = json.dumps([cni.BIN_DIR, cni.PLUGIN_DIR])
        with open(f"{self.base}/containers.conf", "w", encoding="ascii") as file:
            file.write(f"""
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_backend = "cni"
cni_plugin_dirs = {directories}
network_config_dir = "{self.base}/net.d"
default_network = "xnet"
""")
        with open(f"{self.base}/storage.conf", "w", encoding="ascii") as file:
            file.write(f'[storage]\ndriver = "vfs"\ngraphroot = "{self.base}/root"\nrunroot = "{self.base}/runroot"\n')

    def network(self, name, *plugins, version="1.0.0"):
        path = f"{self.base}/net.d/{name}.conflist"
        with open(path + ".new", "w", encoding="ascii") as file:
            json.dump({"cniVersion": version, "name": name, "plugins": plugins}, file)
        os.rename(path + ".new", path)

    def run(self, *argv, **options):
        env = {**os.environ, "CONTAINERS_CONF": f"{self.base}/containers.conf", "CONTAINERS_STORAGE_CONF": f"{self.base}/storage.conf"}
        return self.topology.node.run("podman", "--root", f"{self.base}/root", "--runroot", f"{self.base}/runroot", "--tmpdir",
                                      f"{self.base}/tmp", "--cgroup-manager", "cgroupfs", *argv, env=env, timeout=60, **options)

    def start(self, name, *options, network="xnet"):
        self.run("run", "-d", "--name", name, "--network", network, *options, IMAGE)
        return Running(self, name, network.split(":")[0])

    def close(self):
        self.run("rm", "-af", "-t", "0", check=False)


class Running:
    """A container of podman's, as the traffic helpers see one."""

    def __init__(self, podman, name, network):
        self.podman, self.name = podman, name
        settings = json.loads(podman.run("inspect", name))[0]
        self.id = settings["Id"]
        self.ns = Netns.at(settings["NetworkSettings"]["SandboxKey"])
        mine = settings["NetworkSettings"]["Networks"][network]
        self.addresses = {4: mine["IPAddress"], 6: mine["GlobalIPv6Address"]}
        self.mac, self.attachment = mine["MacAddress"], f"{network}/{self.id}/eth0"

    def remove(self):
        self.podman.run("rm", "-f", "-t", "0", self.name)


@pytest.fixture(scope="module")
def podman():
    world = Topology()
    engine = Podman(world)
    conf = world.conf(families=(4, 6), localMtu=0)
    conf.pop("name"), conf.pop("cniVersion")
    engine.network("xnet", conf, {"type": "portmap", "capabilities": {"portMappings": True}})
    ping(world.client, NODE[4], count=1)
    ping(world.client, NODE[6], count=1)
    yield engine
    engine.close()
    world.close()


@pytest.fixture
def start(podman):
    running = []

    def begin(*argv, **options):
        running.append(podman.start(*argv, **options))
        return running[-1]
    yield begin
    for container in running:
        container.remove()


def test_network_is_listed(podman):
    assert "xnet" in podman.run("network", "ls")


def test_container_reaches_gateway_node_and_client(podman):
    out = podman.run("run", "--rm", "--network", "xnet", IMAGE, "sh", "-c",
                     f"ip addr show eth0; ping -c1 -W2 {GATEWAY[4]} && ping -c1 -W2 {NODE[4]} && ping -c1 -W2 {CLIENT[4]}")
    assert "10.2.0." in out and "fd00:2::" in out and out.count("1 packets received") == 3


@pytest.mark.parametrize("family", [4, 6])
def test_two_containers_exchange_by_redirect(podman, start, family):
    a, b = start("a"), start("b")
    with Watch(podman.topology) as seen:
        udp_works(a.ns, b.ns, b.addresses[family], count=20)
        tcp_works(a.ns, b.ns, b.addresses[family])
    assert seen[a].from_port == seen[b].to_port >= 70, seen
    assert seen[b].from_port == seen[a].to_port >= 70, seen
    with Watch(podman.topology) as seen:
        udp_works(podman.topology.client, a.ns, a.addresses[family], count=20)
    assert seen["nic0"].from_port == seen["nic0"].to_port == 20, seen


def test_programs_inside_the_containers_talk(podman, start):
    """No helper of ours in between: the container's own processes."""
    a = start("a")
    podman.run("exec", "-d", "a", "nc", "-ll", "-p", "7000", "-e", "cat")
    with Watch(podman.topology) as seen:
        out = podman.run("run", "--rm", "--network", "xnet", IMAGE, "sh", "-c",
                         f"for i in 1 2 3 4 5; do echo hello | nc -w 2 {a.addresses[4]} 7000 && break; sleep 0.2; done")
    assert out.strip() == "hello" and seen[a].to_port >= 3, seen


def test_result_reaches_podman(podman, start):
    a = start("a")
    assert a.mac == a.ns.link("eth0")["address"] and a.addresses[4].startswith("10.2.0.") and a.addresses[6].startswith("fd00:2::")


def test_fixed_address_and_mac(podman, start):
    a = start("a", network="xnet:ip=10.2.0.99,mac=02:11:22:33:44:55")
    assert a.addresses[4] == "10.2.0.99" and a.ns.link("eth0")["address"] == "02:11:22:33:44:55"
    udp_works(podman.topology.client, a.ns, "10.2.0.99")


def test_published_port(podman, start):
    start("a", "-p", "18080:80")
    podman.run("exec", "-d", "a", "nc", "-ll", "-p", "80", "-e", "cat")
    out = podman.topology.client.run("sh", "-c", f"for i in 1 2 3 4 5; do echo hello | nc -w 2 {NODE[4]} 18080 && break; sleep 0.2; done"
                                     .replace("nc ", "busybox nc "))
    assert out.strip() == "hello"


def test_stop_and_start_again(podman, start):
    a = start("a")
    podman.run("stop", "-t", "0", "a")
    podman.run("start", "a")
    again = Running(podman, "a", "xnet")
    udp_works(podman.topology.client, again.ns, again.addresses[4])
    assert a.id == again.id


def test_free_container_counts_at_its_own_hook(podman):
    """The example: an image made from scratch, and exactly the capabilities that its loader needs."""
    conf = podman.topology.conf(subnets=["10.3.0.0/24"], containerXdp="free")
    conf.pop("name"), conf.pop("cniVersion")
    podman.network("free", conf)
    containerfile = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/xdp-counter/Containerfile")
    podman.run("build", "-t", "localhost/xdp-counter:1", "-f", containerfile, cni.BIN_DIR)
    # podman's own seccomp profile lets bpf(2) through with SYS_ADMIN only.
    rights = ["--cap-drop", "all", "--cap-add", "NET_ADMIN", "--cap-add", "BPF", "--security-opt", "seccomp=unconfined"]
    podman.run("run", "-d", "--name", "counter", "--network", "free", *rights, "localhost/xdp-counter:1")
    counter = Running(podman, "counter", "free")
    try:
        deadline = time.monotonic() + 10
        while "ipv4" not in podman.run("logs", "counter") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert counter.ns.path, podman.run("inspect", "counter") + podman.run("logs", "counter")
        udp_works(podman.topology.client, counter.ns, counter.addresses[4], count=20)
        podman.run("stop", "-t", "10", "counter")
        out = podman.run("logs", "counter")
        assert int(out.splitlines()[-1].split()[1]) >= 20, out
        assert podman.run("inspect", "--format", "{{.State.ExitCode}}", "counter").strip() == "0"
    finally:
        counter.remove()


def test_nothing_is_left_after_the_last_container(podman):

    before = residue.snapshot(podman.topology)
    containers = [podman.start(f"c{number}") for number in range(3)]
    for container in containers:
        container.remove()
    lines = [line for line in residue.settled_difference(before, podman.topology) if "rules of nftables" not in line]
    assert not lines, "\n".join(lines)
