# SPDX-License-Identifier: Apache-2.0
"""nri-scope's plugin with the passive logger under the Go runtime."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nri_scope._gen.nri.api_pb2 import SynchronizeRequest
from nri_scope.capture.sink import Sink
from nri_scope.events import CapturedCall, SessionStart
from nri_scope.logger.logger import Logger
from nri_scope.plugin import Identity, PluginSession, SessionEnd, unix_socket
from nri_scope.wire import Code, RequestReceived
from tests.amount import amount
from tests.interop.build import Variant
from tests.interop.reference import SIZES, STATE, ReferenceRuntime, Request, read_requests

LIFECYCLES = amount(1000, 100)
IDENTITY = Identity(index="10", name="nri-scope")


class Memory(Sink):
    """Sink that stores everything in memory."""

    def __init__(self) -> None:
        self.starts: list[SessionStart] = []
        self.captured: list[CapturedCall] = []
        self.notes: list[str] = []

    def begin_session(self, start: SessionStart) -> int:
        self.starts.append(start)
        return len(self.starts)

    def capture(self, session: int, item: CapturedCall) -> None:
        self.captured.append(item)

    def end_session(self, session: int, reason: str, at_ns: int) -> None: ...

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None: ...

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        self.notes.append(text)

    def requests(self) -> list[tuple[str, bytes]]:
        return [(item.method, item.request) for item in self.captured]


class Late(Logger):
    """Logger that replies too late to the first event of a method."""

    method = ""
    delay = 0.0

    def answer(self, request: RequestReceived) -> bytes:
        if request.method == self.method:
            self.method = ""
            time.sleep(self.delay)
        return super().answer(request)


@asynccontextmanager
async def connected(socket: Path, logger: Logger) -> AsyncIterator[asyncio.Task[SessionEnd]]:
    session = PluginSession(IDENTITY, logger)
    task = asyncio.create_task(session.run(unix_socket(socket)))
    try:
        yield task
    finally:
        session.close("the test is over")
        await task


def delivered(requests: list[Request]) -> list[tuple[str, bytes]]:
    """Requests that reached the plugin: Go does not send a Synchronize that is too long."""
    return [(item.method, item.request) for item in requests if not item.error]


async def test_many_lifecycles_arrive_as_they_were_sent(
    variant: Variant, folder: Path, socket: Path
) -> None:
    memory = Memory()
    async with await ReferenceRuntime.listen(socket, variant, sent=folder / "sent") as runtime:
        async with connected(socket, Logger(memory, IDENTITY)) as session:
            await runtime.admit()
            played = await runtime.play(LIFECYCLES, env=10, mounts=4, pod_updates=True)
            await runtime.stop()
            end = await session

    assert played.events == played.requests == LIFECYCLES * (13 if variant.dedicated else 11)
    assert (played.failures, played.errors) == (0, ())
    assert memory.requests() == delivered(read_requests(folder / "sent"))
    assert memory.notes == []
    assert end == SessionEnd("closed by the runtime", configured=True, synchronized=True)


async def test_messages_of_any_length_arrive_as_they_were_sent(
    variant: Variant, folder: Path, socket: Path
) -> None:
    memory = Memory()
    async with await ReferenceRuntime.listen(socket, variant, sent=folder / "sent") as runtime:
        async with connected(socket, Logger(memory, IDENTITY)):
            await runtime.admit()
            # The last three have data, without the ttRPC header, around the size of Go's buffers.
            played = await runtime.play(sizes=(*SIZES, 4105, 4106, 4107))
            await runtime.stop()

    assert (played.requests, played.failures) == (9 * 11, 0)
    assert memory.requests() == delivered(read_requests(folder / "sent"))


async def test_a_split_state_arrives_whole(variant: Variant, folder: Path, socket: Path) -> None:
    memory = Memory()
    async with await ReferenceRuntime.listen(
        socket, variant, sent=folder / "sent", state=STATE
    ) as runtime:
        async with connected(socket, Logger(memory, IDENTITY)):
            await runtime.admit()
            played = await runtime.play(1)
            await runtime.stop()

    assert played.failures == 0
    assert memory.requests() == delivered(read_requests(folder / "sent"))
    parts = [
        SynchronizeRequest.FromString(item.request)
        for item in memory.captured
        if item.method == "Synchronize"
    ]
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert len(parts) > 1
    assert len({pod.id for part in parts for pod in part.pods}) == STATE
    assert len({container.id for part in parts for container in part.containers}) == STATE


async def test_a_late_reply_ends_the_session_but_not_the_container(
    variant: Variant, folder: Path, socket: Path
) -> None:
    memory = Memory()
    logger = Late(memory, IDENTITY)
    logger.method, logger.delay = "UpdateContainer", 1.5
    async with await ReferenceRuntime.listen(
        socket, variant, sent=folder / "sent", request_timeout=1.0
    ) as runtime:
        async with connected(socket, logger) as session:
            await runtime.admit()
            played = await runtime.play(2)
            end = await session
            await runtime.stop()

    # The runtime disconnects the plugin and continues without it.
    assert played.errors == ()
    assert (played.events, played.requests, played.failures) == (22, 6, 1)
    last = read_requests(folder / "sent")[-1]
    assert last.method == "UpdateContainer" and "deadline exceeded" in last.error
    # The plugin records the event as late; for it, the connection is merely closed.
    assert (memory.captured[-1].method, memory.captured[-1].request) == (last.method, last.request)
    assert memory.captured[-1].status_code == Code.DEADLINE_EXCEEDED
    assert memory.captured[-1].timeout_ns == last.timeout_ns
    assert end.synchronized


async def test_the_session_has_the_runtimes_data(variant: Variant, socket: Path) -> None:
    memory = Memory()
    runtime = await ReferenceRuntime.listen(
        socket, variant, name="containerd", version="v2.1.4", request_timeout=1.5
    )
    async with runtime, connected(socket, Logger(memory, IDENTITY)):
        await runtime.admit()
        await runtime.stop()

    (start,) = memory.starts
    assert (start.runtime_name, start.runtime_version) == ("containerd", "v2.1.4")
    assert (start.registration_timeout_ms, start.request_timeout_ms) == (5000, 1500)
    if variant.dedicated:
        # This runtime sends its NRI version, so it is not inferred.
        assert (start.nri_version, start.nri_version_inferred, start.mask) == (
            "0.12.5", False, 0x1FFF,
        )  # fmt: skip
    else:
        assert (start.nri_version, start.nri_version_inferred, start.mask) == ("0.8.0", True, 0x7FF)
