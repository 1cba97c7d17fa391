# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tap's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nri_scope.tap.relay_process import Relays


@pytest.fixture
async def relays() -> AsyncIterator[Relays]:
    """Relay process for the event loop of the test."""
    started = Relays()
    await started.start()
    try:
        yield started
    finally:
        started.close()
