# SPDX-License-Identifier: Apache-2.0
"""Content of extracted recordings."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, LEFT_OUT, CapturedCall, Role
from nri_scope.filter import parse
from nri_scope.nri.events import METHODS
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.file.schema_check import check, check_schema
from nri_scope.recording.query import container_events, lookup
from nri_scope.recording.reading.event_messages import status_request
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import Extracted, Selection, extract
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.traffic import (
    NOW,
    a_container,
    a_pod,
    a_start,
    a_synchronize,
    an_item,
    lifecycle,
    lifecycles,
    one_stream,
    random_message,
    record,
)

_TABLES = ("session", "pod", "container", "effect", "gap", "note", "left_out")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Record three complete pod lifetimes, an older pod, and one example of each special case."""
    path = tmp_path / "whole.db"
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    items = [an_item("Configure", api.ConfigureRequest(runtime_name="containerd"))]
    items += [
        an_item("Synchronize", a_synchronize(2, more=True, first=50)),
        an_item("Synchronize", a_synchronize(2, first=52)),
    ]
    items += lifecycles(2)
    items += [an_item("FutureEvent", b"\xff" * 50), an_item("StateChange", b"\xff")]
    items += [an_item("RunPodSandbox", b"", service="other.Service")]
    existing = a_pod(51)
    items += [_an_update(existing, status_code=5, status_message="not found")]
    items += lifecycles(1, first=2)
    for item in items:
        recorder.capture(session, item)
    cri_session = recorder.begin_session(a_start("-cri", role=Role.CRI))
    container_id = a_container(a_pod(2), "app-0").id
    recorder.capture(
        cri_session,
        an_item(
            CONTAINER_STATUS, status_request(container_id), b'{"info": 1}', service=CRI_SERVICE
        ),
    )
    recorder.note_gap(session, NOW, NOW + 5, "a gap", 3)
    recorder.note_gap(None, NOW, NOW + 5, "a gap of all", None)
    recorder.note(cri_session, NOW, "of the CRI")
    recorder.note(None, NOW, "of nobody")
    recorder.end_session(session, "over", NOW + 10**12)
    recorder.close()
    return path


def _an_update(
    pod: api.PodSandbox, *, status_code: int = 0, status_message: str = ""
) -> CapturedCall:
    return an_item(
        "UpdateContainer",
        api.UpdateContainerRequest(pod=pod, container=a_container(pod)),
        status_code=status_code,
        status_message=status_message,
    )


@pytest.fixture
def whole(path: Path) -> Iterator[Recording]:
    with Recording.open(path) as recording:
        yield recording


def rebuilt(
    whole: Recording, selection: Selection | None = None, name: str = "part.db"
) -> tuple[Extracted, Recording]:
    """Extract a part; return the result and the opened copy."""
    output = whole.path.with_name(name)
    result = extract(whole, output, selection or Selection())
    part = Recording.open(output)
    check_schema(part.connection, output)
    assert check(part.connection, output) == 1
    assert part.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return result, part


def dump(recording: Recording, table: str) -> list[tuple[object, ...]]:
    return recording.rows(f"SELECT * FROM {table}")


def state_rows(recording: Recording) -> list[tuple[object, ...]]:
    """Return the table ``state`` without object numbers, which differ between files."""
    return [(*row[:-1], recording.object(row[-1])) for row in recording.rows("SELECT * FROM state")]


