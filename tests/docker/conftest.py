# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.testbed.packages import TestbedError

from .engine import Engine, running
from .programs import programs


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """A real Docker Engine with NRI."""
    try:
        found = programs(build=False)
    except TestbedError as error:
        pytest.skip(str(error))
    with running(found) as engine:
        yield engine
