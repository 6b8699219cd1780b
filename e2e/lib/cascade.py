# SPDX-License-Identifier: Apache-2.0
"""Chains: containers that are functions, and containers that they protect. The functions' program is
e2e/owner/bpf/function.bpf.c; what a function counted is its own account, beside the node's."""

import ipaddress
import json
import os
import select
import subprocess

from lib import cni, owner
from lib.stats import xvethctl
from lib.topology import CLIENT, NODE, Topology
from lib.traffic import ping

ANNOTATIONS = "io.kubernetes.cri.pod-annotations"
DROP, PASS, TX = 1, 2, 3  # enum xdp_action


def chains_of(topology):
    answer = json.loads(xvethctl(topology.node, "chain", "show", "--json"))
    return {chain["name"]: chain for chain in answer["chains"]}


def slots_of(topology, chain="edge"):
    """{position: slot}; empty when there is no such chain."""
    return {slot["position"]: slot for slot in chains_of(topology).get(chain, {"functions": []})["functions"]}


class Cascade(Topology):
    """A world with one network, in which containers ask for their place by annotation."""

    def __init__(self, **keys):
        super().__init__()
        keys = {"families": (4, 6), "allow": {"chains": {"join": ["edge", "back"], "use": ["edge", "back"]}}, **keys}
        self.net = self.network(capabilities={ANNOTATIONS: True}, **keys)
        self.loaders, self.agent = [], None
        for family in (4, 6):
            ping(self.node, CLIENT[family], count=1)
            ping(self.client, NODE[family], count=1)

    def close(self):
        for loader in self.loaders:
            loader.close()
        if self.agent:
            self.agent.stop()
        super().close()

    # -- members

    def ask(self, container=None, **annotations):
        asked = {"xveth.dev/" + key.replace("_", "-"): value for key, value in annotations.items()}
        return self.attach(self.net, container, runtime_config={ANNOTATIONS: asked})

    def plain(self):
        return self.ask()

    def protected(self, chain="edge", container=None):
        return self.ask(container, protected_by=chain)

    def function(self, position, chain="edge", on_failure="drop", does=TX, armed=True, loader="libbpf link"):
        pod = self.ask(chain=f"{chain}:{position}:{on_failure}", container_xdp="free")
        if armed:
            self.arm(pod, does, loader)
        return pod

    def arm(self, pod, does=TX, loader="libbpf link"):
        pod.loader = owner.LOADERS[loader](pod.ns)
        self.loaders.append(pod.loader)
        pod.loader.attach("function")
        order(pod, does)

    # -- what the node says

    def chains(self):
        return chains_of(self)

    def slots(self, chain="edge"):
        return slots_of(self, chain)

    def states(self, chain="edge"):
        return {position: slot["state"] for position, slot in self.slots(chain).items()}

    def start_agent(self):
        self.agent = Agent(self.node)
        return self.agent


class Agent:
    """xvethd in the node, ready when this returns."""

    def __init__(self, node):
        self.process = subprocess.Popen([cni.NSENTER, f"--net={node.path}", "--", os.path.join(cni.BIN_DIR, "xvethd")],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        readable, _, _ = select.select([self.process.stdout], [], [], 10)
        line = self.process.stdout.readline() if readable else ""
        assert line.startswith("xvethd: watching"), (line, self.stop())

    def stop(self):
        """Ends it as an init system would; what it said on its standard error."""
        self.process.terminate()
        _, err = self.process.communicate(timeout=10)
        return err


def order(pod, does, other=0):
    """What a function does with frames, and the last byte of the address that ports 15 and 17 speak of."""
    owner.set_word(pod.ns, "function_does", 0, does)
    owner.set_word(pod.ns, "function_does", 1, other)


def seen_by(pod, kind=""):
    """Frames of a kind ("udp", "tcp", "other") that the function's program saw; of all kinds, less those of the link."""
    return sum(count for name, count in owner.seen_by(pod.ns).items() if name.startswith(kind))


class Seen:
    """`with Seen(f10, f20) as seen:` … then `seen[f10]` is what its program saw inside the block."""

    def __init__(self, *pods, kind=""):
        self.pods, self.kind = pods, kind

    def __enter__(self):
        self.before = [seen_by(pod, self.kind) for pod in self.pods]
        return self

    def __exit__(self, *_):
        self.delta = [seen_by(pod, self.kind) - before for pod, before in zip(self.pods, self.before)]

    def __getitem__(self, pod):
        return self.delta[self.pods.index(pod)]

    def __iter__(self):
        return iter(self.delta)


def last_byte(address):
    return ipaddress.ip_address(address).packed[-1]
