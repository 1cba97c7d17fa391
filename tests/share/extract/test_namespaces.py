# SPDX-License-Identifier: Apache-2.0
"""A part for some namespaces has everything about their pods, and nothing about others."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.agent.event_reader import EventReader
from nri_scope.agent.node_recordings import NodeRecordings, parse_cursor
from nri_scope.agent.selected_parts import EventQuery
from nri_scope.events import CapturedCall, Event
from nri_scope.filter import Filter, parse
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.tap_tables import printed
from nri_scope.share.extract import NothingSelectedError, Selection, extract
from tests.agent.drained_reader import drained
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.traffic import NOW, a_start, an_item

RED, BLUE = "red", "blue"
PODS = 3
"""Number of pods of each namespace."""
_SYNCHRONIZE, _UNSOLICITED, _CREATE, _UPDATE, _STOP, _CONFIGURE, _NOTE = range(7)
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(range(7)),
        st.sampled_from((RED, BLUE)),
        st.integers(0, PODS - 1),
        st.lists(st.tuples(st.sampled_from((RED, BLUE)), st.integers(0, PODS - 1)), max_size=3),
    ),
    min_size=1,
    max_size=25,
)
_FILTERS = ("", "event:CreateContainer", "-ns:red", "ns:blue OR ns:red", "event:Synchronize")


def a_pod(namespace: str, number: int) -> api.PodSandbox:
    """Return a pod whose texts name its namespace."""
    pod_id = f"{namespace}{number}".ljust(64, "0")
    pod = api.PodSandbox(id=pod_id, name=f"{namespace}-{number}", namespace=namespace)
    pod.labels["of"] = f"label-{namespace}"
    return pod


def a_container(pod: api.PodSandbox) -> api.Container:
    container = api.Container(id=f"c{pod.name}".ljust(64, "0"), pod_sandbox_id=pod.id, name="app")
    container.env.append(f"OF={pod.namespace}")
    return container


def an_update(namespace: str, number: int) -> api.ContainerUpdate:
    container = a_container(a_pod(namespace, number))
    update = api.ContainerUpdate(container_id=container.id)
    update.linux.resources.cpu.shares.value = 7
    return update


def call(
    step: int, namespace: str, number: int, updated: list[tuple[str, int]], *, at: int
) -> CapturedCall:
    pod = a_pod(namespace, number)
    container = a_container(pod)
    updates = [an_update(*each) for each in updated]
    wall_ns = NOW + at * 10**9
    if step == _SYNCHRONIZE:
        pods = [a_pod(*each) for each in ((RED, 0), (BLUE, 0), (BLUE, 1))]
        request = api.SynchronizeRequest(pods=pods, containers=map(a_container, pods))
        answered = api.SynchronizeResponse(update=updates).SerializeToString()
        return an_item("Synchronize", request, answered, wall_ns=wall_ns)
    if step == _CONFIGURE:
        return an_item("Configure", api.ConfigureRequest(config=f"of {namespace}"), wall_ns=wall_ns)
    if step == _UNSOLICITED:
        return an_item(
            "UpdateContainers", api.UpdateContainersRequest(update=updates), wall_ns=wall_ns
        )
    if step == _CREATE:
        reply = api.CreateContainerResponse(update=updates).SerializeToString()
        created = api.CreateContainerRequest(pod=pod, container=container)
        return an_item("CreateContainer", created, reply, wall_ns=wall_ns)
    if step == _UPDATE:
        changed = api.UpdateContainerRequest(pod=pod, container=container)
        answer = api.UpdateContainerResponse(update=updates).SerializeToString()
        return an_item("UpdateContainer", changed, answer, wall_ns=wall_ns)
    return an_item(
        "StopContainer", api.StopContainerRequest(pod=pod, container=container), wall_ns=wall_ns
    )


@settings(max_examples=amount(300, 60), deadline=None)
@given(_STEPS, st.sampled_from(_FILTERS))
def test_a_part_has_all_of_its_namespaces_and_nothing_of_others(
    steps: list[tuple[int, str, int, list[tuple[str, int]]]], where: str
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        whole_path, path = Path(name) / "whole.nriscope.db", Path(name) / "part.db"
        recorder = Recorder.open(whole_path)
        session = recorder.begin_session(a_start())
        for at, step in enumerate(steps):
            if step[0] == _NOTE:
                recorder.note(session, NOW + at * 10**9, f"of {step[1]}")
                recorder.printed(session, NOW + at * 10**9, "stderr", f"of {step[1]}")
            else:
                recorder.capture(session, call(*step, at=at))
        recorder.close()
        condition = parse(where) if where else None
        assert_sends_only_red(Path(name), condition)
        with Recording.open(whole_path) as whole:
            selection = Selection(condition, namespaces=frozenset({RED}))
            expected = {
                event.id
                for event in whole.events(where=condition)
                if event.namespace == RED or event.method == "Synchronize"
            }
            logged = {event.id for event in whole.events(where=selection.own_events)}
            assert logged == {one for one in expected if _of(whole, one).namespace == RED}
            try:
                chosen = set(extract(whole, path, selection, marks=()).events or ())
            except NothingSelectedError:
                assert not expected
                return
            assert chosen == expected
            originals = {event.id: (request, reply) for event, request, reply in whole.exchanges()}
        with Recording.open(path) as part:
            assert_only_red(part, originals)


def assert_sends_only_red(folder: Path, where: Filter | None) -> None:
    """Check what an agent sends, also to a caller who goes on after any of its responses."""
    query = EventQuery(where=where, namespaces=frozenset({RED}))
    cursors = [response.cursor for response in drained(reader(folder, query))]
    queries = [query, replace(query, context=True)]
    queries += [
        replace(query, after=parse_cursor(cursor)) for cursor in {*cursors[:1], *cursors[-1:]}
    ]
    for asked in queries:
        for response in drained(reader(folder, asked)):
            assert response.note is None and response.output is None
            event = response.event
            if event is not None:
                assert event.namespace == RED or (event.method, event.reply) == ("Synchronize", b"")
                assert BLUE.encode() not in event.request


def reader(folder: Path, query: EventQuery) -> EventReader:
    return EventReader(NodeRecordings(folder), query, None)


def _of(recording: Recording, number: int) -> Event:
    event = recording.event(number)
    assert event is not None
    return event


def assert_only_red(part: Recording, originals: dict[int, tuple[bytes, bytes]]) -> None:
    assert {pod.namespace for pod in part.pods()} <= {RED}
    assert not list(printed(part))
    texts = [note.text for note in part.notes()]
    assert not [text for text in texts if text in ("of red", "of blue")]
    for event, request, reply in part.exchanges():
        assert event.namespace == RED or event.method == "Synchronize"
        if event.method == "Synchronize":
            original = api.SynchronizeRequest.FromString(originals[event.id][0])
            got = api.SynchronizeRequest.FromString(request)
            own = [pod for pod in original.pods if pod.namespace == RED]
            assert all(pod in own for pod in got.pods)
            assert all(f"OF={RED}" in container.env for container in got.containers)
            assert (reply, event.changed) == (b"", ())
        else:
            assert (request, reply) == originals[event.id]
    # Names, and raw bytes of rows that no reader shows.
    for table in ("pod", "container", "name", "note"):
        for row in part.rows(f"SELECT * FROM {table}"):
            assert not [cell for cell in row if isinstance(cell, str) and BLUE in cell], table
