# SPDX-License-Identifier: Apache-2.0
"""The CNI binary as a file: it runs where it is copied alone, and costs little. Only the shipped build promises that."""

import json
import os
import shutil
import struct
import subprocess
import sys

import pytest

from lib import cni, image, residue, sandbox
from lib.topology import CLIENT
from lib.traffic import udp_works

pytestmark = pytest.mark.skipif(os.environ.get("XVETH_STATIC") != "ON", reason="this build links dynamically")

PT_INTERP, PT_DYNAMIC, SHT_SYMTAB = 3, 2, 2

# The kernel counts what a process was before exec() to its peak: a bare interpreter starts the plugin, not this one. The
# peak is the largest of the plugin's and its IPAM plugin's.
MEASURE = """
import os, sys
pid = os.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
status, usage = os.wait4(pid, 0)[1:]
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def types_in_table(data, offset, entry_size, count, at):
    return {struct.unpack_from("<I", data, offset + entry_size * i + at)[0] for i in range(count)}


def test_is_static_and_stripped():
    with open(f"{cni.BIN_DIR}/xveth", "rb") as file:
        data = file.read()
    assert data[:6] == b"\x7fELF\x02\x01"
    segments, sections = struct.unpack_from("<QQ", data, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
    assert not types_in_table(data, segments, segment_size, segment_count, 0) & {PT_INTERP, PT_DYNAMIC}
    assert SHT_SYMTAB not in types_in_table(data, sections, section_size, section_count, 4)


def run_through(topology, verb, conf, pod, *prefix, **variables):
    env = cni.environment(verb, CNI_CONTAINERID=pod.cid, CNI_IFNAME=pod.ifname, **{"CNI_NETNS": pod.netns_path, **variables})
    done = subprocess.run([cni.NSENTER, f"--net={topology.node.path}", "--", *prefix], input=json.dumps(conf),
                          capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_peak_memory_of_an_add(topology):
    """The node's first ADD, which loads all programs, and one of those after it."""
    for _ in range(2):
        pod, conf = topology.container(), topology.conf(families=(4, 6), ipMasq=True)
        measured = [sys.executable, "-I", "-S", "-c", MEASURE, f"{cni.BIN_DIR}/xveth"]
        done = run_through(topology, "ADD", conf, pod, *measured)
        assert int(done.stderr.split()[-1]) < 16 * 1024, done.stderr
        run_through(topology, "DEL", conf, pod, f"{cni.BIN_DIR}/xveth")


@pytest.fixture
def empty_root(topology):
    """A root directory with the plugin and, since it must ask one, an IPAM plugin that is a shell script."""
    root = f"{topology.directory}/root"
    os.makedirs(f"{root}/bin")
    os.makedirs(f"{root}/ns")
    for name in ("xveth", "xvethctl"):
        shutil.copy(f"{cni.BIN_DIR}/{name}", root)
    shutil.copy(image.BUSYBOX, f"{root}/bin/sh")
    with open(f"{root}/bin/fixed", "w", encoding="ascii") as file:
        file.write('#!/bin/sh\n[ "$CNI_COMMAND" = ADD ] && echo \'' + json.dumps({
            "cniVersion": "1.0.0", "ips": [{"address": "10.2.0.9/24"}], "routes": [{"dst": "0.0.0.0/0"}]}) + "'\nexit 0\n")
    os.chmod(f"{root}/bin/fixed", 0o700)
    yield root
    with open("/proc/self/mounts", encoding="utf-8") as file:
        inside = [line.split()[1] for line in file if line.split()[1].startswith(root)]
    for target in reversed(inside):
        sandbox.unmount(target)


def test_add_and_del_in_an_empty_root(topology, empty_root):
    pod, conf = topology.container(), topology.conf(ipMasq=True, ipam={"type": "fixed"})
    with open(f"{empty_root}/ns/pod", "w", encoding="ascii"):
        pass
    sandbox.bind(pod.ns.path, f"{empty_root}/ns/pod")
    before = residue.snapshot(topology)
    where = {"CNI_NETNS": "/ns/pod", "CNI_PATH": "/bin", "XVETH_LOG": None}
    done = run_through(topology, "ADD", conf, pod, "chroot", empty_root, "/xveth", **where)
    assert [ip["address"] for ip in json.loads(done.stdout)["ips"]] == ["10.2.0.9/24"]
    assert pod.ns.link("eth0")["xdp"]["prog"]["id"]
    assert "masquerade" in topology.node.run("nft", "list", "ruleset")
    udp_works(topology.client, pod.ns, "10.2.0.9")
    udp_works(pod.ns, topology.client, CLIENT[4])
    stats = topology.node.run("chroot", empty_root, "/xvethctl", "stats", "--json")
    assert json.loads(stats)["conntrack"], "the programs were loaded in their lesser form"
    check = {**conf, "prevResult": json.loads(done.stdout)}
    run_through(topology, "CHECK", check, pod, "chroot", empty_root, "/xveth", **where)
    run_through(topology, "DEL", conf, pod, "chroot", empty_root, "/xveth", **where)
    residue.assert_same(before, topology)
    left = {os.path.relpath(path, empty_root) for path in residue.files_below(f"{empty_root}/run")}
    assert all("/locks/node" in path for path in left), left
