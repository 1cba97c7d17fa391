# SPDX-License-Identifier: Apache-2.0
"""Copies of recordings are limited in size, so that a pod is not evicted for them."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent.call_limits import COPIES_ALWAYS
from nri_scope.agent.event_reader import EventReader
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.recorder_status import RecorderStatus
from nri_scope.agent.selected_parts import EventQuery
from nri_scope.agent.service import AgentService
from nri_scope.recording.file.temporary_files import temporary_bytes, temporary_folder
from tests.demo_recording import DEMO_EVENTS

DEMO = Path(__file__).parents[2] / "recordings/demo.nriscope.db"


@pytest.fixture
def recordings(tmp_path: Path) -> NodeRecordings:
    shutil.copy(DEMO, tmp_path)
    return NodeRecordings(tmp_path)


def read_events(recordings: NodeRecordings) -> int:
    reader = EventReader(recordings, EventQuery(), None)
    try:
        responses, _ = reader.batch()
    finally:
        reader.close()
    return sum(response.event is not None for response in responses)


async def read_bundle(recordings: NodeRecordings) -> int:
    service = AgentService(recordings, None, RecorderStatus(recordings, "", None))
    call = service.get_recording(v1.GetRecordingRequest())
    return sum([len(response.data) async for response in call])


def test_a_call_fails_while_copies_of_others_are_too_large(recordings: NodeRecordings) -> None:
    with temporary_folder() as folder:
        with (folder / "copy").open("wb") as file:
            file.truncate(COPIES_ALWAYS + 1)
        assert temporary_bytes() > COPIES_ALWAYS
        with pytest.raises(GRPCError) as events:
            read_events(recordings)
        with pytest.raises(GRPCError) as bundle:
            asyncio.run(read_bundle(recordings))
    assert {events.value.status, bundle.value.status} == {Status.RESOURCE_EXHAUSTED}
    # Nothing is left of the failed calls.
    assert temporary_bytes() == 0
    assert read_events(recordings) == DEMO_EVENTS
    assert asyncio.run(read_bundle(recordings)) > 1000


def test_bundles_are_read_outside_the_event_loop(
    recordings: NodeRecordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_thread = threading.get_ident()
    calls: list[tuple[str, int]] = []

    def note_thread(name: str) -> None:
        original = getattr(Path, name)

        def noted(path: Path, *args: Any, **options: Any) -> Any:
            if path.suffix == ".zip":
                calls.append((name, threading.get_ident()))
            return original(path, *args, **options)

        monkeypatch.setattr(Path, name, noted)

    note_thread("open")
    note_thread("unlink")
    assert asyncio.run(read_bundle(recordings)) > 1000
    assert {"open", "unlink"} <= {name for name, _ in calls}
    assert loop_thread not in {thread for _, thread in calls}


def test_copies_may_have_twice_the_size_of_the_recordings(
    tmp_path: Path, recordings: NodeRecordings
) -> None:
    with temporary_folder() as folder, (folder / "copy").open("wb") as file:
        file.truncate(COPIES_ALWAYS + 1)
        with (tmp_path / "large.nriscope.db").open("wb") as large:
            large.truncate(COPIES_ALWAYS)
        assert read_events(recordings) == DEMO_EVENTS
