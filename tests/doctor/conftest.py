# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine import Machine, let_through


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def unprivileged(machine: Machine) -> Iterator[None]:
    """Run the test without root's privilege to ignore file modes."""
    if os.geteuid():
        yield
        machine.root.chmod(0o700)
        return
    os.chown(machine.root, 65534, 65534)
    let_through(machine.root)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        machine.root.chmod(0o700)
