# SPDX-License-Identifier: Apache-2.0
"""Network namespaces, and commands and sockets inside them."""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import time

from lib import sandbox

SO_NETNS_COOKIE = 71
_serial = itertools.count(1)


class CommandFailed(AssertionError):
    pass


def run(*argv, check=True, timeout=30, stdin=None, env=None):
    """Runs a command and returns what it printed; a failure is an AssertionError with everything that it said."""
    done = subprocess.run([str(a) for a in argv], input=stdin, capture_output=True, text=True, timeout=timeout, env=env)
    if check and done.returncode != 0:
        raise CommandFailed(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Netns:
    """A named network namespace below /run/netns, which is this process's own."""

    def __init__(self, label):
        self.name = f"{label}-{next(_serial)}"
        self.path = f"/run/netns/{self.name}"
        run("ip", "netns", "add", self.name)
        self.ip("link set lo up")

    @classmethod
    def at(cls, path):
        """One that somebody else made below /run/netns (a container runtime)."""
        ns = cls.__new__(cls)
        ns.name, ns.path = os.path.basename(path), path
        return ns

    def close(self):
        if os.path.exists(self.path):
            run("ip", "netns", "del", self.name)

    def cookie(self):
        """The kernel's number for this namespace, by which state and pins are filed."""
        with self.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8), "little")

    def run(self, *argv, **options):
        return run("nsenter", f"--net={self.path}", "--", *argv, **options)

    def sh(self, line, **options):
        return self.run(*line.split(), **options)

    def ip(self, line, **options):
        return run("ip", "-n", self.name, *line.split(), **options)

    def ip_json(self, line):
        return json.loads(run("ip", "-n", self.name, "-j", "-d", *line.split()) or "[]")

    def ip_batch(self, text):
        run("ip", "-n", self.name, "-batch", "-", stdin="\n".join(line.strip() for line in text.strip().splitlines()))

    def nft(self, text):
        run("nsenter", f"--net={self.path}", "--", "nft", "-f", "-", stdin=text)

    def chain(self, hook, *rules, kind="filter", priority="0", family="inet", table=None):
        """A base chain in a table of its own; returns the table's name for `nft delete table`."""
        table = table or f"t{next(_serial)}"
        lines = "\n".join(rules)
        self.nft(f"table {family} {table} {{\nchain c {{\ntype {kind} hook {hook} priority {priority};\n{lines}\n}}\n}}")
        return f"{family} {table}"

    def sysctl(self, key, value):
        with self.entered(), open("/proc/sys/" + key.replace(".", "/"), "w", encoding="ascii") as file:
            file.write(str(value))

    def read_sysctl(self, key):
        with self.entered(), open("/proc/sys/" + key.replace(".", "/"), encoding="ascii") as file:
            return file.read().strip()

    def link(self, name):
        found = self.ip_json(f"link show dev {name}")
        assert len(found) == 1, f"{name} in {self.name}: {found}"
        return found[0]

    def await_carrier(self, name):
        """The kernel notices a carrier in the background, late where namespaces come and go, and drops until then."""
        deadline = time.monotonic() + 10
        while self.link(name)["operstate"] != "UP":
            assert time.monotonic() < deadline, f"{name} in {self.name} has no carrier"
            time.sleep(0.001)

    def link_names(self):
        return {link["ifname"] for link in self.ip_json("link")}

    def has_link(self, name):
        return name in self.link_names()

    def features(self, device):
        """ethtool's features as {name: on}."""
        lines = (line.split(":") for line in self.run("ethtool", "-k", device).splitlines()[1:])
        return {name.strip(): state.split()[0] == "on" for name, state in lines}

    @contextlib.contextmanager
    def entered(self):
        """The calling thread is inside for the length of the block; sockets opened there stay there."""
        with open("/proc/thread-self/ns/net", "rb") as home, open(self.path, "rb") as there:
            sandbox.setns(there.fileno())
            try:
                yield
            finally:
                sandbox.setns(home.fileno())
