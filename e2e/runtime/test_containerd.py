# SPDX-License-Identifier: Apache-2.0
"""containerd through CRI, as a kubelet drives it: pods on xveth, with roots, state and configuration of its own."""

import json
import os
import subprocess
import time

import pytest

from lib import cni, gotools, image, residue
from lib.netns import Netns
from lib.stats import Watch
from lib.topology import CLIENT, NODE, Topology
from lib.traffic import ping, tcp_works, udp_works

PAUSE, IMAGE = "localhost/pause:1", "localhost/e2e:1"


class Containerd:
    def __init__(self, topology):
        self.topology, self.base = topology, f"{topology.directory}/containerd"
        self.crictl_binary = gotools.tool("crictl")
        self.socket, self.serial = f"{self.base}/c.sock", 0
        for directory in ("net.d", "bin", "root", "state", "logs"):
            os.makedirs(f"{self.base}/{directory}")
        self._one_bin_dir()
        self._configure()
        self._start()
        for name, command in ((PAUSE, ["sleep", "100000"]), (IMAGE, ["sleep", "100000"])):
            image.write_archive(f"{self.base}/image.tar", name, command)
            topology.node.run("ctr", "-a", self.socket, "-n", "k8s.io", "images", "import", f"{self.base}/image.tar")

    def _one_bin_dir(self):
        for directory in (cni.PLUGIN_DIR, cni.OWN_DIR, cni.BIN_DIR):
            for name in os.listdir(directory):
                os.symlink(f"{directory}/{name}", f"{self.base}/bin/{name}")

    def _configure(self):
        # restrict_oom_score_adj: without CAP_SYS_RESOURCE a pod's score cannot be lowered.
        with open(f"{self.base}/config.toml", "w", encoding="ascii") as file:
            file.write(f"""
version = 2
root = "{self.base}/root"
state = "{self.base}/state"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_cgroup = false
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.base}/bin"
    conf_dir = "{self.base}/net.d"
""")

    def _start(self):
        self.log = open(f"{self.base}/log", "w", encoding="utf-8")
        self.process = subprocess.Popen(["nsenter", f"--net={self.topology.node.path}", "containerd", "-c", f"{self.base}/config.toml"],
                                        stdout=self.log, stderr=self.log)
        for _ in range(200):
            if os.path.exists(self.socket) and self.ready():
                return
            assert self.process.poll() is None, self.said()
            time.sleep(0.1)
        raise AssertionError("containerd did not come up:\n" + self.said())

    def ready(self):
        try:
            self.crictl("version")
            return True
        except AssertionError:
            return False

    def said(self):
        with open(f"{self.base}/log", encoding="utf-8") as file:
            return "".join(file.readlines()[-20:])

    def crictl(self, *argv):
        return self.topology.node.run(self.crictl_binary, "-r", f"unix://{self.socket}", "-t", "30s", "--config", "/dev/null", *argv, timeout=60)

    def network(self, name, *plugins, version="1.0.0"):
        """Replaces the configuration as an installer does: a file of the same directory, renamed."""
        path = f"{self.base}/net.d/10-net.conflist"
        with open(path + ".new", "w", encoding="ascii") as file:
            json.dump({"cniVersion": version, "name": name, "plugins": plugins}, file)
        os.rename(path + ".new", path)
        for _ in range(100):
            info = json.loads(self.crictl("info"))
            if any(c["type"] == "NetworkReady" and c["status"] for c in info["status"]["conditions"]):
                return
            time.sleep(0.1)
        raise AssertionError("the network did not become ready:\n" + self.said())

    def run_pod(self, name, **keys):
        self.serial += 1
        config = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{self.serial}", "attempt": 1},
                  "log_directory": f"{self.base}/logs", "linux": {}, **keys}
        path = f"{self.base}/pod-{self.serial}.json"
        with open(path, "w", encoding="ascii") as file:
            json.dump(config, file)
        return Pod(self, self.crictl("runp", path).strip(), path)

    def close(self):
        for pod in self.crictl("pods", "-q").split():
            self.crictl("stopp", pod)
            self.crictl("rmp", "-f", pod)
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


class Pod:
    def __init__(self, engine, pod_id, config_path):
        self.engine, self.id, self.config_path = engine, pod_id, config_path
        inspected = json.loads(engine.crictl("inspectp", pod_id))
        network = inspected["status"]["network"]
        self.addresses = [network["ip"], *(a["ip"] for a in network.get("additionalIps") or [])]
        namespaces = inspected["info"]["runtimeSpec"]["linux"]["namespaces"]
        self.ns = Netns.at(next(n["path"] for n in namespaces if n["type"] == "network").replace("/var/run", "/run"))
        self.attachment = f"{engine.network_name}/{pod_id}/eth0"

    def address(self, family):
        return next(a for a in self.addresses if (":" in a) == (family == 6))

    def start(self, name, *command):
        path = f"{self.engine.base}/container-{name}.json"
        with open(path, "w", encoding="ascii") as file:
            json.dump({"metadata": {"name": name}, "image": {"image": IMAGE}, "command": list(command), "linux": {}, "log_path": f"{name}.log"}, file)
        container = self.engine.crictl("create", self.id, path, self.config_path).strip()
        self.engine.crictl("start", container)
        return container

    def remove(self):
        self.engine.crictl("stopp", self.id)
        self.engine.crictl("rmp", "-f", self.id)


