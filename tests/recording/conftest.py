# SPDX-License-Identifier: Apache-2.0
"""Temporary folders in memory where possible, as no test here depends on a disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recording.traffic import MEMORY


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-scope-", dir=MEMORY) as folder:
        yield Path(folder)
