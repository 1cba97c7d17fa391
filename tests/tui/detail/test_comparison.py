# SPDX-License-Identifier: Apache-2.0
"""Differences between the containers of two events."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.escape import columns
from nri_scope.tui.detail.comparison import Differences, compare, page_of
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


def _compared(recording: Recording, a: Event, b: Event) -> Differences:
    return compare(recording, a, b, CancelFlag())


def _lines(found: Differences, width: int = 160) -> list[str]:
    lines, _ = found.lines(width)
    return [text_of(line) for line in lines]


def _pages(found: Differences) -> list[str]:
    return ["\n".join(text_of(line) for line in page_of(row)) for row in found.rows]


def test_two_events_of_one_container_show_its_changes(recording: Recording) -> None:
    a = _event(recording, "CreateContainer", API)
    b = _event(recording, "PostUpdateContainer", API)
    found = _compared(recording, a, b)
    assert [row.path for row in found.rows] == [
        "/linux/resources/memory/limit",
        "/linux/resources/memory/swap",
        "/linux/resources/cpu/shares",
    ]
    lines = _lines(found)
    assert "3 differences" in lines
    assert lines[0].startswith(f"A: #5 CreateContainer {CHECKOUT_API}  2026-12-")
    (row,) = (line for line in lines if "memory.limit" in line)
    assert row.split("  ")[1:] == ["+ memory.limit", "— → 67108864"]


def test_generated_values_of_two_containers_are_not_compared(recording: Recording) -> None:
    a, b = (_event(recording, "CreateContainer", name) for name in (API, PROXY))
    found = _compared(recording, a, b)
    assert "/process/env/FOO" in [row.path for row in found.rows]
    assert not any(a.container_id in line for line in _lines(found))
    # Swapping the events swaps the kinds of change.
    kinds = {row.path: row.what[0] for row in _compared(recording, b, a).rows}
    assert kinds["/process/env/FOO"] == "+"


def test_the_owner_of_a_place_is_not_that_of_the_mount() -> None:
    path = RECORDINGS / "containerd-2.1-normal-life.nriscope.zip"
    with Recording.open(path) as recording:
        a, b = (_event(recording, "CreateContainer", name) for name in (API, PROXY))
        lines = _lines(_compared(recording, a, b))
    (row,) = (line for line in lines if "> mounts[/dev/mqueue]" in line)
    assert re.split(" {2,}", row.strip()) == [
        "> mounts[/dev/mqueue]",
        "4th place → 4th place, after different members",
        "runtime (cri) → Pod spec/CRI",
    ]


def test_equal_containers_have_no_differences(recording: Recording) -> None:
    event = _event(recording, "CreateContainer")
    assert "no differences" in _lines(_compared(recording, event, event))


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
        assert "no differences" in lines


@pytest.mark.parametrize("width", [30, 80, 160])
def test_each_difference_is_a_row_of_the_width(recording: Recording, width: int) -> None:
    a, b = (_event(recording, "CreateContainer", name) for name in (API, PROXY))
    found = _compared(recording, a, b)
    lines, first = found.lines(width)
    texts = [text_of(line) for line in lines]
    assert all(columns(one) <= width for one in texts)
    rows = texts[first : first + len(found.rows)]
    assert texts[first - 1] == texts[first + len(rows)] == ""
    assert [row.strip()[0] for row in rows] == [row.what[0] for row in found.rows]


def test_the_page_of_a_difference_has_whole_values_and_both_histories(
    recording: Recording,
) -> None:
    a, b = (_event(recording, "CreateContainer", name) for name in (API, PROXY))
    found = _compared(recording, a, b)
    page = dict(zip((row.what for row in found.rows), _pages(found), strict=True))["- env DB_HOST"]
    assert 'A: "ledger-db.acme.internal"  Pod spec/CRI' in page and "B: —" in page
    of_a, _, of_b = page.partition("B: blame")
    assert "A: blame" in of_a and API in of_a and PROXY in of_b


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
                compared = _compared(found, a, b)
                lines, _ = compared.lines(width)
                assert_harmless("\n".join(text_of(shown(line)) for line in lines))
                for row in compared.rows:
                    page = page_of(row)
                    assert_harmless("\n".join(text_of(shown(line)) for line in page))
