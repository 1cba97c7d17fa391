# SPDX-License-Identifier: Apache-2.0
"""A number means one event in all views of a node, whatever recordings it has."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.agent.event_reader import EventReader
from nri_scope.agent.node_recordings import STATE, NodeRecordings, RecordingNumbers
from nri_scope.agent.selected_parts import EventQuery
from nri_scope.cluster.local_copy import TWIN_NS, LocalCopy
from nri_scope.errors import UsageError
from nri_scope.events import Event
from nri_scope.filter import parse
from nri_scope.recorder.complete_recording import complete_recording
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.node_files import NUMBERS, SUFFIX
from nri_scope.recording.query.lookup import find
from nri_scope.recording.reading.reader import Recording
from tests.agent.drained_reader import drained
from tests.amount import amount
from tests.recording.traffic import NOW, a_start, an_item

SECOND = 10**9
PODS = ("web", "db")
MAX_EVENTS = 60


@dataclass
class Happened:
    """An event on the node: the recorders that saw it, oldest first."""

    pod: str
    at_ns: int
    recorders: tuple[int, ...]


def a_request(pod: str) -> api.StateChangeEvent:
    return api.StateChangeEvent(
        event=api.Event.RUN_POD_SANDBOX,
        pod=api.PodSandbox(id=f"id-{pod}", name=pod, namespace="shop"),
    )


def rolled(folder: Path, seed: int, recorders: int, *, plugins: tuple[str, ...]) -> list[Happened]:
    """Write a recording for each of some recorders; each begins before the one before it ends."""
    chance = random.Random(seed)
    folder.mkdir()
    # Recorder N observes from starts[N] to ends[N].
    starts = [NOW + number * 20 * SECOND for number in range(recorders)]
    ends = [start + chance.randint(21, 30) * SECOND for start in starts]
    times = sorted(chance.sample(range(1, recorders * 20_000), MAX_EVENTS))
    happened = [
        Happened(
            chance.choice(PODS),
            NOW + at * 10**6,
            tuple(
                number
                for number in range(recorders)
                if starts[number] < NOW + at * 10**6 < ends[number]
            ),
        )
        for at in times
    ]
    for number in range(recorders):
        recorder = Recorder.open(folder / f"{chance.randrange(10**6)}-{number}{SUFFIX}")
        plugin = plugins[number % len(plugins)]
        session = recorder.begin_session(a_start(plugin, started_ns=starts[number] - SECOND))
        recorder.capture(session, an_item("Synchronize", wall_ns=starts[number]))
        # Runtimes may call the newer or the older recorder first.
        later = chance.choice((-1, 1)) * number * 1_000
        for one in happened:
            if number in one.recorders:
                item = an_item("StateChange", a_request(one.pod), wall_ns=one.at_ns + later)
                recorder.capture(session, item)
        recorder.end_session(session, "over", ends[number])
        recorder.close()
    return happened


def copied(
    recordings: NodeRecordings, path: Path, where: str, *, context: bool
) -> tuple[list[Event], list[str]]:
    """Return the events of pods in a copy, and whether they have other numbers."""
    said: list[str] = []
    query = EventQuery(where=parse(where) if where else None, context=context)
    with complete_recording(path) as recording:
        copy = LocalCopy(recording, lambda: said.append("renumbered"))
        for response in drained(EventReader(recordings, query, None)):
            copy.add(response)
        copy.flush()
    with Recording.open(path) as recording:
        return [event for event in recording.events() if event.pod], said


@given(st.integers(0, 2**32), st.integers(1, 4), st.booleans())
@settings(deadline=None, max_examples=amount(6, 60))
def test_numbers_of_recorders_that_replace_each_other(
    tmp_path_factory: pytest.TempPathFactory, seed: int, recorders: int, context: bool
) -> None:
    path = tmp_path_factory.mktemp("node")
    folder = path / "recordings"
    happened = rolled(folder, seed, recorders, plugins=("00-nri-scope",))
    recordings = NodeRecordings(folder)
    whole, said = copied(recordings, path / "whole.db", "", context=context)
    assert not said
    # Each event once, in order.
    seen = [one for one in happened if one.recorders]
    assert [(one.pod, one.at_ns) for one in seen] == [
        (event.pod, round(event.at_ns, -6)) for event in whole
    ]
    files = recordings.all()
    for event in whole:
        with Recording.open(files[event.id // NUMBERS].path) as recording:
            original = recording.event(event.id % NUMBERS)
        assert original is not None
        assert (original.at_ns, original.pod) == (event.at_ns, event.pod)
    # An older recording may be gone, and the agent be another one.
    if recorders > 1:
        recordings = NodeRecordings(folder)
    for pod in PODS:
        own, said = copied(recordings, path / f"{pod}.db", f"pod:shop/{pod}", context=context)
        assert not said
        assert [(one.id, one.at_ns) for one in own] == [
            (one.id, one.at_ns) for one in whole if one.pod == pod
        ]


def test_numbers_stay_when_the_oldest_recording_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    rolled(folder, 1, 3, plugins=("00-nri-scope",))
    before, _ = copied(NodeRecordings(folder), tmp_path / "a.db", "", context=True)
    oldest = NodeRecordings(folder).all()[0]
    oldest.path.unlink()
    after, _ = copied(NodeRecordings(folder), tmp_path / "b.db", "", context=True)
    numbers = {one.id: one.at_ns for one in before if one.id >= NUMBERS}
    assert numbers
    assert numbers.items() <= {one.id: one.at_ns for one in after}.items()


def test_events_of_different_plugins_are_all_kept_and_said_to_be_renumbered(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "recordings"
    happened = rolled(folder, 2, 2, plugins=("00-nri-scope", "10-other"))
    events, said = copied(NodeRecordings(folder), tmp_path / "a.db", "", context=False)
    assert len(events) == sum(len(one.recorders) for one in happened) > MAX_EVENTS
    assert said == ["renumbered"]
    times = [event.at_ns for event in events]
    assert times == sorted(times)


def test_events_that_only_the_older_recorder_has_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for number, pods in enumerate((["web", "db"], ["db"])):
        recorder = Recorder.open(folder / f"{number}{SUFFIX}")
        began = NOW + number * SECOND
        session = recorder.begin_session(a_start(started_ns=began))
        recorder.capture(session, an_item("Synchronize", wall_ns=began))
        for pod in pods:
            at_ns = NOW + (2 + 2 * pods.index(pod) * TWIN_NS // SECOND) * SECOND
            if number:
                at_ns = NOW + (2 + 2 * TWIN_NS // SECOND) * SECOND + 5
            recorder.capture(session, an_item("StateChange", a_request(pod), wall_ns=at_ns))
        recorder.end_session(session, "over", NOW + 60 * SECOND)
        recorder.close()
    events, said = copied(NodeRecordings(folder), tmp_path / "a.db", "", context=False)
    assert [event.pod for event in events] == ["web", "db"]
    assert said == ["renumbered"]


def test_numbers_of_recordings_are_kept(tmp_path: Path) -> None:
    path = tmp_path / STATE / "numbers"
    numbers = RecordingNumbers(path)
    assert [numbers.of(name, 5) for name in ("a", "b", "a")] == [0, 1, 0]
    # Another agent of the node, and one that ended while it wrote.
    assert [RecordingNumbers(path).of(name, 5) for name in ("c", "b")] == [2, 1]
    with path.open("a") as file:
        file.write("d")
    assert [RecordingNumbers(path).of(name, 5) for name in ("e", "c", "a")] == [4, 2, 0]
    assert [numbers.of(name, 5) for name in ("e", "a")] == [4, 0]
    assert numbers.of("a", 6) == 5
    # A folder that cannot be written.
    path.unlink()
    path.mkdir()
    assert [numbers.of(name, 6) for name in ("x", "a", "x")] == [6, 5, 6]


def test_the_number_in_a_file_is_refused_with_that_of_the_node(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    rolled(folder, 1, 2, plugins=("00-nri-scope",))
    NodeRecordings(folder).all()[0].path.unlink()
    numbers = RecordingNumbers(folder / STATE / "numbers")
    numbers.of("removed", 1)
    events, _ = copied(NodeRecordings(folder), tmp_path / "a.db", "", context=True)
    number = events[-1].id
    assert number > NUMBERS
    with Recording.open(tmp_path / "a.db") as recording:
        assert find(recording, str(number)) == events[-1]
        with pytest.raises(UsageError, match=f"it is {number}"):
            find(recording, str(number % NUMBERS))
