# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.kubernetes.programs import newest_containerd
from tests.runtime.testbed import mount_namespace
from tests.runtime.testbed.containerd import Containerd, running
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.packages import (
    BEST_EFFORT,
    SUITES,
    Binaries,
    SeriesUnavailable,
    TestbedError,
    check_machine,
    containerd_binaries,
)


@pytest.fixture(scope="session", params=list(SUITES), ids=lambda series: f"containerd-{series}")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """Each containerd series; an unavailable one fails unless it is best effort."""
    return binaries_of(str(request.param))


def binaries_of(series: str) -> Binaries:
    """Return the binaries of a series, for processes in a private mount namespace."""
    try:
        check_machine()
    except TestbedError as error:
        pytest.exit(str(error), returncode=1)
    mount_namespace.enter()
    try:
        return containerd_binaries(series)
    except SeriesUnavailable as error:
        reason = str(error)
    if series in BEST_EFFORT:
        pytest.skip(reason)
    pytest.fail(reason, pytrace=False)


@pytest.fixture
async def containerd(binaries: Binaries) -> AsyncIterator[Containerd]:
    async with running(binaries) as containerd:
        yield containerd


@pytest.fixture
async def validating() -> AsyncIterator[Containerd]:
    """The newest containerd, whose NRI has validators; skips where it cannot be built."""
    try:
        check_machine()
        newest = newest_containerd()
    except TestbedError as error:
        pytest.skip(str(error))
    mount_namespace.enter()
    async with running(newest) as containerd:
        yield containerd


@pytest.fixture
def driver(containerd: Containerd) -> Driver:
    return Driver(containerd)
