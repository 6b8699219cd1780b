# SPDX-License-Identifier: Apache-2.0
"""A container image without a registry: Debian's static busybox, as a root file system and as a docker archive."""

import hashlib
import io
import json
import os
import tarfile

BUSYBOX = "/bin/busybox"
APPLETS = ("sh", "sleep", "nc", "ip", "ping", "cat", "echo", "true")


def _root_layer(binaries, links):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for directory in ("bin", "tmp", "proc", "sys", "dev", "etc", "run"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for target, source in binaries.items():
            tar.add(source, arcname=target, recursive=False, filter=_executable)
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return buffer.getvalue()


def _executable(entry):
    entry.mode, entry.uid, entry.gid = 0o755, 0, 0
    return entry


def busybox_layer():
    return _root_layer({"bin/busybox": BUSYBOX}, {f"bin/{name}": "busybox" for name in APPLETS})


def write_archive(path, name, command):
    """A docker archive of one layer, which podman and containerd both import."""
    layer = busybox_layer()
    config = json.dumps({
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine], "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, data in (("layer.tar", layer), ("config.json", config), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
