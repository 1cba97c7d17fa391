# SPDX-License-Identifier: Apache-2.0
"""A real containerd whose NRI cannot split a Synchronize over 4 MiB."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nri_scope.doctor.check import Check, Health
from nri_scope.doctor.host import Host
from nri_scope.doctor.sockets import check_registration, connect, register
from nri_scope.nri.versions import SPLIT_ADVICE
from nri_scope.recording.reading.reader import Recording
from tests.cli.tap_process import PATIENCE, plugin_file, tapping
from tests.interop.build import Unavailable, Variant, build
from tests.runtime.conftest import binaries_of
from tests.runtime.testbed.containerd import Containerd, running
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.record import recording

pytestmark = pytest.mark.runtime


@pytest.fixture
async def old() -> AsyncIterator[Containerd]:
    """containerd 1.7.24, with NRI 0.6.1."""
    async with running(binaries_of("1.7")) as containerd:
        yield containerd


async def checks_of(containerd: Containerd) -> dict[str, Check]:
    listener = connect(Host(), str(containerd.nri_socket))
    assert listener.descriptor is not None
    return {one.name: one for one in check_registration(await register(listener.descriptor))}


async def test_a_state_over_the_limit_is_forecast_then_named(
    old: Containerd, tmp_path: Path
) -> None:
    driver = Driver(old)
    found: list[Check] = []
    for number in range(5):
        await driver.run_pod("shop", f"big{number}", {"big": "x" * 1_050_000})
        checks = await checks_of(old)
        found.append(checks.get("synchronize", checks["registration"]))
    statuses = [one.status for one in found]
    assert statuses == [
        Health.OK,
        Health.WARN,
        Health.WARN,
        Health.FAIL,
        Health.FAIL,
    ], found
    assert all((one.fix == SPLIT_ADVICE) == (one.status is not Health.OK) for one in found)
    file = tmp_path / "record.nriscope.db"
    async with recording(file, old, connected=False) as record:
        await record.said(SPLIT_ADVICE)
        await record.said("protocol error of the runtime: Synchronize of 5")


ANY_SIZE = """
from nri_scope.wire import connection, ttrpc
connection.Limits = lambda: ttrpc.Limits(frame_payload=1 << 31, message_data=1 << 31)
"""
"""Statements with which a Python plugin accepts messages of any size."""


@pytest.mark.parametrize("accepts", [True, False])
async def test_a_tap_goes_on_recording_after_a_synchronize_over_the_limit(
    old: Containerd, tmp_path: Path, accepts: bool
) -> None:
    """Later events come if the plugin accepts a message of this size, as those in Go do not."""
    plugin = tmp_path / "20-mine"
    if accepts:
        plugin_file(plugin, start=ANY_SIZE)
    else:
        plugin.symlink_to(go_plugin())
    driver = Driver(old)
    pods = [
        await driver.run_pod("shop", f"big{number}", {"big": "x" * 1_100_000})
        for number in range(4)
    ]
    file = tmp_path / "tap.nriscope.db"
    async with tapping("--socket", old.nri_socket, "-o", file, "--", plugin) as tap:
        await tap.wait_for_text("it was relayed, but not recorded")
        if accepts:
            async with asyncio.timeout(PATIENCE):
                while not old.connections("20-mine"):
                    await asyncio.sleep(0.01)
        await driver.run(pods[-1], "app")
        await tap.interrupt()
    with Recording.open(file) as recorded:
        (gap,) = (gap for gap in recorded.gaps() if gap.session is not None)
        events = [event.event for event in recorded.events()]
    assert gap.reason.startswith("the runtime sent Synchronize of 4")
    assert (gap.lost, gap.from_ns) == (1, gap.to_ns)
    assert events[:2] == ["RegisterPlugin", "Configure"]
    assert events[2:] == (["PostStartContainer"] if accepts else [])


def go_plugin() -> Path:
    try:
        return build(Variant.NRI_0_8).plugin
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
