# SPDX-License-Identifier: Apache-2.0
"""The operator of a node: installs object files for containers' programs, and looks at the maps of the running ones."""

import json
import os
import shutil

from lib.netns import run
from lib.owner import object_path

DIRECTORY = "/etc/xveth/programs"
PODS = "/sys/fs/bpf/xveth/pods"


def path_of(name):
    return f"{DIRECTORY}/{name}"


def install(built, name=None, mode=0o644):
    """Puts a built object where containers' programs come from, as `name`; a running copy is not disturbed."""
    os.makedirs(DIRECTORY, mode=0o755, exist_ok=True)
    path = path_of(name or os.path.basename(built if os.path.isabs(built) else f"{built}.o"))
    shutil.copyfile(built if os.path.isabs(built) else object_path(built), path + ".new")
    os.chmod(path + ".new", mode)
    os.rename(path + ".new", path)
    return os.path.basename(path)


def asks(name, program):
    """The network's keys for this program."""
    return {"containerXdp": "program", "containerProgram": {"object": name, "program": program}}


def maps_of(pod, owner=None):
    """The directory of an attachment's maps, as the guide names it."""
    return f"{PODS}/{(owner or pod.cid).replace('.', '%')}/{pod.ifname.replace('.', '%')}"


def read_words(path, prefix=()):
    """The 64-bit words of an array map, summed over the CPUs where it has a value for each."""
    words = []
    for entry in json.loads(run(*prefix, "bpftool", "-j", "map", "dump", "pinned", path)):
        values = [cpu["value"] for cpu in entry["values"]] if "values" in entry else [entry["value"]]
        words.append(sum(int.from_bytes(bytes(int(byte, 16) for byte in value), "little") for value in values))
    return words
