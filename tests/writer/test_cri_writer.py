# SPDX-License-Identifier: Apache-2.0
"""A writer process that queries the CRI about what it writes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from nri_scope._gen.cri.runtime import v1
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.events import CONTAINER_STATUS, KILLED, Role
from nri_scope.recording.reading.event_messages import requested_container_id
from nri_scope.recording.reading.reader import Recording
from nri_scope.writer.messages import CriSource, RecordingOptions
from nri_scope.writer.supervisor import WriterProcess
from tests.cri.fake_runtime import FakeRuntime, listening
from tests.recording.traffic import a_start, an_item
from tests.writer.killed_writer import PATIENCE, kill

INFO = {"pid": 0, "runtimeSpec": {"hostname": "x"}}


class Rig:
    """A writer with a fake CRI."""

    def __init__(self, folder: Path, *, waits: bool = False, where: str | None = None) -> None:
        self.socket, self.path = folder / "cri", folder / "x.nriscope.db"
        self.said: list[str] = []
        self.cri = FakeRuntime()
        self.cri.status_answer = v1.ContainerStatusResponse(
            status=v1.ContainerStatus(id="x"), info={"info": json.dumps(INFO)}
        )
        options = RecordingOptions(
            self.path, existed=False, where=where, cri=CriSource(self.socket, waits)
        )
        self.writer = WriterProcess(options, self.said.append)

    def capture(self, session: int, event: str, container: str) -> None:
        message = api.StateChangeEvent(
            event=api.Event.Value(event), container=api.Container(id=container)
        )
        self.writer.capture(session, an_item("StateChange", message))

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.cri.requests) < count:
                await asyncio.sleep(0.02)

    def answers(self) -> list[tuple[str | None, bytes]]:
        with Recording.open(self.path) as recording:
            return [
                (requested_container_id(recording.request(event.id)), recording.reply(event.id))
                for event in recording.events()
                if event.method == CONTAINER_STATUS
            ]

    def ends(self) -> list[str]:
        with Recording.open(self.path) as recording:
            return [one.end_reason for one in recording.sessions() if one.role == Role.CRI]


async def test_answers_are_recorded_but_not_counted_as_events(tmp_path: Path) -> None:
    rig = Rig(tmp_path, where="event:PostStartContainer")
    async with listening(rig.cri, rig.socket):
        await rig.writer.open()
        session = rig.writer.begin_session(a_start())
        rig.capture(session, "POST_START_CONTAINER", "a")
        rig.capture(session, "POST_CREATE_CONTAINER", "filtered-out")
        await rig.until_asked(1)
        counters = await rig.writer.close()
    assert rig.answers() == [("a", json.dumps(INFO).encode())]
    assert rig.ends() == ["recording stopped"]
    assert (counters.recorded, counters.filtered, counters.lost) == (1, 1, 0)
    assert rig.said == ["the CRI answered 1 time"]


@pytest.mark.exhaustive
async def test_a_container_that_the_runtime_does_not_know_is_an_answer(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.cri.failure = GRPCError(Status.NOT_FOUND, "no such container")
    async with listening(rig.cri, rig.socket):
        await rig.writer.open()
        session = rig.writer.begin_session(a_start())
        rig.capture(session, "POST_UPDATE_CONTAINER", "never-there")
        rig.capture(session, "POST_UPDATE_CONTAINER", "removed")
        rig.capture(session, "REMOVE_CONTAINER", "removed")
        # Each time the calls are repeated, as the runtime may not know the container yet.
        await rig.until_asked(8)
        await asyncio.sleep(0)
        await rig.writer.close()
    assert rig.answers() == [("never-there", b'{"notFound": true}')]


@pytest.mark.exhaustive
async def test_another_writer_goes_on_asking(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    async with listening(rig.cri, rig.socket):
        await rig.writer.open()
        session = rig.writer.begin_session(a_start())
        rig.capture(session, "POST_START_CONTAINER", "a")
        async with asyncio.timeout(PATIENCE):
            while not rig.path.exists() or not rig.answers():
                await asyncio.sleep(0.05)
        await kill(rig.writer)
        rig.capture(session, "POST_START_CONTAINER", "b")
        await rig.until_asked(2)
        await rig.writer.close()
    assert [container for container, _ in rig.answers()] == ["a", "b"]
    first, second = rig.ends()
    assert (first, second) == (KILLED, "recording stopped")


async def test_an_unavailable_cri_delays_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, waits=True)
    await rig.writer.open()
    session = rig.writer.begin_session(a_start())
    rig.capture(session, "POST_START_CONTAINER", "a")
    async with asyncio.timeout(PATIENCE):
        while not rig.said:
            await asyncio.sleep(0.02)
    counters = await rig.writer.close()
    assert (counters.recorded, rig.answers(), rig.ends()) == (1, [], [])
    away, end = rig.said
    assert "no such socket" in away and "until the CRI is available" in away
    assert end == "the CRI answered 0 times, but not about 1 container"


async def test_without_a_cri_no_file_is_made(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with pytest.raises(UsageError, match="no such socket"):
        await rig.writer.open()
    assert not list(tmp_path.iterdir())
