# SPDX-License-Identifier: Apache-2.0
"""For the tests of replays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime_emulation.captures import NAMES

from .recordings import of_capture


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The captures as recordings with a session for each of their five plugins."""
    folder = tmp_path_factory.mktemp("captures")
    return {name: of_capture(name, folder / f"{name}.nriscope.db") for name in NAMES}
