# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the differ's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.in_memory import tmp_path as tmp_path
from tests.replay.recordings import of_capture
from tests.runtime_emulation.captures import NAMES


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return recordings of the captures: three probes, and two plugins with their replies."""
    folder = tmp_path_factory.mktemp("captures")
    return {name: of_capture(name, folder / f"{name}.nriscope.db") for name in NAMES}
