# SPDX-License-Identifier: Apache-2.0
"""Perfetto output, parsed with Perfetto's own definitions and its rules for slices."""

from __future__ import annotations

from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (  # type: ignore[import-untyped]
    Trace,
)

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.recording.query import lifetimes
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.formats import perfetto_packets
from nri_scope.share.formats.perfetto import MAX_LANES
from nri_scope.share.formats.perfetto_packets import PacketKind, Packets
from tests.recording.traffic import NOW, a_container, a_pod, an_item, lifecycles, record
from tests.share.formats.perfetto_viewer import DrawnTrace, drawn_from
from tests.share.formats.recordings import BEGIN, END, SAMPLES, SECOND, exported, hostile, varied


@pytest.fixture
def drawn(tmp_path: Path) -> DrawnTrace:
    return drawn_from(exported(varied(tmp_path / "r.db"), "perfetto"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_drawn(sample: Path) -> None:
    drawn = drawn_from(exported(sample, "perfetto"))
    requests = [found for found in drawn.slices if found.track.endswith("/requests")]
    with Recording.open(sample) as recording:
        assert len(requests) == len(list(recording.events()))
    # A real runtime sends a plugin one request at a time; the plugin's own call may overlap.
    calls = [found for found in requests if found.name == "RegisterPlugin"]
    assert bool(calls) == any(track.endswith(")") for track in drawn.tracks.values())


def test_states_are_slices_of_their_duration(drawn: DrawnTrace) -> None:
    states = [
        (found.name, found.from_ns - BEGIN, None if found.to_ns is None else found.to_ns - BEGIN)
        for found in drawn.on("shop/web-1/app-0")
    ]
    tick = 20_000_000
    assert states == [
        ("created", tick, 3 * tick),
        ("running", 3 * tick, 7 * tick),
        ("stopped", 7 * tick, 8 * tick),
    ]
    assert [found.name for found in drawn.on("shop/web-1/pod")] == ["running", "stopped"]


def test_events_are_below_their_container_and_connected(drawn: DrawnTrace) -> None:
    events = drawn.on("shop/web-1/app-0/events")
    assert [found.arguments["event"] for found in events] == [*range(3, 19), 24]
    assert len({flow for found in events for flow in found.flows}) == 1
    assert all(found.flows for found in events)
    failed = events[7]
    assert (failed.name, failed.category) == ("PostStartContainer", "timeout")
    assert failed.arguments["plugin"] == "90-second"
    assert failed.arguments["status_message"] == "too late"
    assert failed.arguments["deadline_ms"] == 1999
    assert failed.to_ns == failed.from_ns + 33_000
    assert len(drawn.on("shop/web-1/pod/events")) == 6


def test_connections_contain_their_requests(drawn: DrawnTrace) -> None:
    (first,) = drawn.on("plugin connections/10-first, session 1")
    assert (first.name, first.from_ns, first.to_ns) == ("connected", NOW, END + SECOND)
    assert first.arguments["end_reason"] == "shut down"
    (second,) = drawn.on("plugin connections/90-second, session 2")
    assert second.to_ns is None
    requests = drawn.on("plugin connections/10-first, session 1/requests")
    assert [found.arguments["event"] for found in requests] == [*range(1, 24, 2)]
    assert requests[1].arguments["subject"] == "shop/web-1/app-0"


def test_gaps_and_notes_are_drawn(drawn: DrawnTrace) -> None:
    of_second, of_all = drawn.on("not observed/gaps")
    assert of_second.arguments == {"reason": "the queue was full", "lost": 7, "plugin": "90-second"}
    assert (of_second.from_ns, of_second.to_ns) == (BEGIN + SECOND // 20, BEGIN + SECOND // 10)
    assert of_all.arguments == {"reason": "nothing ran"}
    (again,) = drawn.on("plugin connections/90-second, session 2/not observed")
    assert again.arguments == of_second.arguments
    (note,) = drawn.instants
    assert (note.track, note.name) == ("notes", "look here")


def test_overlapping_events_have_a_bounded_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    pod = a_pod()
    request = api.CreateContainerRequest(pod=pod, container=a_container(pod))
    items = [
        an_item("CreateContainer", request, wall_ns=NOW + number)._replace(took_ns=SECOND)
        for number in range(MAX_LANES + 2)
    ]
    record(path, items)
    drawn = drawn_from(exported(path, "perfetto"))
    rows = [track for track in drawn.tracks.values() if "/app/events" in track]
    assert len(rows) == MAX_LANES
    assert len([found for found in drawn.slices if "/app/events" in found.track]) == MAX_LANES
    assert len([found for found in drawn.instants if "/app/events" in found.track]) == 2


def test_states_end_even_if_the_clock_is_set_back(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    items = lifecycles(1)
    record(
        path, [*items[:5], *(item._replace(wall_ns=item.wall_ns - SECOND) for item in items[5:])]
    )
    drawn = drawn_from(exported(path, "perfetto"))
    assert [found.name for found in drawn.on("shop/web-0/app-0")] == [
        "created",
        "running",
        "stopped",
    ]
    assert all(found.to_ns is not None for found in drawn.on("shop/web-0/app-0"))


def test_late_events_continue_the_tracks_of_removed_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.db"
    items = lifecycles(3)
    # Events of the first container and its pod, after both were removed.
    late = [
        item._replace(wall_ns=END + number * SECOND)
        for number, item in enumerate([items[5], items[0], items[5]], 9)
    ]
    record(path, [*items, *late])
    usual = drawn_from(exported(path, "perfetto"))
    monkeypatch.setattr(lifetimes, "SETTLE_EVENTS", 3)
    drawn = drawn_from(exported(path, "perfetto"))
    assert drawn.on("shop/web-1/app-0/events") == usual.on("shop/web-1/app-0/events")
    of_first = [
        found for found in drawn.slices if found.track.startswith("shop/web-0/app-0/events")
    ]
    assert len(of_first) == len(usual.on("shop/web-0/app-0/events")) == 10
    assert [found.name for found in drawn.on("shop/web-0/pod")] == ["running", "stopped", "running"]
    assert len({flow for found in of_first for flow in found.flows}) == 1


def test_an_empty_part_has_only_what_was_left_out_and_not_observed(tmp_path: Path) -> None:
    drawn = drawn_from(exported(varied(tmp_path / "r.db"), "perfetto", []))
    assert {one.category for one in drawn.slices} == {"connection", "gap"}
    assert {one.name for one in drawn.slices if one.category == "gap"} >= {"left out"}


def test_a_hostile_recording_is_drawn(tmp_path: Path) -> None:
    content = exported(hostile(tmp_path / "r.db"), "perfetto")
    trace = Trace.FromString(content)
    assert len(trace.packet) > 100
    assert all(packet.timestamp < 1 << 63 for packet in trace.packet)
    named = [track.track_descriptor.process.process_name for track in trace.packet]
    assert "a\0b/a\0b" in named and max(map(len, named)) < 10_000


def test_long_names_are_cut_and_many_names_are_written_without_interning() -> None:
    class _Kept:
        content = b""

        def write(self, content: bytes) -> None:
            self.content += content

    stream = _Kept()
    drawing = Packets(stream)  # type: ignore[arg-type]
    drawing.begin(NOW)
    drawing.process(7, 1, "p")
    names = [
        "n" * 5_000,
        *(f"name {number}" for number in range(perfetto_packets.MAX_NAMES + 3)),
    ] * 2
    for number, name in enumerate(names):
        drawing.event(
            PacketKind.INSTANT, 7, NOW + number, name, "", {"yes": True, "no": False, "": -5}
        )
    drawn = drawn_from(stream.content)
    assert [found.name for found in drawn.instants] == [
        name if len(name) < 5_000 else name[: perfetto_packets.MAX_TEXT] + "…" for name in names
    ]
    assert drawn.instants[0].arguments == {"yes": True, "no": False, "": -5}
