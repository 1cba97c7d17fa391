# SPDX-License-Identifier: Apache-2.0
"""Fixtures of tests of the terminal interface."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


@pytest.fixture
def fixed_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the same time zone and colours everywhere. All times are those of the recordings."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
