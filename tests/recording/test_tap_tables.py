# SPDX-License-Identifier: Apache-2.0
"""Data in a recording about the transport of events, and output of plugins."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RecordingError
from nri_scope.events import Printed, Tapped
from nri_scope.nri.events import RUNTIME_SERVICE
from nri_scope.recorder.encode import METADATA_MAX
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.tap_tables import Taps, printed, printed_by, tapped
from tests.recording.traffic import NOW, a_start, an_item, record

OLD = Path(__file__).parent.parent / "data" / "recordings"
LINES = 1_200
PARENT = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a recording of two events with plugin output before, between and after them."""
    path = tmp_path / "tap.nriscope.db"
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    other = recorder.begin_session(a_start("20-other"))
    recorder.printed(session, NOW - 1, "stderr", "starting")
    first = an_item(wall_ns=NOW)._replace(held_ns=5, metadata=(("key", "värde"), ("key", "2")))
    recorder.capture(session, first)
    recorder.printed(session, NOW + 1, "stdout", "one")
    recorder.printed(other, NOW + 2, "stdout", "of the other")
    recorder.capture(session, an_item(wall_ns=NOW + 10**9)._replace(metadata=(PARENT,)))
    for number in range(LINES):
        recorder.printed(session, NOW + 10**9 + number, "stdout", str(number))
    recorder.close()
    return path


def read_all(recording: Recording) -> tuple[list[Printed], list[Tapped]]:
    return list(printed(recording)), tapped(recording, [1, 2])


def test_tap_data_is_read_back_unchanged(path: Path) -> None:
    with Recording.open(path) as recording:
        assert tapped(recording, [2, 1]) == [
            Tapped(1, 5, (("key", "värde"), ("key", "2"))),
            Tapped(2, None, (PARENT,)),
        ]
        assert tapped(recording, []) == []
        lines = list(printed(recording))
        assert lines[:2] == [
            Printed(1, 1, NOW - 1, "stderr", "starting"),
            Printed(2, 1, NOW + 1, "stdout", "one"),
        ]
        assert len(lines) == LINES + 3
        assert list(printed(recording, lines[-2].id)) == lines[-1:]


def test_transport_data_is_read_in_order_of_events(tmp_path: Path) -> None:
    metadata = [(("key", str(number)),) for number in range(350)]
    items = [an_item()._replace(metadata=one) for one in metadata]
    items[::3] = [item._replace(held_ns=1) for item in items[::3]]
    items[1::3] = [item._replace(metadata=()) for item in items[1::3]]
    record(tmp_path / "x.nriscope.db", items)
    with Recording.open(tmp_path / "x.nriscope.db") as recording:
        taps = Taps(recording)
        found = [taps.of(number) for number in range(1, len(items) + 1)]
    assert [one.metadata for one in found if one] == [one.metadata for one in items if one.metadata]
    assert [one is None for one in found] == [not item.metadata for item in items]
    assert [one.held_ns for one in found if one] == [one.held_ns for one in items if one.metadata]


def test_an_event_has_its_plugin_s_output_until_the_next_event(path: Path) -> None:
    with Recording.open(path) as recording:
        first, second = recording.events()
        found, count = printed_by(recording, first, 10)
        assert ([line.text for line in found], count) == (["one"], 1)
        found, count = printed_by(recording, second, 10)
        assert ([line.text for line in found], count) == ([*map(str, range(10))], LINES)


def test_recordings_without_tap_tables_have_no_tap_data() -> None:
    for path in OLD.glob("*.nriscope.db"):
        with Recording.open(path) as recording:
            event = next(recording.events())
            assert list(printed(recording)) == []
            assert tapped(recording, [event.id]) == []
            assert printed_by(recording, event, 10) == ([], 0)


def test_long_metadata_are_cut_with_a_note(tmp_path: Path) -> None:
    many = tuple((f"key{number}", "ß" * 100) for number in range(METADATA_MAX))
    record(tmp_path / "x.nriscope.db", [an_item()._replace(held_ns=1, metadata=many)])
    with Recording.open(tmp_path / "x.nriscope.db") as recording:
        (known,) = tapped(recording, [1])
    *kept, (key, words) = known.metadata
    assert tuple(kept) == many[: len(kept)]
    assert (key, len(kept) > 100) == ("", True)
    assert words.endswith(f"omitted, as too long: {len(many) - len(kept)}")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE output SET text = replace(hex(zeroblob(100000)), '00', 'xx')",
        "UPDATE tapped SET metadata = '[[\"a\", \"' || hex(zeroblob(200000)) || '\"]]'",
        "UPDATE output SET text = x'00'",
        "UPDATE output SET at_ns = 'soon'",
        "UPDATE tapped SET metadata = '[[1]]'",
        "UPDATE tapped SET held_ns = 'long'",
        "UPDATE request_metadata SET metadata = '[[\"a\", 1]]'",
        "UPDATE request_metadata SET metadata = '[[\"a\", \"' || hex(zeroblob(200000)) || '\"]]'",
        "UPDATE request_metadata SET metadata = 1",
    ],
)
def test_values_of_wrong_types_are_damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    with Recording.open(path) as recording, pytest.raises(RecordingError, match="damaged"):
        read_all(recording)


@pytest.mark.parametrize(("code", "changed"), [(0, ("/process/env/FOO",)), (4, ()), (2, ())])
def test_an_answer_that_the_runtime_did_not_apply_changed_nothing(
    tmp_path: Path, code: int, changed: tuple[str, ...]
) -> None:
    reply = api.CreateContainerResponse()
    reply.adjust.env.add(key="FOO", value="bar")
    request = api.CreateContainerRequest(container=api.Container(id="c"))
    # A tap records an answer that arrived too late.
    item = an_item("CreateContainer", request, reply.SerializeToString(), status_code=code)
    record(tmp_path / "x.nriscope.db", [item])
    with Recording.open(tmp_path / "x.nriscope.db") as recording:
        (event,) = recording.events()
        assert event.changed == changed
        assert bool(event.owners) == bool(changed)
        assert recording.reply(event.id) == item.reply


@pytest.mark.parametrize(("code", "owners"), [(0, ("00-nri-scope",)), (5, ())])
def test_an_update_that_the_runtime_rejected_changed_nothing(
    tmp_path: Path, code: int, owners: tuple[str, ...]
) -> None:
    request = api.UpdateContainersRequest()
    request.update.add(container_id="c").linux.resources.cpu.shares.value = 2
    item = an_item("UpdateContainers", request, status_code=code, service=RUNTIME_SERVICE)
    record(tmp_path / "x.nriscope.db", [item])
    with Recording.open(tmp_path / "x.nriscope.db") as recording:
        (event,) = recording.events()
        assert event.owners == owners
