# SPDX-License-Identifier: Apache-2.0
"""Temporary folders in memory where possible: files of SQLite wait for a disk, a third of the time.

Not for rooms whose tests run programs from there: such a file system is often mounted without.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
"""Parent in memory of tests' temporary folders; None is the default folder."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-scope-", dir=MEMORY) as folder:
        yield Path(folder)
