# SPDX-License-Identifier: Apache-2.0
"""Effects: updates that an event requests of containers other than its own."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Container
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.query.container_events import effects_on
from nri_scope.recording.reading.reader import Recording
from tests.recording.traffic import NOW, a_container, a_pod, a_start, an_item, lifecycles, record

OLD = Path(__file__).parent.parent / "data" / "recordings" / "version-1.nriscope.db"
POD = a_pod()
ONE, OTHER, THIRD = (a_container(POD, name) for name in ("one", "other", "third"))


def _update(*containers: api.Container) -> list[api.ContainerUpdate]:
    resources = api.LinuxResources(cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=2)))
    return [
        api.ContainerUpdate(
            container_id=container.id, linux=api.LinuxContainerUpdate(resources=resources)
        )
        for container in containers
    ]


def _container(recording: Recording, container_id: str) -> Container:
    return next(container for container in recording.containers() if container.id == container_id)


def _effects(path: Path, container: api.Container) -> list[int] | None:
    with Recording.open(path) as recording:
        return effects_on(recording, _container(recording, container.id))


@pytest.mark.parametrize(
    ("method", "request_", "reply"),
    [
        (
            "CreateContainer",
            api.CreateContainerRequest(pod=POD, container=ONE),
            api.CreateContainerResponse(update=_update(OTHER, THIRD)),
        ),
        (
            "UpdateContainer",
            api.UpdateContainerRequest(pod=POD, container=ONE),
            api.UpdateContainerResponse(update=_update(ONE, OTHER, THIRD)),
        ),
        (
            "StopContainer",
            api.StopContainerRequest(pod=POD, container=ONE),
            api.StopContainerResponse(update=_update(OTHER, THIRD)),
        ),
        ("Synchronize", api.SynchronizeRequest(), api.SynchronizeResponse(update=_update(OTHER))),
        ("UpdateContainers", api.UpdateContainersRequest(update=_update(OTHER)), None),
        (
            "ValidateContainerAdjustment",
            api.ValidateContainerAdjustmentRequest(
                pod=POD, container=ONE, update=_update(ONE, OTHER)
            ),
            None,
        ),
    ],
)
def test_an_update_of_another_container_records_an_effect(
    tmp_path: Path, method: str, request_: Message, reply: Message | None
) -> None:
    path = tmp_path / "a.nriscope.db"
    creation = an_item("CreateContainer", api.CreateContainerRequest(pod=POD, container=OTHER))
    about = an_item("CreateContainer", api.CreateContainerRequest(pod=POD, container=ONE))
    answer = b"" if reply is None else reply.SerializeToString()
    record(path, [creation, about, an_item(method, request_, answer)])
    assert _effects(path, OTHER) == [3]
    assert _effects(path, ONE) == []


def test_a_passive_recording_has_no_effects(tmp_path: Path) -> None:
    path = tmp_path / "a.nriscope.db"
    record(path, lifecycles(3))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM effect").fetchone() == (0,)


def test_a_filtered_event_has_no_effects(tmp_path: Path) -> None:
    path = tmp_path / "a.nriscope.db"
    reply = api.CreateContainerResponse(update=_update(OTHER)).SerializeToString()
    create = api.CreateContainerRequest(pod=POD, container=ONE)
    record(path, [an_item("CreateContainer", create, reply)], keep=lambda event: False)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM effect").fetchone() == (0,)


def test_the_ring_removes_effects_with_their_events(tmp_path: Path) -> None:
    path = tmp_path / "a.nriscope.db"
    recorder = Recorder.open(path, limits=WriterLimits(max_size=1 << 20))
    session = recorder.begin_session(a_start())
    for number in range(600):
        pod = a_pod(number)
        one, other = a_container(pod, "one"), a_container(pod, "other")
        reply = api.CreateContainerResponse(update=_update(other)).SerializeToString()
        request = api.CreateContainerRequest(pod=pod, container=one)
        recorder.capture(session, an_item("CreateContainer", request, reply, wall_ns=NOW + number))
    assert recorder.close().removed
    with closing(sqlite3.connect(path)) as connection:
        left = connection.execute("SELECT count(*) FROM effect").fetchone()
        assert left == connection.execute("SELECT count(*) FROM event").fetchone()
        assert (
            connection.execute(
                "SELECT count(*) FROM effect JOIN event ON event.id = effect.event "
                "JOIN container ON container.key = effect.container"
            ).fetchone()
            == left
        )
        # Two containers for each remaining event.
        (containers,) = connection.execute("SELECT count(*) FROM container").fetchone()
        assert containers == 2 * left[0]


def test_an_older_file_without_the_table_has_no_effects() -> None:
    with Recording.open(OLD) as recording:
        assert effects_on(recording, recording.containers()[0]) == []


def test_an_older_file_is_continued_with_effects(tmp_path: Path) -> None:
    path = tmp_path / "old.nriscope.db"
    shutil.copy(OLD, path)
    reply = api.CreateContainerResponse(update=_update(OTHER)).SerializeToString()
    create = api.CreateContainerRequest(pod=POD, container=ONE)
    record(path, [an_item("CreateContainer", create, reply)])
    with Recording.open(path) as recording:
        newest = max(event.id for event in recording.events())
        assert effects_on(recording, _container(recording, OTHER.id)) == [newest]
        assert effects_on(recording, recording.containers()[0]) == []
