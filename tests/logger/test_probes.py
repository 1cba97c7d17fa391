# SPDX-License-Identifier: Apache-2.0
"""Several passive connections at once, against an emulated runtime over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import ConnectError, NriScopeError, UsageError
from nri_scope.events import Role
from nri_scope.logger.logger import SessionReport
from nri_scope.logger.probe_recorder import ProbeListener, Probes, check_indices
from nri_scope.nri.events import EventKind
from nri_scope.plugin import SessionEnd
from nri_scope.runtime import Profile
from tests.logger.list_sink import ListSink
from tests.logger.probe_options import probe_options
from tests.plugin.runtime_end import RuntimeEnd
from tests.runtime_emulation.profiles import NEW, OLD
from tests.runtime_emulation.runtime import Runtime

START = api.StartContainerRequest(
    pod=api.PodSandbox(id="pod"), container=api.Container(id="c", pod_sandbox_id="pod")
)


class ListListener(ProbeListener):
    """Stores what probes report."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.ends: list[str] = []
        self.waiting: list[str] = []

    def began(self, report: SessionReport) -> None:
        self.reports.append(report.start.plugin_index)

    def ended(self, index: str, end: SessionEnd) -> None:
        self.ends.append(index)

    def waits(self, index: str, error: NriScopeError) -> None:
        self.waiting.append(index)


class Running:
    """Probes that run as a task."""

    def __init__(self, folder: Path, *indices: str, **options: Any) -> None:
        self.sink = ListSink()
        self.listener = ListListener()
        self.probes = Probes(
            self.sink, probe_options(folder / "s", *indices, **options), self.listener
        )
        self.task = asyncio.create_task(self.probes.run())

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                assert not self.task.done()
                await asyncio.sleep(0.001)

    async def stop(self) -> None:
        self.probes.stop("enough")
        async with asyncio.timeout(20):
            await self.task


def plugin_ids(runtime: Runtime) -> list[str]:
    return sorted(plugin.id for plugin in runtime.plugins)


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    async with Runtime(NEW) as runtime:
        await runtime.listen(tmp_path / "s")
        yield runtime


@pytest.mark.parametrize("profile", [OLD, NEW])
async def test_every_probe_sees_every_event_in_order(profile: Profile, tmp_path: Path) -> None:
    async with Runtime(profile) as runtime:
        await runtime.listen(tmp_path / "s")
        running = Running(tmp_path, "99", "00", "50")
        await runtime.wait_plugins(3)
        assert plugin_ids(runtime) == ["00-nri-scope", "50-nri-scope", "99-nri-scope"]
        answers = await runtime.dispatch(EventKind.StartContainer, START)
        assert [answer.error for answer in answers] == [None] * 3
        await running.stop()
    sink = running.sink
    assert {start.role for start in sink.sessions} == {Role.PROBE}
    of_session = {n: start.plugin_index for n, start in enumerate(sink.sessions, 1)}
    indices = [of_session[session] for session, item in sink.captured][-3:]
    assert indices == ["00", "50", "99"]
    assert sorted(reason for _, reason in sink.ends) == ["enough"] * 3


async def test_a_lost_connection_is_reopened_and_recorded_as_a_gap_of_its_session(
    runtime: Runtime, tmp_path: Path
) -> None:
    running = Running(tmp_path, "00", "99")
    await runtime.wait_plugins(2)
    lost = next(plugin for plugin in runtime.plugins if plugin.index == "99")
    lost.link.abort()
    await running.until(lambda: running.listener.reports.count("99") == 2)
    await runtime.wait_plugins(2)
    await running.stop()
    assert running.listener.ends == ["99"]
    ((session, reason, unknown),) = running.sink.gaps
    assert session is not None
    assert running.sink.sessions[session - 1].plugin_index == "99"
    assert "not connected" in reason
    assert unknown is None


async def test_once_ends_when_no_probe_is_connected(tmp_path: Path) -> None:
    async with Runtime(NEW) as runtime:
        await runtime.listen(tmp_path / "s")
        running = Running(tmp_path, "00", "99", once=True)
        await runtime.wait_plugins(2)
        runtime.plugins[0].link.abort()
        await running.until(lambda: len(running.listener.reports) == 3)
        await runtime.wait_plugins(2)
    async with asyncio.timeout(20):
        await running.task


async def test_all_probes_reconnect_after_a_restart_of_the_runtime(tmp_path: Path) -> None:
    async with Runtime(NEW) as runtime:
        await runtime.listen(tmp_path / "s")
        running = Running(tmp_path, "00", "99")
        await runtime.wait_plugins(2)
    await running.until(lambda: len(running.listener.ends) == 2)
    async with Runtime(OLD) as runtime:
        await runtime.listen(tmp_path / "s")
        await runtime.wait_plugins(2)
        await running.stop()
    assert len(running.sink.sessions) == 4


async def test_only_the_first_probe_validates(runtime: Runtime, tmp_path: Path) -> None:
    running = Running(tmp_path, "10", "50", "99", validate=True)
    await runtime.wait_plugins(3)
    bit = EventKind.ValidateContainerAdjustment.bit
    assert [plugin.index for plugin in runtime.plugins if plugin.mask & bit] == ["10"]
    assert running.probes.validator == "10"
    await running.stop()


async def test_a_refusal_at_the_start_names_the_index(tmp_path: Path) -> None:
    end = RuntimeEnd()
    await end.listen(tmp_path / "s")
    end.refuse = (3, "invalid")
    running = Running(tmp_path, "00", "99")
    with pytest.raises(UsageError, match=r"refused .* at index (00|99): invalid"):
        await running.task
    await end.close()


async def test_a_missing_runtime_is_an_error_or_waited_for(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="nri-scope doctor"):
        await Running(tmp_path, "00", "99").task
    running = Running(tmp_path, "00", "99", wait=True)
    await running.until(lambda: sorted(running.listener.waiting) == ["00", "99"])
    async with Runtime(NEW) as runtime:
        await runtime.listen(tmp_path / "s")
        await runtime.wait_plugins(2)
        await running.stop()


async def test_probes_stopped_immediately_begin_no_session(tmp_path: Path) -> None:
    running = Running(tmp_path, "00", "99", wait=True)
    await running.stop()
    assert running.sink.sessions == []


@pytest.mark.parametrize(
    ("indices", "problem"),
    [
        ((), "no probe"),
        (("50",), "only one probe, at 50"),
        (("00", "99", "00"), "index 00 is listed twice"),
        (("00", "5"), "'5' is not a plugin index; write 05"),
        (("00", "100"), "'100' is not a plugin index"),
    ],
)
def test_invalid_probe_indices_are_rejected(indices: tuple[str, ...], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_indices(indices)
