# SPDX-License-Identifier: Apache-2.0
"""Containers whose frames go to AF_XDP sockets, and the example programs of xsk/ that take them."""

import os
import re
import select
import subprocess

from lib import bpf, cni
from lib.netns import run

PODS = "/sys/fs/bpf/xveth/pods"
FRAMES = 128  # per queue, of 2 KiB each


def make_afxdp(pod):
    """The container's end as containerXdp "afxdp" makes it."""
    directory = f"{PODS}/{pod.cid}/{pod.ifname}"
    os.makedirs(directory)
    pod.xsks = f"{directory}/xsks"
    program = bpf.xskmap(pod.xsks, 2)
    pod.ns.run("ip", "link", "set", "dev", pod.ifname, "xdpdrv", "pinned", program)
    os.unlink(program)
    return pod


class Program:
    """One of the examples in a container, ready when this returns. What it said is in `out` and `err` after its end."""

    def __init__(self, pod, name, *options, rights=("net_raw",), env=None, ready=True, setup=""):
        self.name, self.out, self.err = name, "", ""
        keep = ",".join(["-all", *(f"+{right}" for right in rights)])
        # Little memory: root's limit of locked memory is one for all processes of the machine that lack CAP_IPC_LOCK.
        options = ["--frames", FRAMES, *options] if "--frames" not in options else options
        argv = ["setpriv", f"--bounding-set={keep}", "--inh-caps=-all", "--", os.path.join(cni.BIN_DIR, name), *map(str, options)]
        if setup:  # commands of a shell in a mount namespace of its own
            argv = ["unshare", "--mount", "--", "sh", "-ec", f"{setup}\nexec \"$@\"", "sh", *argv]
        environment = {**os.environ, "XVETH_XSKS": pod.xsks, **(env or {})}
        self.process = subprocess.Popen([cni.NSENTER, f"--net={pod.ns.path}", "--", *argv], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={k: v for k, v in environment.items() if v is not None})
        if ready:
            readable, _, _ = select.select([self.process.stdout], [], [], 15)
            self.first = self.process.stdout.readline() if readable else ""
            assert self.first.startswith(f"{name}: {pod.ifname}, queues"), (self.first, self.kill())

    def stop(self, signal="TERM"):
        """Ends it; the counts of its last line."""
        run("kill", f"-{signal}", self.process.pid)
        return self.finish()

    def kill(self):
        self.process.kill()
        self.finish()
        return self.out, self.err

    def finish(self):
        self.out, self.err = self.process.communicate(timeout=15)
        lines = [line for line in self.out.splitlines() if line.startswith("frames")]
        return {key: int(value) for key, value in re.findall(r"(\w+) (\d+)", lines[-1])} if lines else None

    def close(self):
        if self.process.poll() is None:
            self.kill()


def refusal(pod, *options, name="xsk-drop", **how):
    """What a program says that cannot begin."""
    program = Program(pod, name, *options, ready=False, **how)
    program.finish()
    assert program.process.returncode == 2, (program.out, program.err)
    return program.err