@pytest.fixture(scope="module")
def engine():
    world = Topology()
    containerd = Containerd(world)
    conf = world.conf(families=(4, 6), localMtu=0, capabilities={"io.kubernetes.cri.pod-annotations": True})
    containerd.network_name = conf.pop("name")
    del conf["cniVersion"]
    containerd.network(containerd.network_name, conf, {"type": "portmap", "capabilities": {"portMappings": True}})
    for family in (4, 6):
        ping(world.client, NODE[family], count=1)
    yield containerd
    containerd.close()
    world.close()


@pytest.fixture
def run_pod(engine):
    pods = []

    def run(name, **keys):
        pods.append(engine.run_pod(name, **keys))
        return pods[-1]
    yield run
    for pod in pods:
        pod.remove()


@pytest.mark.parametrize("family", [4, 6])
def test_two_pods_exchange_by_redirect(engine, run_pod, family):
    a, b = run_pod("a"), run_pod("b")
    with Watch(engine.topology) as seen:
        udp_works(a.ns, b.ns, b.address(family), count=20)
        tcp_works(a.ns, b.ns, b.address(family))
    assert seen[a].from_port == seen[b].to_port >= 70, seen
    assert seen[b].from_port == seen[a].to_port >= 70, seen
    with Watch(engine.topology) as seen:
        udp_works(engine.topology.client, a.ns, a.address(family), count=20)
    assert seen["nic0"].from_port == seen["nic0"].to_port == 20, seen


def test_programs_inside_the_pods_talk(engine, run_pod):
    a, b = run_pod("a"), run_pod("b")
    a.start("server", "nc", "-ll", "-p", "7000", "-e", "cat")
    client = b.start("client", "sleep", "600")
    with Watch(engine.topology) as seen:
        out = engine.crictl("exec", client, "sh", "-c",
                            f"for i in 1 2 3 4 5; do echo hello | nc -w 2 {a.address(4)} 7000 && break; sleep 0.2; done")
        assert out.strip() == "hello"
        engine.crictl("exec", client, "ping", "-c1", "-W2", CLIENT[4])
    assert seen[a].to_port >= 3 and seen[b].from_port >= 3, seen


def test_status_has_the_addresses_of_both_families(run_pod):
    pod = run_pod("a")
    assert pod.address(4).startswith("10.2.0.") and pod.address(6).startswith("fd00:2::") and len(pod.addresses) == 2


def test_host_port(engine, run_pod):
    pod = run_pod("a", port_mappings=[{"protocol": 0, "container_port": 80, "host_port": 18081}])
    pod.start("web", "nc", "-ll", "-p", "80", "-e", "cat")
    out = engine.topology.client.run("sh", "-c", f"for i in 1 2 3 4 5; do echo hello | busybox nc -w 2 {NODE[4]} 18081 && break; sleep 0.2; done")
    assert out.strip() == "hello"


def test_annotation_chooses_who_owns_the_hook(run_pod):
    pod = run_pod("a", annotations={"xveth.dev/container-xdp": "free"})
    assert "xdp" not in pod.ns.link("eth0") and pod.ns.features("eth0")["generic-receive-offload"]
    assert "xdp" in run_pod("b").ns.link("eth0")


def test_wrong_annotation_fails_the_pod_with_our_words(engine):
    with pytest.raises(AssertionError, match="xveth.dev/container-xdp.*|containerXdp.*"):
        engine.run_pod("a", annotations={"xveth.dev/container-xdp": "nonsense"})


def test_nothing_is_left_after_the_last_pod(engine):
    before = residue.snapshot(engine.topology)
    pods = [engine.run_pod(f"p{number}") for number in range(3)]
    engine.crictl("stopp", pods[0].id)
    engine.crictl("stopp", pods[0].id)
    for pod in pods:
        pod.remove()
    lines = [line for line in residue.settled_difference(before, engine.topology) if "rules of nftables" not in line]
    assert not lines, "\n".join(lines)


def test_restart_of_the_runtime_leaves_pods_alone(engine, run_pod):
    a, b = run_pod("a"), run_pod("b")
    engine.process.terminate()
    engine.process.wait(20)
    udp_works(a.ns, b.ns, b.address(4))
    engine._start()
    engine.network(engine.network_name, *json.load(open(f"{engine.base}/net.d/10-net.conflist", encoding="ascii"))["plugins"])
    with Watch(engine.topology) as seen:
        udp_works(a.ns, b.ns, b.address(4), count=20)
    assert seen[a].from_port == 20, seen
