# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recording.traffic import MEMORY


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A temporary folder, in memory if possible: these tests do not depend on the disk."""
    with tempfile.TemporaryDirectory(prefix="nri-scope-", dir=MEMORY) as folder:
        yield Path(folder)
