# SPDX-License-Identifier: Apache-2.0
"""Every test of this folder runs in a sandbox of mounts and namespaces (lib/sandbox.py), against the binaries in
XVETH_BIN_DIR. XVETH_E2E_SCALE (1 = the full number of rounds) shrinks the loops of the slowest tests."""

import os

import pytest

from lib import cni, residue, sandbox
from lib.topology import Topology


def pytest_configure():
    if not os.path.isfile(os.path.join(cni.BIN_DIR, "xveth")):
        raise pytest.UsageError("XVETH_BIN_DIR must name the folder of the built binaries xveth and xvethctl")
    cni.BIN_DIR = os.path.realpath(cni.BIN_DIR)
    sandbox.enter()
    os.environ["XVETH_LOG"] = "/run/e2e/xveth.log"


@pytest.fixture
def topology():
    """A fresh world."""
    world = Topology()
    yield world
    world.close()


@pytest.fixture
def clean_topology(topology):
    """A fresh world that must look at the end as it did before the first ADD."""
    before = residue.snapshot(topology)
    yield topology
    residue.assert_same(before, topology)


@pytest.fixture
def scale():
    """Turns the full number of rounds of a loop into this run's."""
    factor = float(os.environ.get("XVETH_E2E_SCALE", "0.1"))
    return lambda rounds: max(1, round(rounds * factor))
