# SPDX-License-Identifier: Apache-2.0
"""Fixture that runs the tests of this folder on asyncio's event loop and on that of `record`."""

from __future__ import annotations

from tests.loops import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
