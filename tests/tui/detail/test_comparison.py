# SPDX-License-Identifier: Apache-2.0
"""Differences between the containers of two events."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event
from nri_scope.recording.reader import Recording
from nri_scope.text.escape import columns
from nri_scope.tui.detail.comparison import ContainerComparison, compare
from nri_scope.tui.store.reader_thread import CancelFlag
from nri_scope.tui.text.styled_line import shown, text_of
from tests.replay.recordings import POD, RECORDING, container
from tests.replay.recordings import recording as make
from tests.sample_names import API, CHECKOUT_API, PROXY
from tests.tui.hostile import assert_harmless, hostile_recording

RECORDINGS = Path(__file__).parents[3] / "recordings"


@pytest.fixture(scope="module")
def recording() -> Iterator[Recording]:
    with Recording.open(RECORDING) as found:
        yield found


def _event(recording: Recording, name: str, container_name: str = "") -> Event:
    return next(
        event
        for event in recording.events()
        if event.event == name and container_name in ("", event.container)
    )


def _compared(recording: Recording, a: Event, b: Event) -> ContainerComparison:
    return compare(recording, a, b, CancelFlag())


def _lines(found: ContainerComparison, width: int = 120) -> list[str]:
    return [text_of(line) for line in found.lines(width)]


def test_two_events_of_one_container_show_its_changes(recording: Recording) -> None:
    a = _event(recording, "CreateContainer", API)
    b = _event(recording, "PostUpdateContainer", API)
    found = _compared(recording, a, b)
    assert [change.path for change in found.changes] == [
        "/linux/resources/memory/limit",
        "/linux/resources/memory/swap",
        "/linux/resources/cpu/shares",
    ]
    lines = _lines(found)
    assert "3 differences" in lines
    assert lines[0].startswith(f"A  #5 CreateContainer {CHECKOUT_API}  2026-12-")


def test_generated_values_of_two_containers_are_not_compared(recording: Recording) -> None:
    a, b = (_event(recording, "CreateContainer", name) for name in (API, PROXY))
    found = _compared(recording, a, b)
    assert "/process/env/FOO" in [change.path for change in found.changes]
    assert not any(a.container_id in line for line in _lines(found))
    # Swapping the events swaps the kinds of change.
    kinds = {change.path: change.kind for change in _compared(recording, b, a).changes}
    assert kinds["/process/env/FOO"] == "added"


def test_the_owner_of_a_place_is_not_that_of_the_mount() -> None:
    path = RECORDINGS / "containerd-2.1-normal-life.nriscope.zip"
    with Recording.open(path) as recording:
        a, b = (_event(recording, "CreateContainer", name) for name in (API, PROXY))
        lines = _lines(_compared(recording, a, b))
    at = lines.index("> mounts[/dev/mqueue]  runtime (cri) → Pod spec/CRI")
    assert lines[at + 1].split("│")[0].strip() == "4th place"
    assert lines[at + 1].split("│")[1].strip() == "4th place, after different members"


def test_equal_containers_have_no_differences(recording: Recording) -> None:
    event = _event(recording, "CreateContainer")
    assert "No differences." in _lines(_compared(recording, event, event))


def test_an_event_without_a_container_cannot_be_compared(recording: Recording) -> None:
    a, b = _event(recording, "RunPodSandbox"), _event(recording, "CreateContainer")
    lines = _lines(_compared(recording, a, b))
    assert "   no event contains the container's spec" in lines
    assert "There is nothing to compare." in lines


def test_event_with_only_an_id_uses_the_container_of_an_earlier_event(tmp_path: Path) -> None:
    app = container(args=["serve"])
    events = [
        ("CreateContainer", api.CreateContainerRequest(pod=POD, container=app)),
        ("StopContainer", api.StopContainerRequest(pod=POD, container=api.Container(id=app.id))),
    ]
    with Recording.open(make(tmp_path / "r.nriscope.db", events)) as found:
        a, b = _event(found, "CreateContainer"), _event(found, "StopContainer")
        lines = _lines(_compared(found, a, b))
        assert f"   container as of event {a.id}" in lines
        assert "No differences." in lines


@pytest.mark.parametrize("width", [30, 80, 99, 100, 160])
def test_values_are_side_by_side_from_100_columns(recording: Recording, width: int) -> None:
    a, b = (_event(recording, "CreateContainer", name) for name in (API, PROXY))
    lines = _lines(_compared(recording, a, b), width)
    values = [line for line in lines if line.startswith("  ")]
    assert any(" │ " in one for one in values) == (width >= 100)
    assert all(columns(one) <= width for one in values)


def test_cancelled_comparison_stops(recording: Recording) -> None:
    stop = CancelFlag()
    stop.set()
    event = _event(recording, "CreateContainer")
    with pytest.raises(CancelledError):
        compare(recording, event, event, stop)


@pytest.mark.exhaustive
def test_hostile_recording_is_escaped(tmp_path: Path) -> None:
    with Recording.open(hostile_recording(tmp_path / "r.nriscope.db")) as found:
        events = [event for event in found.events() if event.event == "CreateContainer"]
        for a, b in pairwise(events[:10]):
            for width in (60, 120):
                lines = _compared(found, a, b).lines(width)
                assert_harmless("\n".join(text_of(shown(line)) for line in lines))
