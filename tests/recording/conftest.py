# SPDX-License-Identifier: Apache-2.0
"""Recordings of tests are in memory where that can be had: none of this is about a disk's speed."""

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
