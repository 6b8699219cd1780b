# SPDX-License-Identifier: Apache-2.0
"""Moves the test process into mount and network namespaces of its own, before the first test.

/run is a fresh tmpfs, /var and /etc are overlays with their changes in that tmpfs, /sys/fs/bpf is a fresh bpffs: whatever
tests and binaries write there vanishes with the process, and two copies of the tests never meet.
"""

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_BIND = 0x1000
MNT_DETACH = 2
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)
_entered = False


def _check(result, what):
    if result != 0:
        err = ctypes.get_errno()
        raise OSError(err, f"{what}: {os.strerror(err)}")


def mount(source, target, kind, flags=0, options=""):
    _check(_libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()), f"mount {target}")


def bind(source, target):
    mount(source, target, "", MS_BIND)


def unmount(target):
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def _overlay(target):
    base = "/run/e2e/overlay" + target
    for part in ("upper", "work"):
        os.makedirs(f"{base}/{part}")
    mount("overlay", target, "overlay", 0, f"lowerdir={target},upperdir={base}/upper,workdir={base}/work")


def enter():
    global _entered
    if _entered:
        return
    if os.geteuid() != 0:
        raise SystemExit("the e2e tests need root: they make network namespaces")
    _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWNET), "unshare")
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", "/run", "tmpfs", 0, "mode=755")
    os.makedirs("/run/netns")
    os.makedirs("/run/lock")
    for target in ("/var", "/etc"):
        _overlay(target)
    mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=700")
    # Orphans of killed plugins become our children, so that their end can be seen.
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _entered = True


def setns(fd):
    """Puts the calling thread into the network namespace behind `fd`."""
    _check(_libc.setns(fd, CLONE_NEWNET), "setns")
