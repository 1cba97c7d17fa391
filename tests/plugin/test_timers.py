# SPDX-License-Identifier: Apache-2.0
"""Timers of a session with a runtime that is not a replay: they follow the event loop's clock."""

from __future__ import annotations

import asyncio
import math

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import ConnectionClosed, UsageError
from nri_scope.nri.events import Event
from nri_scope.plugin import Container, PodSandbox, RuntimeHandle, Update, time_left
from nri_scope.runtime import Plugin
from tests.runtime_emulation.runtime import Runtime

from .attached import NEW, attached

START = api.StartContainerRequest(container=api.Container(id="c1"))


class Delaying:
    """Calls back soon, and much later, after the start of a container."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[object] = asyncio.Queue()
        self.runtime: RuntimeHandle

    def configure(self, config: str, runtime: RuntimeHandle) -> None:
        self.runtime = runtime

    def start_container(self, pod: PodSandbox, container: Container) -> None:
        self.soon = self.runtime.call_later(0, self.later, "soon", container_id=container.id)
        self.late = self.runtime.call_later(3600, self.later, "late", container_id=container.id)

    async def later(self, name: str, container_id: str) -> None:
        # It is not part of the handler, so it has no deadline, and may wait for its update.
        assert time_left() is None
        failed = await self.runtime.update_containers([Update(container_id).set_cpu(shares=5)])
        self.calls.put_nowait((name, container_id, failed))


class Failing(Delaying):
    async def later(self, name: str, container_id: str) -> None:
        self.calls.put_nowait(name)
        raise LookupError(name)


async def test_callback_is_called_once_and_may_update_containers() -> None:
    updates: list[api.UpdateContainersRequest] = []

    def update(
        plugin: Plugin, request: api.UpdateContainersRequest
    ) -> api.UpdateContainersResponse:
        updates.append(request)
        return api.UpdateContainersResponse()

    plugin = Delaying()
    async with Runtime(NEW, on_update=update) as runtime, attached(runtime, plugin):
        await runtime.dispatch(Event.StartContainer, START)
        assert await plugin.calls.get() == ("soon", "c1", [])
        plugin.soon.cancel()
        plugin.late.cancel()
    assert [one.update[0].linux.resources.cpu.shares.value for one in updates] == [5]
    assert plugin.calls.empty()


async def test_exception_in_a_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    plugin = Failing()
    async with Runtime(NEW) as runtime, attached(runtime, plugin):
        await runtime.dispatch(Event.StartContainer, START)
        assert await plugin.calls.get() == "soon"
        await asyncio.sleep(0)
    assert "call_later: LookupError: soon" in caplog.text


async def test_timers_end_with_the_session() -> None:
    plugin = Delaying()
    async with Runtime(NEW) as runtime, attached(runtime, plugin) as (connected, serving):
        handle = plugin.runtime
        pending = handle.call_later(3600, plugin.calls.put_nowait, "never")
        connected.drop("enough")
        await asyncio.wait({serving})
        assert pending._scheduled is not None and pending._scheduled.cancelled()
        pending.cancel()
        with pytest.raises(ConnectionClosed, match="the session has ended"):
            handle.call_later(0, print)


@pytest.mark.parametrize("delay", [math.nan, math.inf])
async def test_delay_that_is_no_number_is_rejected(delay: float) -> None:
    plugin = Delaying()
    async with Runtime(NEW) as runtime, attached(runtime, plugin):
        with pytest.raises(UsageError, match=f"call_later: {delay} is not a number of seconds"):
            plugin.runtime.call_later(delay, print)
