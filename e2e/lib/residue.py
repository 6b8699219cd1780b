# SPDX-License-Identifier: Apache-2.0
"""What a node has: compared before and after, nothing of an attachment may be left.

The node's shared objects stay by design: maps, programs, the NIC's link, the node's own lock and records, the managed
neighbours of the NIC's gateways, forwarding. They exist once a node, whatever the number of attachments, so a test takes
its first snapshot after a first ADD and DEL (Topology-wide `warm_up`), or ignores them by name as here.
"""

import os
import re
import time

from lib import cni
from lib.netns import run

# maps/…, programs/…, links/nic-<ifindex> and the tracepoint's link of the node, never a hash of one attachment
_SHARED_PIN = re.compile(r"/(maps/\w+|programs/\w+|links/nic-\d+|trace)$")
_SHARED_STATE = re.compile(r"/run/xveth/\d+/(locks/node(-[\w-]+)?|[a-z_-]+(\.json)?)$")
_IPAM_OWN = re.compile(r"/(lock|last_reserved_ip\.\d+)$")


def files_below(directory):
    return {os.path.join(base, name) for base, _, names in os.walk(directory) for name in names}


def _routes(node):
    lines = set()
    for family in ("-4", "-6"):
        out = run("ip", family, "-n", node.name, "route", "show", "table", "all")
        # The NIC's link-local and multicast routes appear whenever its carrier does.
        lines |= {line.strip() for line in out.splitlines() if "dev nic0" not in line}
    return lines


def _neighbours(node):
    lines = set()
    for family in ("-4", "-6"):
        out = run("ip", family, "-n", node.name, "neigh", "show", "nud", "all")
        lines |= {line.split(" lladdr")[0].strip() for line in out.splitlines() if " dev nic0" not in line and " dev lo" not in line}
    return lines


def _processes(node):
    """Programs of the plugin directories that run in the node's namespace."""
    inode = os.stat(node.path).st_ino
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            exe = os.readlink(f"/proc/{pid}/exe")
            if os.stat(f"/proc/{pid}/ns/net").st_ino == inode and os.path.dirname(exe) in (cni.BIN_DIR, cni.PLUGIN_DIR):
                found.add(f"{exe} (pid {pid})")
        except OSError:
            continue
    return found


def _nsfs_mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return {line.split()[4] for line in file if " - nsfs " in line and "/run/netns/" not in line}


def snapshot(topology):
    node = topology.node
    return {
        "links": node.link_names(),
        "routes": _routes(node),
        "neighbours": _neighbours(node),
        "rules of nftables": set(re.sub(r"counter packets \d+ bytes \d+|# handle \d+", "", node.run("nft", "list", "ruleset")).splitlines()),
        "ip rules": set(run("ip", "-n", node.name, "rule", "show").splitlines()),
        "pins": {p for p in files_below("/sys/fs/bpf") if not _SHARED_PIN.search(p)},
        "leases": {p for p in files_below(f"{topology.directory}/ipam") if not _IPAM_OWN.search(p)},
        "state files": {p for p in files_below("/run/xveth") if not _SHARED_STATE.search(p)},
        "processes": _processes(node),
        "namespace mounts": _nsfs_mounts(),
    }


def difference(before, after):
    """What is in one and not in the other, as lines; empty when equal."""
    lines = []
    for kind, had in before.items():
        lines += [f"left behind, {kind}: {item}" for item in sorted(after[kind] - had)]
        lines += [f"lost, {kind}: {item}" for item in sorted(had - after[kind])]
    return lines


def settled_difference(before, topology, patience=2.0):
    """The kernel takes a namespace's devices away, and ends the children of a killed process, a moment later."""
    deadline = time.monotonic() + patience
    while True:
        lines = difference(before, snapshot(topology))
        if not lines or time.monotonic() > deadline:
            return lines
        time.sleep(0.05)


def assert_same(before, topology):
    lines = settled_difference(before, topology)
    assert not lines, "\n".join(lines)
