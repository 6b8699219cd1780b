# SPDX-License-Identifier: Apache-2.0
"""Which capabilities a loader needs in a free container: the set works, and with one less it does not.

The table of docs/guide/xdp-programs.md says the same.
"""

import os
import subprocess

import pytest

from lib import cni
from lib.netns import CommandFailed, run
from lib.owner import LOADERS, _Process, object_path, program_on
from lib.traffic import udp_works

MINIMUM = ("net_admin", "bpf", "perfmon")
INSTEAD = {name: ("sys_admin",) if kind.__name__ in ("LibbpfLink", "CiliumEbpf") else ("net_admin", "sys_admin")
           for name, kind in LOADERS.items()}
COMMANDS = {"ip link": [["ip", "link", "set", "dev", "eth0", "xdpdrv", "obj", "OBJECT", "sec", "xdp"]],
            "bpftool": [["bpftool", "prog", "load", "OBJECT", "/sys/fs/bpf/rights", "type", "xdp"],
                        ["bpftool", "net", "attach", "xdpdrv", "pinned", "/sys/fs/bpf/rights", "dev", "eth0"]],
            "xdp-loader": [["xdp-loader", "load", "-m", "native", "eth0", "OBJECT"]]}


@pytest.fixture(scope="module")
def unprivileged_bpf():
    """1 and 2 refuse programs of whoever lacks CAP_BPF; Debian's is 2."""
    with open("/proc/sys/kernel/unprivileged_bpf_disabled", encoding="ascii") as file:
        return int(file.read())


@pytest.fixture
def pod(topology):
    return topology.attach(topology.network(containerXdp="free"))


def only(capabilities):
    """Root with these capabilities and no others, as a container runtime would start it."""
    sets = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    return ["setpriv", "--bounding-set", sets, "--inh-caps", sets, "--"]


def attaches(pod, loader, capabilities):
    """Whether the loader, so confined, had its program on eth0; takes it off again."""
    if issubclass(LOADERS[loader], _Process):
        return _process_attaches(pod, loader, capabilities)
    try:
        for words in COMMANDS[loader]:
            pod.ns.run(*only(capabilities), *(object_path("plain") if word == "OBJECT" else word for word in words))
        return program_on(pod.ns) is not None
    except CommandFailed:
        return False
    finally:
        if os.path.exists("/sys/fs/bpf/rights"):
            os.unlink("/sys/fs/bpf/rights")
        run("ip", "-n", pod.ns.name, "link", "set", "dev", "eth0", "xdpdrv", "off")


def _process_attaches(pod, loader, capabilities):
    owned = LOADERS[loader](pod.ns, prefix=only(capabilities))
    try:
        owned.attach("plain")
        assert program_on(pod.ns) is not None
        owned.detach()
        return True
    except CommandFailed:
        return False
    finally:
        owned.close()


@pytest.mark.parametrize("loader", LOADERS)
def test_minimum_works_and_one_less_does_not(pod, loader, unprivileged_bpf):
    assert unprivileged_bpf in (1, 2)
    assert attaches(pod, loader, MINIMUM)
    for missing in MINIMUM:
        assert not attaches(pod, loader, [name for name in MINIMUM if name != missing]), f"without {missing}"


@pytest.mark.parametrize("loader", LOADERS)
def test_sys_admin_instead(pod, loader):
    """The old way, before Linux 5.8 split it up. A link asks for nothing when it is made: the load has asked."""
    assert attaches(pod, loader, INSTEAD[loader])
    for missing in INSTEAD[loader]:
        assert not attaches(pod, loader, [name for name in INSTEAD[loader] if name != missing]), f"without {missing}"


# -- the example, whose program is simple enough for the verifier's stricter rules: it needs no CAP_PERFMON

EXAMPLE = ("net_admin", "bpf")

def start_example(pod, capabilities):
    return subprocess.Popen([cni.NSENTER, f"--net={pod.netns_path}", "--", *only(capabilities), os.path.join(cni.BIN_DIR, "xdp-counter")],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_example_counts_with_the_minimum_and_detaches_when_told_to_end(topology, pod):
    example = start_example(pod, EXAMPLE)
    assert example.stdout.readline().startswith("ipv4 "), example.stderr.read()
    assert program_on(pod.ns)["name"] == "count"
    udp_works(topology.client, pod.ns, pod.address(), count=20)
    example.terminate()
    out, err = example.communicate(timeout=10)
    assert example.returncode == 0, err
    assert int(out.splitlines()[-1].split()[1]) >= 20, out
    assert program_on(pod.ns) is None
    pod.runtime.check(pod).ok()


@pytest.mark.parametrize("missing", EXAMPLE)
def test_example_with_one_less_says_what_failed(pod, missing):
    example = start_example(pod, [name for name in EXAMPLE if name != missing])
    _, err = example.communicate(timeout=10)
    assert example.returncode == 1 and "xdp-counter: load the program for eth0" in err
