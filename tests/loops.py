# SPDX-License-Identifier: Apache-2.0
"""The event loops that our code has to run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from nri_scope.transport.loop import loop_factory


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """For a room's conftest: asyncio's own loop, and uvloop's where it is installed."""
    return {"asyncio": asyncio.new_event_loop, "ours": loop_factory()}
