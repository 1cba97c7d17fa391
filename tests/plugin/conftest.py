# SPDX-License-Identifier: Apache-2.0
"""Everything here runs on both event loops: asyncio's own, and the one `record` uses."""

from __future__ import annotations

from tests.loops import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