class TestWhole:
    def test_has_the_same_content(self, whole: Recording) -> None:
        result, copy = rebuilt(whole)
        assert list(copy.exchanges()) == list(whole.exchanges())
        for table in _TABLES:
            assert dump(copy, table) == dump(whole, table), table
        assert state_rows(copy) == state_rows(whole)
        services = "SELECT e.id, n.text FROM event AS e JOIN name AS n ON n.id = e.service"
        assert copy.rows(services) == whole.rows(services) != []
        events = len(list(whole.events()))
        assert (result.counts.events, result.counts.context, result.counts.left_out) == (
            events,
            0,
            0,
        )
        assert (result.counts.sessions, result.counts.gaps, result.damage) == (2, 2, "")
        assert (result.counts.pods, result.counts.containers) == (7, 7)

    def test_is_deterministic(self, whole: Recording) -> None:
        for selection in (Selection(), Selection(pod="shop/web-1")):
            contents = set()
            for name in ("a.db", "b.db", "c.db"):
                rebuilt(whole, selection, name)[1].close()
                output = whole.path.with_name(name)
                contents.add(output.read_bytes())
                output.unlink()
            assert len(contents) == 1

    def test_second_extract_is_the_same_file(self, whole: Recording) -> None:
        _, once = rebuilt(whole, name="once.db")
        _, twice = rebuilt(once, name="twice.db")
        assert once.path.read_bytes() == twice.path.read_bytes()

    def test_omits_deleted_rows(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA secure_delete = OFF")
            connection.execute("INSERT INTO note VALUES (77, NULL, 1, 'once-a-secret')")
            connection.commit()
            connection.execute("DELETE FROM note WHERE id = 77")
            connection.commit()
        assert b"once-a-secret" in path.read_bytes()
        with Recording.open(path) as whole:
            _, copy = rebuilt(whole)
        assert b"once-a-secret" not in copy.path.read_bytes()

    def test_recording_without_events_can_be_extracted(self, tmp_path: Path) -> None:
        record(tmp_path / "empty.db", [])
        with Recording.open(tmp_path / "empty.db") as empty:
            result, copy = rebuilt(empty)
        assert (result.counts.events, result.counts.sessions, result.first_ns) == (0, 1, None)
        assert list(copy.events()) == []

    @settings(max_examples=amount(25, 25), deadline=None)
    @given(seed=st.integers(0, 2**32))
    @example(seed=5_074_353)  # A container without its pod, which a later message names.
    def test_random_messages_are_preserved(self, seed: int) -> None:
        chance = random.Random(seed)
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            path = Path(folder) / "whole.db"
            items = []
            for _ in range(8):
                method = chance.choice(sorted(METHODS))
                request = random_message(METHODS[method].request, chance)
                reply = random_message(METHODS[method].reply, chance)
                items.append(an_item(method, request, reply.SerializeToString()))
            record(path, items)
            with Recording.open(path) as whole, rebuilt(whole)[1] as copy:
                assert list(copy.exchanges()) == list(whole.exchanges())
                for table in _TABLES:
                    assert dump(copy, table) == dump(whole, table), table
                assert state_rows(copy) == state_rows(whole)


class TestPart:
    def test_events_are_unchanged(self, whole: Recording) -> None:
        _, part = rebuilt(whole, Selection(pod="shop/web-1"))
        every = {event.id: event for event in whole.events()}
        kept = list(part.events())
        assert [every[event.id] for event in kept] == kept
        assert len(kept) < len(every)
        assert {event.pod for event in kept} == {"", "web-1"}

    def test_messages_are_unchanged(self, whole: Recording) -> None:
        _, part = rebuilt(whole, Selection(pod="shop/web-2"))
        every = {event.id: messages for event, *messages in whole.exchanges()}
        for event, *messages in part.exchanges():
            if event.method != "Synchronize":
                assert every[event.id] == messages

    def test_contains_earlier_events_of_the_same_container(self, whole: Recording) -> None:
        chosen = parse("event:PostStartContainer pod:web-1")
        result, part = rebuilt(whole, Selection(where=chosen))
        about = [event.event for event in part.events() if event.pod == "web-1"]
        assert about == [
            "RunPodSandbox",
            "CreateContainer",
            "PostCreateContainer",
            "StartContainer",
            "PostStartContainer",
        ]
        # The context includes Configure and both parts of Synchronize.
        assert (result.counts.events, result.counts.context) == (1, 7)

    def test_other_pods_are_only_counted_as_left_out(self, whole: Recording) -> None:
        result, part = rebuilt(whole, Selection(pod="shop/web-1"))
        assert [lookup.pod_name(pod) for pod in part.pods()] == ["shop/web-1"]
        assert [one.pod and one.pod.name for one in part.containers()] == ["web-1"]
        assert b"web-0" not in part.path.read_bytes()
        state = part.state(1)
        assert state.complete
        assert state.pods == state.containers == ()
        events = len(list(whole.events()))
        assert result.counts.left_out == events - result.counts.events - result.counts.context > 0
        left_out = [gap for gap in part.gaps() if gap.is_left_out]
        assert sum(gap.lost or 0 for gap in left_out) == result.counts.left_out
        assert "part of a recording" in part.notes()[-1].text

    def test_state_contains_only_the_selected_pod(self, whole: Recording) -> None:
        _, part = rebuilt(whole, Selection(pod="shop/web-51"))
        state = part.state(1)
        assert state.complete
        expected = whole.state(1)
        assert (state.pods, state.containers) == (expected.pods[1:2], expected.containers[1:2])
        (_, request, _) = next(iter(part.exchanges(where=parse("event:Synchronize"))))
        message = api.SynchronizeRequest.FromString(request)
        assert message.more
        assert [pod.name for pod in message.pods] == ["web-51"]

    def test_a_selected_synchronize_is_unchanged(self, whole: Recording) -> None:
        first = next(iter(whole.events(where=parse("event:Synchronize")))).id
        _, part = rebuilt(whole, Selection(numbers=[first]))
        assert part.request(first) == whole.request(first)
        assert {pod.name for pod in part.pods()} == {"web-50", "web-51"}
        # The second part was not selected, and contains no pod of the selection.
        assert api.SynchronizeRequest.FromString(part.request(first + 1)).pods == []

    def test_contains_all_sessions_which_tell_what_was_observed(self, whole: Recording) -> None:
        assert [s.id for s in rebuilt(whole, Selection(pod="shop/web-1"))[1].sessions()] == [1, 2]
        _, part = rebuilt(whole, Selection(pod="shop/web-2"), "with-cri.db")
        assert [session.id for session in part.sessions()] == [1, 2]
        assert [note.text for note in part.notes()][:2] == ["of the CRI", "of nobody"]

    def test_contains_gaps_of_its_sessions_and_of_the_recording(self, whole: Recording) -> None:
        _, part = rebuilt(whole, Selection(where=parse("session:2 pod:web-2")))
        reasons = {gap.reason for gap in part.gaps()}
        assert {"a gap", "a gap of all", LEFT_OUT} == reasons

    def test_raw_bytes_of_marked_events_are_unchanged(self, whole: Recording) -> None:
        marked = [event for event in whole.events() if event.mark]
        assert len(marked) == 3
        _, part = rebuilt(whole, Selection(numbers=[event.id for event in marked]))
        kept = [event for event in part.events() if event.mark]
        assert kept == marked
        for event in marked:
            assert part.request(event.id) == whole.request(event.id)

    def test_time_and_expression_are_combined(self, whole: Recording) -> None:
        every = list(whole.events())
        since, until = every[10].at_ns, every[20].at_ns
        result, part = rebuilt(
            whole, Selection(where=parse("pod:web-0"), since_ns=since, until_ns=until)
        )
        selected = [e for e in every if e.pod == "web-0" and since <= e.at_ns < until]
        assert result.counts.events == len(selected) > 0
        assert (result.first_ns, result.last_ns) == (selected[0].at_ns, selected[-1].at_ns)
        assert set(selected) <= set(part.events())

    def test_extract_of_a_part_equals_extract_of_the_whole(self, whole: Recording) -> None:
        _, once = rebuilt(whole, Selection(where=parse("pod:web-0 OR pod:web-1")), "once.db")
        _, twice = rebuilt(once, Selection(pod="shop/web-1"), "twice.db")
        _, direct = rebuilt(whole, Selection(pod="shop/web-1"), "direct.db")
        assert list(twice.exchanges()) == list(direct.exchanges())
        assert dump(twice, "left_out") == dump(direct, "left_out") != []
        for event in twice.events():
            assert container_events.has_recorded_predecessor(
                twice, event
            ) == container_events.has_recorded_predecessor(whole, event)

    def test_left_out_and_lost_events_are_distinguished(self, tmp_path: Path) -> None:
        path = tmp_path / "lossy.db"
        recorder = Recorder.open(path, keep=lambda event: event.event != "StartContainer")
        session = recorder.begin_session(a_start())
        for item in [*lifecycle(0), *lifecycle(1), *lifecycle(0)]:
            recorder.capture(session, item)
        recorder.end_session(session, "over", NOW)
        recorder.close()
        with Recording.open(path) as whole:
            _, part = rebuilt(whole, Selection(pod="shop/web-0"))
            followed = {
                event.id: container_events.has_recorded_predecessor(whole, event)
                for event in whole.events()
            }
            assert set(followed.values()) == {True, False}
            for event in part.events():
                assert container_events.has_recorded_predecessor(part, event) == followed[event.id]

    def test_scattered_selection_has_few_gaps(self, tmp_path: Path) -> None:
        path = tmp_path / "long.db"
        unknown = [an_item("FutureEvent", bytes([n % 256]), wall_ns=NOW + n) for n in range(3000)]
        record(path, unknown)
        with Recording.open(path) as whole:
            result, part = rebuilt(whole, Selection(numbers=range(1, 3001, 2)))
        assert (result.counts.events, result.counts.left_out) == (1500, 1500)
        assert len(part.gaps()) <= 256
        assert sum(gap.lost or 0 for gap in part.gaps()) == 1500
        assert dump(part, "left_out") == [(n, n - 1, 1) for n in range(3, 3001, 2)]


class TestEmptySelection:
    def test_no_selected_event_is_an_error(self, whole: Recording) -> None:
        output = whole.path.with_name("part.db")
        for selection in (Selection(where=parse("pod:nobody")), Selection(numbers=[999])):
            with pytest.raises(UsageError, match=r"no event in .*whole\.db is selected"):
                extract(whole, output, selection)
        assert not output.exists()

    def test_unknown_pod_error_names_the_nearest(self, whole: Recording) -> None:
        output = whole.path.with_name("part.db")
        with pytest.raises(UsageError, match="the nearest is shop/web-1"):
            extract(whole, output, Selection(pod="shop/web-1x"))
        with pytest.raises(UsageError, match="is not a pod"):
            extract(whole, output, Selection(pod="shop/web-1/app-0"))


class TestLiveRecording:
    def test_events_recorded_meanwhile_are_omitted(self, tmp_path: Path) -> None:
        path = tmp_path / "live.db"
        recorder = Recorder.open(path)
        session = recorder.begin_session(a_start())
        items = one_stream("containerd-2.1.9")
        for item in items[:20]:
            recorder.capture(session, item)
        _wait(path, 20)
        with Recording.open(path) as live:

            def record_more(done: float) -> None:
                if done < 1 and len(items) > 20:
                    for item in items[20:]:
                        recorder.capture(session, item)
                    del items[20:]
                    _wait(path, 21)

            output = tmp_path / "part.db"
            result = extract(
                live, output, Selection(numbers=range(1, 1000)), on_progress=record_more
            )
            assert (result.counts.events, result.counts.left_out) == (20, 0)
            assert len(items) == 20
            assert len(list(live.events())) > 20
        recorder.close()
        with Recording.open(output) as part:
            (one,) = part.sessions()
            assert (one.ended_ns, one.end_reason) == (None, "")
            assert len(list(part.exchanges())) == 20

    def test_events_removed_by_the_ring_meanwhile_are_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "ring.db"
        chance = random.Random(1)
        items = [an_item("FutureEvent", chance.randbytes(4096)) for _ in range(600)]
        recorder = Recorder.open(path, limits=WriterLimits(max_size=1 << 20))
        session = recorder.begin_session(a_start())
        for item in items[:30]:
            recorder.capture(session, item)
        _wait(path, 30)
        rest = items[30:]
        with Recording.open(path) as live:
            before = [(event.id, request) for event, request, _ in live.exchanges()]

            def record_more(done: float) -> None:
                for item in rest:
                    recorder.capture(session, item)
                if rest:
                    rest.clear()
                    _wait(path, 0, gone=30)

            # The first report of progress comes before anything is copied.
            chosen = Selection(numbers=range(1, 1000))
            result = extract(live, tmp_path / "part.db", chosen, on_progress=record_more)
            assert (result.counts.events, result.damage) == (30, "")
            assert all(event.id > 30 for event in live.events())
        recorder.close()
        with Recording.open(tmp_path / "part.db") as part:
            assert [(event.id, request) for event, request, _ in part.exchanges()] == before


def _wait(path: Path, events: int, gone: int = 0) -> None:
    """Wait until there are ``events`` events, and none of the first ``gone``."""
    found = 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        for _ in range(3000):
            found, old = connection.execute(
                "SELECT count(*), count(*) FILTER (WHERE id <= ?) FROM event", (gone,)
            ).fetchone()
            if found >= events and not old:
                return
            threading.Event().wait(0.01)
    raise AssertionError(f"{found} of {events} events")
