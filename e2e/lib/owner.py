# SPDX-License-Identifier: Apache-2.0
"""The owner of a container: loads XDP programs on its interface with everybody's loaders, as they come.

Each loader is a class with attach, replace, detach and kill for one interface of one namespace. Programs are objects by
name, "plain" or "frags" (e2e/owner/bpf/owner.bpf.c); what they counted is read through the program that is attached.
"""

import itertools
import json
import os
import subprocess

from lib import cni, gotools
from lib.netns import CommandFailed, run

_serial = itertools.count(1)
SEEN = ("udp4", "tcp4", "udp6", "tcp6", "other")


def built(name):
    """A file that e2e/owner/CMakeLists.txt builds."""
    path = os.path.join(os.path.dirname(cni.BIN_DIR), "e2e", "owner", name)
    assert os.path.isfile(path), f"{path} is missing: build the targets e2e_owner_programs and owner-attach"
    return path


def object_path(name):
    return built(f"{name}.o")


def program_on(ns, device="eth0"):
    """The program that is attached natively: what `ip` shows of it, or None."""
    xdp = ns.link(device).get("xdp")
    if xdp is None:
        return None
    assert xdp["mode"] == 1, f"not native: {xdp}"
    return xdp["prog"]


def map_of(ns, name, device="eth0"):
    """The id of a map of the attached program."""
    program = json.loads(run("bpftool", "-j", "prog", "show", "id", program_on(ns, device)["id"]))
    for number in program["map_ids"]:
        if json.loads(run("bpftool", "-j", "map", "show", "id", number))["name"] == name:
            return number
    raise AssertionError(f"no map {name} in {program}")


def seen_by(ns, device="eth0"):
    """What the attached program counted so far, by kind of frame."""
    entries = json.loads(run("bpftool", "-j", "map", "dump", "id", map_of(ns, "owner_seen", device)))
    counts = [int.from_bytes(bytes(int(byte, 16) for byte in entry["value"]), "little") for entry in entries]
    return dict(zip(SEEN, counts))


def set_word(ns, name, key, value, device="eth0"):
    """Writes a word into a map of the attached program, from inside: a devmap's ifindex means the writer's namespace."""
    words = [str(byte) for word in (key, value) for byte in int(word).to_bytes(4, "little")]
    ns.run("bpftool", "map", "update", "id", map_of(ns, name, device), "key", *words[:4], "value", *words[4:])


class _Commands:
    """A loader whose commands come and go: there is nobody to kill, the program stays."""

    survives_kill = True

    def __init__(self, ns, device="eth0"):
        self.ns, self.device = ns, device

    def kill(self):
        pass

    def close(self):
        pass


class IpLink(_Commands):
    def attach(self, name):
        self.ns.run("ip", "link", "set", "dev", self.device, "xdpdrv", "obj", object_path(name), "sec",
                    "xdp.frags" if name == "frags" else "xdp")

    def replace(self, name):
        self.ns.run("ip", "-force", "link", "set", "dev", self.device, "xdpdrv", "obj", object_path(name), "sec",
                    "xdp.frags" if name == "frags" else "xdp")

    def detach(self):
        self.ns.run("ip", "link", "set", "dev", self.device, "xdpdrv", "off")


class Bpftool(_Commands):
    def _load(self, name):
        pin = f"/sys/fs/bpf/owner-{next(_serial)}"
        self.ns.run("bpftool", "prog", "load", object_path(name), pin, "type", "xdp")
        return pin

    def attach(self, name):
        self._net_attach(self._load(name))

    def replace(self, name):
        self._net_attach(self._load(name), "overwrite")

    def _net_attach(self, pin, *words):
        self.ns.run("bpftool", "net", "attach", "xdpdrv", "pinned", pin, "dev", self.device, *words)
        os.unlink(pin)

    def detach(self):
        self.ns.run("bpftool", "net", "detach", "xdpdrv", "dev", self.device)


class XdpLoader(_Commands):
    """Where freplace is refused it attaches the program itself; it then has no replacing but unload and load."""

    def attach(self, name):
        self.ns.run("xdp-loader", "load", "-m", "native", self.device, object_path(name))

    def replace(self, name):
        self.detach()
        self.attach(name)

    def detach(self):
        self.ns.run("xdp-loader", "unload", self.device, "--all")


class _Process:
    """A loader that lives on and is told by lines what to do."""

    def __init__(self, ns, *argv, prefix=()):
        self.process = subprocess.Popen([cni.NSENTER, f"--net={ns.path}", "--", *prefix, *argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def say(self, line):
        self.begin(line)
        self.end(line)

    def begin(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self, line=""):
        answer = self.process.stdout.readline().strip()
        if answer != "ok":
            raise CommandFailed(f"{line}: {answer or 'the loader died'}")

    def attach(self, name):
        self.say(f"attach {object_path(name)}")

    def replace(self, name):
        self.say(f"replace {object_path(name)}")

    def detach(self):
        self.say("detach")

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


class LibbpfLink(_Process):
    survives_kill = False

    def __init__(self, ns, device="eth0", prefix=()):
        super().__init__(ns, built("owner-attach"), "link", device, prefix=prefix)


class LibbpfNetlink(_Process):
    survives_kill = True

    def __init__(self, ns, device="eth0", prefix=()):
        super().__init__(ns, built("owner-attach"), "netlink", device, prefix=prefix)


class CiliumEbpf(_Process):
    survives_kill = False

    def __init__(self, ns, device="eth0", prefix=()):
        super().__init__(ns, gotools.tool("owner"), device, prefix=prefix)


LOADERS = {"ip link": IpLink, "bpftool": Bpftool, "xdp-loader": XdpLoader, "libbpf link": LibbpfLink,
           "libbpf netlink": LibbpfNetlink, "cilium/ebpf": CiliumEbpf}
