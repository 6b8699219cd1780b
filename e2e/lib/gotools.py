# SPDX-License-Identifier: Apache-2.0
"""The Go tools that CTest's fixture builds into XVETH_E2E_GO_DIR."""

import os
import shutil

import pytest

DIRECTORY = os.environ.get("XVETH_E2E_GO_DIR", "")
_GO_PLACES = os.pathsep.join(["/usr/local/go/bin", "/usr/lib/go/bin", os.environ.get("PATH", "")])


def tool(name):
    path = os.path.join(DIRECTORY, name)
    if os.path.isfile(path):
        return path
    if shutil.which("go", path=_GO_PLACES) is None:
        pytest.skip(f"no go toolchain to build {name} with")
    raise AssertionError(f"{path} is missing though there is a go toolchain: build the target e2e_go and set XVETH_E2E_GO_DIR")
