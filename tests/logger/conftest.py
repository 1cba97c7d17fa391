# SPDX-License-Identifier: Apache-2.0
"""All tests here run on both event loops: asyncio's own, and the loop that `record` uses."""

from __future__ import annotations

from tests.loops import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
