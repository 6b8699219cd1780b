# SPDX-License-Identifier: Apache-2.0
"""The world of a test:

    client ═══ wire ═══ nic0 (node) ── host ends ═══ eth0 of the containers

Client, node and containers are network namespaces. The wire's outer end is armed as a real NIC would be: GRO on, so that
redirected frames can leave; checksums finished and no VLAN tags in metadata, so that frames are whole when they enter.
"""

import itertools
import os
import shutil

from lib import cni
from lib.netns import Netns
from lib.stats import Stats

_serial = itertools.count(1)

CLIENT = {4: "10.1.0.1", 6: "fd00:1::1"}
NODE = {4: "10.1.0.2", 6: "fd00:1::2"}
SUBNET = {4: "10.2.0.0/24", 6: "fd00:2::/64"}
GATEWAY = {4: "10.2.0.1", 6: "fd00:2::1"}
DEFAULT = {4: "0.0.0.0/0", 6: "::/0"}


class Container:
    """A namespace and what a runtime knows of it."""

    def __init__(self, cid=None, ifname="eth0"):
        self.ns = Netns("pod")
        self.cid = cid or f"c{next(_serial):04d}" + "0" * 8
        self.ifname = ifname
        self.netns_path = self.ns.path
        self.result = None
        self.runtime = None

    @property
    def addresses(self):
        return [ip["address"].split("/")[0] for ip in self.result["ips"]]

    def address(self, family=4):
        return next(a for a in self.addresses if (":" in a) == (family == 6))

    @property
    def host_end(self):
        on_node = (i["name"] for i in self.result["interfaces"] if not i.get("sandbox"))
        return next(name for name in on_node if not name.startswith("xvb-"))

    @property
    def attachment(self):
        return f"{self.runtime.name}/{self.cid}/{self.ifname}"


class Topology:
    def __init__(self, armed=True):
        self.id = next(_serial)
        self.directory = f"/run/e2e/{self.id}"
        self.client, self.node = Netns("client"), Netns("node")
        self.cookie = self.node.cookie()
        self.containers = []
        self.networks = itertools.count(1)
        self._wire(armed)

    def _wire(self, armed):
        self.client.ip(f"link add eth0 type veth peer name nic0 netns {self.node.name}")
        if armed:
            self.client.run("ethtool", "-K", "eth0", "gro", "on", "tx-checksum-ip-generic", "off", "tx-vlan-offload", "off")
        # The wire stands ready: no test waits for duplicate address detection of a link that is there before it.
        self.client.sysctl("net.ipv6.conf.eth0.accept_dad", 0)
        self.node.sysctl("net.ipv6.conf.nic0.accept_dad", 0)
        self.client.ip_batch(f"""
            addr add {CLIENT[4]}/24 dev eth0
            addr add {CLIENT[6]}/64 dev eth0 nodad
            link set eth0 up
            route add 10.0.0.0/8 via {NODE[4]}
            route add fd00::/16 via {NODE[6]}""")
        self.node.ip_batch(f"""
            addr add {NODE[4]}/24 dev nic0
            addr add {NODE[6]}/64 dev nic0 nodad
            link set nic0 up
            route add default via {CLIENT[4]}
            route add default via {CLIENT[6]}""")
        self.client.await_carrier("eth0")
        self.node.await_carrier("nic0")

    def pins(self, kind):
        """The node's pinned objects of a folder ("maps", "links"), as {name: path}."""
        directory = f"/sys/fs/bpf/xveth/v1/{self.cookie}/{kind}"
        return {name: f"{directory}/{name}" for name in (os.listdir(directory) if os.path.isdir(directory) else ())}

    def close(self):
        for container in self.containers:
            container.ns.close()
        self.node.close()
        self.client.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.rmtree(f"/sys/fs/bpf/xveth/v1/{self.cookie}", ignore_errors=True)  # the maps' memory

    # -- configurations

    def ipam(self, families=(4,), subnets=None, **keys):
        chosen = subnets or [SUBNET[f] for f in families]
        return {"type": "host-local", "dataDir": f"{self.directory}/ipam",
                "ranges": [[{"subnet": s}] for s in chosen],
                "routes": [{"dst": DEFAULT[f]} for f in families], **keys}

    def conf(self, version="1.0.0", name=None, families=(4,), subnets=None, type="xveth", **keys):
        """A plugin's object as a runtime sends it; further keys as given, None leaves one out."""
        conf = {"cniVersion": version, "name": name or f"net{self.id}-{next(self.networks)}", "type": type,
                "ipam": self.ipam(families, subnets)}
        if version == "1.1.0":
            conf["ipam"]["type"] = "host-local-1.1"
        conf.update(keys)
        return {key: value for key, value in conf.items() if value is not None}

    def network(self, *chained, version="1.0.0", before=(), **keys):
        """A runtime with one network: xveth, after `before` and followed by `chained` plugins."""
        conf = self.conf(version=version, **keys)
        name = conf.pop("name")
        return cni.Runtime(self.node, name, [*before, conf, *chained], version)

    # -- containers

    def container(self, cid=None, ifname="eth0"):
        container = Container(cid, ifname)
        self.containers.append(container)
        return container

    def attach(self, runtime, container=None, **options):
        container = container or self.container()
        container.runtime = runtime
        container.result = runtime.add(container, **options)
        return container

    def detach(self, container, **changes):
        container.runtime.delete(container, **changes)

    # -- what the node's tool says

    def stats(self):
        return Stats.read(self.node)
