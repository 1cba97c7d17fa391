# SPDX-License-Identifier: Apache-2.0
"""Operations are the differ's rounds, with those events that no plugin can change."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.differ.operations import Operation
from nri_scope.differ.recording_differ import rounds
from nri_scope.events import SET_UP, Event
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.store.event_grouping import Grouper
from tests.amount import amount
from tests.differ.node import Node
from tests.recording.made import an_event
from tests.replay.recordings import of_capture
from tests.runtime_emulation.captures import NAMES

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.nriscope.*"))

CHAINS = (
    *("demo", "conflict", "normal-life", "slow-plugin", "containerd-2.4", "cri-o", "isulad"),
    "docker-29.2-replies",
)
"""Recordings of several connections at the same time."""


def groups(recording: Recording) -> dict[int, list[int]]:
    """Return the events of each operation by its first event; check those of start-ups."""
    first: dict[int, int] = {}
    set_ups: set[int] = set()
    for step in Grouper().steps(recording):
        first.update(zip(step.rest, step.firsts, strict=True))
        set_ups.update(step.set_ups)
    found: dict[int, list[Event]] = {}
    for event in recording.events():
        found.setdefault(first.get(event.id, event.id), []).append(event)
    for number in set_ups:
        events = found.pop(number)
        assert [event.id for event in events] == [number + at for at in range(len(events))]
        assert len(events) > 1
        assert {event.session for event in events} == {events[0].session}
        assert {event.method for event in events} <= SET_UP
        found |= {event.id: [event] for event in events}
    return {number: [event.id for event in events] for number, events in found.items()}


def check(path: Path) -> int:
    """Compare the groups with the differ's rounds; return the number of groups of several."""
    with Recording.open(path) as recording:
        found = groups(recording)
        in_rounds: set[int] = set()
        for one in rounds(recording):
            assert found.get(min(one.events)) == sorted(one.events), one
            in_rounds.update(one.events)
        several = [each for each in found.values() if len(each) > 1]
        assert in_rounds.issuperset(event for each in several for event in each)
        return len(several)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_operations_of_real_recordings_equal_the_rounds_of_diff(path: Path) -> None:
    assert bool(check(path)) == any(each in path.name for each in CHAINS)


def test_a_summary_has_each_request_of_its_events_once() -> None:
    one = an_event(
        1,
        changed=("/a", "/a"),
        owners=("10-a", "20-b"),
        outcomes=("seen", "dropped"),
        targets=("", ""),
    )
    other = an_event(
        2,
        changed=("/a", "/b"),
        owners=("10-a", "30-c"),
        outcomes=("seen", "seen"),
        targets=("", ""),
    )
    found = Operation.of([one, other], {}).summary()
    assert found.changed == ("/a", "/b", "/a")
    assert found.owners == ("10-a", "30-c", "20-b")
    assert found.outcomes == ("seen", "seen", "dropped")
    unknown = Operation.of(
        [an_event(each, changed=("/a", "/b"), owners=("10-a",)) for each in (1, 2)], {}
    ).summary()
    assert (unknown.changed, unknown.owners, unknown.outcomes) == (("/a", "/b"), ("10-a",), ())


@pytest.mark.parametrize("name", NAMES)
def test_operations_of_captures_equal_the_rounds_of_diff(name: str, tmp_path: Path) -> None:
    assert check(of_capture(name, tmp_path / "r.nriscope.db"))


@pytest.mark.parametrize("seed", range(amount(24, 6)))
def test_operations_of_generated_recordings_equal_the_rounds_of_diff(
    seed: int, tmp_path: Path
) -> None:
    node = Node(seed, tmp_path / "r.nriscope.db")
    node.play()
    check(node.path)


def test_an_operation_has_the_result_of_all_its_events() -> None:
    path = next(one for one in RECORDINGS if one.name.startswith("containerd-2.4"))
    with Recording.open(path) as recording:
        sessions = {session.id: session for session in recording.sessions()}
        numbers = groups(recording)[17]
        events = list(recording.events(among=numbers))
    operation = Operation.of(events, sessions)
    shown = operation.summary()
    assert {event.event for event in events} == {"CreateContainer", "ValidateContainerAdjustment"}
    assert (shown.event, shown.id, shown.timeout_ns) == ("CreateContainer", 17, 0)
    last = max(events, key=lambda event: event.mono_ns + event.took_ns)
    assert shown.took_ns == last.mono_ns + last.took_ns - events[0].mono_ns
    assert set(shown.changed) == {path for event in events for path in event.changed} != set()
    assert set(shown.owners) == {owner for event in events for owner in event.owners} != set()
    assert operation.slowest is not None
    assert operation.slowest.ns == max(span.ns for span in operation.spans)
    assert operation.record()["events"] == numbers


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_no_reply_is_slower_than_the_slowest_time(path: Path) -> None:
    with Recording.open(path) as recording:
        sessions = {session.id: session for session in recording.sessions()}
        for numbers in groups(recording).values():
            operation = Operation.of(recording.events(among=numbers), sessions)
            if len(numbers) > 1:
                assert operation.slowest is not None
                longest = max(event.took_ns for event in operation.events)
                assert longest <= operation.slowest.ns <= operation.took_ns
