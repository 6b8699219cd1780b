# SPDX-License-Identifier: Apache-2.0
"""Other people's BPF programs, a few instructions each, loaded and pinned without a compiler."""

import ctypes
import itertools
import os
import struct
import sys

_libc = ctypes.CDLL(None, use_errno=True)
_serial = itertools.count(1)
_SYSCALL_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
_MAP_CREATE, _MAP_LOOKUP, _PROG_LOAD, _OBJ_PIN, _OBJ_GET, _LINK_UPDATE = 0, 1, 5, 6, 7, 29
SCHED_CLS, XDP = 3, 6
_XSKMAP = 17

_EXIT = struct.pack("<BBhi", 0x95, 0, 0, 0)


def _set(register, value):
    return struct.pack("<BBhi", 0xB7, register, 0, value)


def _call(helper):
    return struct.pack("<BBhi", 0x85, 0, 0, helper)


def _bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    result = _libc.syscall(_SYSCALL_BPF, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command})")
    return result


def _load(kind, code, name):
    """Loads a program and pins it; returns the pin's path."""
    instructions, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    fd = _bpf(_PROG_LOAD, struct.pack("<IIQQIIQII16s", kind, len(code) // 8, ctypes.addressof(instructions),
                                      ctypes.addressof(licence), 0, 0, 0, 0, 0, name.encode()))
    path = f"/sys/fs/bpf/{name}-{next(_serial)}"
    _pin(fd, path)
    return path


def _pin(fd, path):
    text = ctypes.create_string_buffer(path.encode())
    _bpf(_OBJ_PIN, struct.pack("<QI", ctypes.addressof(text), fd))
    os.close(fd)


def foreign_xdp():
    """An XDP program of somebody else that passes everything."""
    return _load(XDP, _set(0, 2) + _EXIT, "stranger")


def push_vlan_tag(vlan):
    """A tc program that leaves a VLAN tag in the frame's metadata, as a VLAN device with offload does."""
    return _load(SCHED_CLS, _set(2, 0x0081) + _set(3, vlan) + _call(18) + _set(0, 0) + _EXIT, "push_tag")


def xskmap(path, queues):
    """A pinned XSKMAP, and the pinned program that sends each queue's frames to its entry, or to the stack."""
    _pin(_bpf(_MAP_CREATE, struct.pack("<IIII", _XSKMAP, 4, 4, queues)), path)
    fd = _open(path)
    queue_index = struct.pack("<BBhi", 0x61, 0x12, 16, 0)  # r2 = ctx->rx_queue_index
    the_map = struct.pack("<BBhiBBhi", 0x18, 0x11, 0, fd, 0, 0, 0, 0)
    program = _load(XDP, queue_index + the_map + _set(3, 2) + _call(51) + _EXIT, "to_sockets")
    os.close(fd)
    return program


def _open(path):
    text = ctypes.create_string_buffer(path.encode())
    return _bpf(_OBJ_GET, struct.pack("<QII", ctypes.addressof(text), 0, 0))


def update_link(pin, program):
    """Exchanges the program of a pinned link for another pinned one, as anybody with root's rights may."""
    link, fd = _open(pin), _open(program)
    _bpf(_LINK_UPDATE, struct.pack("<IIII", link, fd, 0, 0))
    os.close(link)
    os.close(fd)


def read_word(path, key):
    """A 64-bit value of a pinned array map, by no other right than to open it."""
    fd = _open(path)
    index, value = ctypes.create_string_buffer(struct.pack("<I", key), 4), ctypes.create_string_buffer(8)
    _bpf(_MAP_LOOKUP, struct.pack("<IIQQQ", fd, 0, ctypes.addressof(index), ctypes.addressof(value), 0))
    os.close(fd)
    return struct.unpack("<Q", value.raw)[0]


if __name__ == "__main__":  # what a test runs with a container's rights: bpf.py MAP KEY
    print(read_word(sys.argv[1], int(sys.argv[2])))
