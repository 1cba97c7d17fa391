# SPDX-License-Identifier: Apache-2.0
"""Fixture that runs all tests here on both event loops: asyncio's, and that of `record`."""

from __future__ import annotations

from tests.loops import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
