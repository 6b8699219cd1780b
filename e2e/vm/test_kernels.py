# SPDX-License-Identifier: Apache-2.0
"""The same node under other kernels: those of Debian, in virtual machines without any help from the processor.

Linux 6.1 lacks the netdev family (whether a device takes redirected frames cannot be asked) and redirects no frame of
several buffers; Debian's kernels have connection tracking as a module, which may be there or not.
"""

import glob
import gzip
import json
import os
import re
import shutil
import subprocess

import pytest

from lib import cni

KERNELS = os.environ.get("XVETH_VM_KERNELS", "")
SERIES = sorted(os.listdir(KERNELS)) if os.path.isdir(KERNELS) else []
TOOLS = ["ip", "ethtool", "ping"]
# In the order in which they need each other.
MODULES = ["libcrc32c", "veth", "nf_defrag_ipv4", "nf_defrag_ipv6", "nf_conntrack", "nfnetlink", "nf_tables", "nft_ct",
           "nf_nat", "nft_chain_nat", "nft_masq"]
BOOT_SECONDS = 240


def libraries_of(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return re.findall(r"(/\S+)", listed)


def install(source, root, target):
    path = root + target
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copy2(os.path.realpath(source), path)


def install_modules(kernel, root):
    os.makedirs(root + "/modules")
    present = []
    for name in MODULES:
        for path in glob.glob(f"{kernel}/**/{name}.ko*", recursive=True):
            target = f"{root}/modules/{name}.ko"
            with open(target, "wb") as out:
                if path.endswith(".xz"):
                    subprocess.run(["xz", "-dc", path], stdout=out, check=True)
                else:
                    out.write(open(path, "rb").read())
            present.append(name)
    with open(root + "/modules/order", "w") as order:
        order.write(" ".join(present))


def build_initramfs(kernel, directory):
    root = f"{directory}/root"
    for folder in ("proc", "sys", "dev", "run", "etc", "var/log", "tmp"):
        os.makedirs(f"{root}/{folder}")
    install(shutil.which("busybox"), root, "/bin/busybox")
    for name in TOOLS:
        program = shutil.which(name)
        install(program, root, f"/tools/{name}")
        for library in libraries_of(program):
            install(library, root, library)
    for name in ("xveth", "xvethctl"):
        install(f"{cni.BIN_DIR}/{name}", root, f"/tools/{name}")
    install(f"{cni.PLUGIN_DIR}/host-local", root, "/tools/host-local")
    install(os.path.join(os.path.dirname(__file__), "guest-init"), root, "/init")
    install_modules(kernel, root)
    names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
    archive = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, capture_output=True,
                             check=True).stdout
    path = f"{directory}/initramfs.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(archive)
    return path


def boot(series, directory, *arguments):
    """Everything that the guest said, by name."""
    kernel = f"{KERNELS}/{series}"
    [image] = glob.glob(f"{kernel}/boot/vmlinuz-*")
    console = subprocess.run(
        ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1024", "-nographic", "-no-reboot",
         "-nic", "none", "-kernel", image, "-initrd", build_initramfs(kernel, directory),
         "-append", " ".join(["console=ttyS0 quiet panic=-1", *arguments])],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=BOOT_SECONDS).stdout
    said = dict(re.findall(r"^@([^:\n]+): ?(.*?)\r*$", console, re.MULTILINE))
    assert "complaints" in said, "the guest did not come to its end:\n" + console[-4000:]
    return said


@pytest.mark.parametrize("conntrack", [True, False], ids=["conntrack", "without conntrack"])
@pytest.mark.parametrize("series", SERIES or ["none"])
def test_node(series, conntrack, tmp_path):
    if series == "none":
        pytest.fail("no kernel in XVETH_VM_KERNELS: e2e/vm/fetch-kernels unpacks some")
    said = boot(series, str(tmp_path), *([] if conntrack else ["without_conntrack"]))
    for verb in ("ADD a", "ADD b", "DEL a", "DEL b"):
        assert said[verb].startswith("0 "), said[verb]
    assert {k: v for k, v in said.items() if k.startswith("echo")} == {
        "echo a 10": "whole", "echo a 5000": "whole", "echo client 5000": "whole"}
    assert said["ping"] == "answered"
    stats = json.loads(said["stats"])
    assert stats["conntrack"] == conntrack
    ports = {port["attachment"] or port["name"]: port for port in stats["ports"]}
    assert ports["vm/b/eth0"]["to_port"]["frames"] > 0 and ports["vm/a/eth0"]["to_port"]["frames"] > 0, ports
    # Without conntrack only flows between containers are fast.
    assert (ports["nic0"]["to_port"]["frames"] > 0) == conntrack, ports["nic0"]
    assert not any(reason.startswith("error_") for port in ports.values() for reason in port["reasons"]), ports
    assert said["links"].split() == ["lo", "nic0"] and said["leases"] == "0" and said["complaints"] == "0"
