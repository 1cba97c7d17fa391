# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to recordings and calls, each event is sent once or is in a gap."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent import event_reader, node_recordings
from nri_scope.agent.call_limits import CopyLimit
from nri_scope.agent.event_reader import LEFT_OUT, REMOVED, EventReader
from nri_scope.agent.node_recordings import Cursor, Position, format_cursor, parse_cursor
from nri_scope.agent.responses import OVERRUN
from nri_scope.agent.selected_parts import EventQuery
from nri_scope.cluster.local_copy import LocalCopy
from nri_scope.errors import UsageError
from nri_scope.events import RING_REMOVED
from nri_scope.filter import TimeSpan, parse
from nri_scope.recorder.complete_recording import complete_recording
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.node_files import NUMBERS
from nri_scope.recording.reading.reader import Recording
from tests.agent.changing_folder import METHODS, SECOND, START, Node, drained
from tests.amount import amount
from tests.recording.traffic import a_start, an_item


def wait_for(path: Path, number: int) -> None:
    """Wait until a recorder has written an event."""
    while True:
        with Recording.open(path) as recording:
            if recording.event(number) is not None:
                return
        time.sleep(0.01)


def times(responses: list[v1.GetEventsResponse]) -> list[int]:
    return [response.event.at_ns for response in responses if response.event is not None]


def numbers(responses: list[v1.GetEventsResponse]) -> list[int]:
    return [response.event.id for response in responses if response.event is not None]


def gaps(responses: list[v1.GetEventsResponse], *reasons: str) -> list[v1.Gap]:
    return [one.gap for one in responses if one.gap is not None and one.gap.reason in reasons]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    folder = tmp_path / "node"
    folder.mkdir()
    return Node(folder)


# -- laws -----------------------------------------------------------------------------------------

NAMES = st.sampled_from("ab")
CHANGES = st.one_of(
    st.tuples(st.just(Node.write), NAMES, st.integers(1, 6)),
    st.tuples(st.just(Node.overrun), NAMES, st.integers(1, 6)),
)
REPLACEMENTS = st.one_of(
    CHANGES,
    st.tuples(st.just(Node.replace), NAMES, st.integers(1, 6)),
    st.tuples(st.just(Node.remove), NAMES),
)
READS = st.integers(0, 9)
QUERIES = st.builds(
    EventQuery,
    where=st.sampled_from([None, parse(f"event:{METHODS[0]}")]),
    context=st.booleans(),
    follow=st.just(True),
)


def followed(node: Node, query: EventQuery, steps: list[object]) -> Iterator[v1.GetEventsResponse]:
    """Yield what a client gets: calls with interruptions (None) while steps happen, and a last one
    that catches up.
    """
    cursor = ""
    reader: EventReader | None = None
    looks = False
    for step in steps:
        if isinstance(step, tuple):
            change, *arguments = step
            change(node, *arguments)
            continue
        if reader is None:
            reader, looks = reader_after(node, query, cursor), True
        for _ in range(step if isinstance(step, int) else 0):
            if looks:
                node.unseen.clear()
            responses, looks = reader.batch()
            for response in responses:
                cursor = response.cursor
                yield response
            if looks:
                cursor = reader.cursor()
        if step is None:
            reader.close()
            reader = None
    reader = reader or reader_after(node, query, cursor)
    for _ in range(2):
        yield from drained(reader)
    reader.close()


def reader_after(node: Node, query: EventQuery, cursor: str) -> EventReader:
    after = parse_cursor(cursor)
    assert format_cursor(after) == cursor
    return node.reader(
        EventQuery(where=query.where, context=query.context, follow=True, after=after)
    )


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, query: EventQuery, steps: list[object]
) -> tuple[Node, list[v1.GetEventsResponse]]:
    monkeypatch.setattr(event_reader, "BATCH", 1)
    (folder / "node").mkdir()
    node = Node(folder / "node")
    node.write("a", 3)
    return node, list(followed(node, query, steps))


def steps(changes: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(st.one_of(changes, READS, st.none()), max_size=14)


@settings(deadline=None, max_examples=amount(40, 40))
@given(query=QUERIES, steps=steps(REPLACEMENTS))
def test_each_event_is_sent_once_or_is_in_a_gap(
    tmp_path_factory: pytest.TempPathFactory, query: EventQuery, steps: list[object]
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        node, responses = run(tmp_path_factory.mktemp("law"), monkeypatch, query, steps)
    sent = times(responses)
    assert len(sent) == len(set(sent))
    between = gaps(responses, OVERRUN, REMOVED, RING_REMOVED)
    for at_ns, (name, method) in node.written.items():
        if at_ns not in node.never_seen.union(sent) and (
            query.where is None or method == METHODS[0]
        ):
            assert any(
                gap.recording == name and gap.from_ns <= at_ns <= gap.to_ns for gap in between
            ), (at_ns - START) // SECOND


# Two overruns, with an interruption after each response that may be the first gap.
OVERRUNS: list[object] = [(Node.write, "a", 6), (Node.overrun, "a", 6)]
TWICE = [[9, None, *OVERRUNS, responses, None, *OVERRUNS] for responses in (1, 2, 3)]


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=amount(30, 30))
@example(context=False, steps=TWICE[0])
@example(context=True, steps=TWICE[1])
@example(context=False, steps=TWICE[2])
@given(context=st.booleans(), steps=steps(CHANGES | st.just((Node.set_back,))))
def test_gaps_tell_how_many_events_are_missing_and_copies_have_the_rest(
    tmp_path_factory: pytest.TempPathFactory, context: bool, steps: list[object]
) -> None:
    folder = tmp_path_factory.mktemp("law")
    with pytest.MonkeyPatch.context() as monkeypatch:
        node, responses = run(folder, monkeypatch, EventQuery(context=context), steps)
    sent = times(responses)
    with complete_recording(folder / "copy.nriscope.db") as writing:
        copy = LocalCopy(writing)
        for response in responses:
            copy.add(response)
    with Recording.open(folder / "copy.nriscope.db") as recording:
        assert [event.at_ns for event in recording.events()] == sent
        last = {event.session: event.at_ns for event in recording.events()}
        lost = sum(gap.lost or 0 for gap in recording.gaps())
        sessions = recording.sessions()
    assert lost == len(node.written) - len(sent)
    assert len(sessions) == len({session.started_ns for session in sessions})
    for session in sessions:
        assert session.end_reason == "over" or last.get(session.id) not in node.last


# -- what is recorded while a call waits -----------------------------------------------------------


def while_waiting(
    node: Node, query: EventQuery, change: Callable[[], None]
) -> list[v1.GetEventsResponse]:
    """Return the responses of a call during which something changes before its first one: it waits
    for another call that makes a temporary part.
    """
    found: list[v1.GetEventsResponse] = []
    waiting = threading.Event()

    class OtherCall(threading.BoundedSemaphore):
        def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
            waiting.set()
            return super().acquire(blocking, timeout)

    copies = CopyLimit(1, node.recordings)
    copies.calls = OtherCall()
    assert copies.calls.acquire(timeout=0)
    waiting.clear()

    def work() -> None:
        with closing(node.reader(query, copies)) as reader:
            found.extend([*drained(reader), *drained(reader)])

    thread = threading.Thread(target=work)
    thread.start()
    assert waiting.wait(60)
    change()
    copies.calls.release()
    thread.join()
    return found


@pytest.mark.parametrize("where", ["", f"event:{METHODS[0]}"])
def test_what_is_recorded_meanwhile_is_sent_once(node: Node, where: str) -> None:
    node.write("a", 5)
    query = EventQuery(follow=True, where=parse(where) if where else None)
    found = while_waiting(node, query, lambda: node.write("a", 4))
    every = [at_ns for at_ns, (_, event) in node.written.items() if event in where or not where]
    assert times(found) == every


def test_what_the_ring_removes_before_a_copy_is_in_a_gap(node: Node) -> None:
    node.write("a", 5)
    _, cursor = node.all(EventQuery())

    def change() -> None:
        node.write("a", 9)
        node.overrun("a", 11)

    node.write("a", 1)
    query = EventQuery(context=True, after=parse_cursor(cursor))
    found = while_waiting(node, query, change)
    assert numbers(found) == [12, 13, 14, 15]
    assert [gap.lost for gap in gaps(found, OVERRUN)] == [6]


# -- resumed calls ---------------------------------------------------------------------------------


def test_a_gap_with_a_filter_has_no_number(node: Node) -> None:
    node.write("a", 3)
    where = parse(f"event:{METHODS[0]}")
    _, cursor = node.all(EventQuery(where=where))
    node.write("a", 9)
    node.overrun("a", 9)
    for context in (False, True):
        query = EventQuery(where=where, after=parse_cursor(cursor), context=context)
        found, _ = node.all(query)
        assert [gap.lost for gap in gaps(found, OVERRUN)] == [None]


def test_a_cursor_is_not_taken_for_that_of_another_recording(node: Node) -> None:
    """Also if its ring has removed an event with this number."""
    node.write("a", 5)
    _, cursor = node.all(EventQuery())
    node.replace("a", 12)
    node.overrun("a", 8)
    for context in (False, True):
        found, _ = node.all(EventQuery(after=parse_cursor(cursor), context=context))
        assert numbers(found) == [NUMBERS + number for number in (9, 10, 11, 12)]
        assert len(gaps(found, REMOVED)) == 1
        assert [gap.lost for gap in gaps(found, OVERRUN, RING_REMOVED)] == [8]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "query",
    [{"since": "10s"}, {"where": parse("time:>10s")}, {"since": "-4s"}, {"since": "+2s"},
     {"where": parse("NOT time:<-4s")}, {"since": "10s", "context": True}],
    ids=["since", "where", "before the end", "after the begin", "negated", "with context"],
)  # fmt: skip
def test_relative_times_keep_their_meaning(
    node: Node, monkeypatch: pytest.MonkeyPatch, query: dict[str, object]
) -> None:
    now_ns = START + 14 * SECOND
    monkeypatch.setattr("nri_scope.agent.selected_parts.time_ns", lambda: now_ns)
    for name in "ab":
        node.write(name, 8)
    whole, _ = node.all(EventQuery(**query))  # type: ignore[arg-type]
    assert 0 < len(times(whole)) < 16
    node.write("a", 5)
    node.overrun("a", 2)
    node.write("b", 5)
    expected = {*times(whole), *[*node.written][16:]}
    now_ns += 100 * SECOND
    for at, response in enumerate(whole):
        if not response.cursor:
            continue
        after = parse_cursor(response.cursor)
        rest, _ = node.all(EventQuery(**query, after=after))  # type: ignore[arg-type]
        assert sorted(times(rest)) == sorted(expected.difference(times(whole[: at + 1])))


def test_each_cursor_of_the_newest_events_has_all_recordings(node: Node) -> None:
    node.write("a", 50)
    node.path("damaged").write_bytes(bytes(range(256)) * 40)
    node.write("b", 3)
    found, _ = node.all(EventQuery(last=5))
    assert len(times(found)) == 5
    for at, response in enumerate(found):
        after = parse_cursor(response.cursor)
        assert after.positions.keys() >= {"a", "b"}
        rest, _ = node.all(EventQuery(last=5, after=after))
        assert times(rest) == times(found[at + 1 :])


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9_.-]{1,128}", fullmatch=True),
        st.builds(
            Position,
            st.integers(0, 2**63 - 1),
            st.integers(-(2**63) + 1, 2**63 - 1),
            st.integers(-(2**63) + 1, 2**63 - 1),
            st.none() | st.builds(TimeSpan, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)),
        ),
        max_size=64,
    ),
    st.integers(0, 2**63 - 1),
)
def test_any_cursor_can_be_parsed(positions: dict[str, Position], now_ns: int) -> None:
    cursor = Cursor(positions, now_ns)
    assert parse_cursor(format_cursor(cursor)) == cursor


def test_cursors_and_no_cursors() -> None:
    assert parse_cursor("a:5:7:1").positions == {"a": Position(5, 7, 1)}
    for text in (
        "a",
        "a:5",
        "a:5:7",
        "a:5:7:1,a:5:7:1",
        "@",
        "a:5:7:1,@1",
        f"a:{2**63}:1:1",
        "x" * 99_999,
        "a:-1:1:1",
    ):
        with pytest.raises(UsageError, match="not a cursor"):
            parse_cursor(text)


# -- several recordings ----------------------------------------------------------------------------


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=amount(30, 30))
@given(
    writes=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=8),
    last=st.integers(1, 20),
)
def test_the_newest_events_are_those_of_all_recordings(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, int]], last: int
) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    for name, events in writes:
        node.write(name, events)
    found, _ = node.all(EventQuery(last=last))
    assert times(found) == [*node.written][-last:]


def test_a_recording_that_is_removed_after_it_was_sent_is_no_gap(node: Node) -> None:
    node.write("a", 3)
    with closing(node.reader(EventQuery(follow=True))) as reader:
        found = list(drained(reader))
        node.remove("a")
        found += [*drained(reader), *drained(reader)]
        cursor = reader.cursor()
    assert len(times(found)) == 3
    assert (gaps(found, REMOVED), cursor) == ([], "")


def test_recordings_beyond_the_limit(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_recordings, "MAX_RECORDINGS", 2)
    for name in "abc":
        node.write(name, 2)
    names = [file.name for file in node.recordings.all()]
    assert names == ["b", "c"]
    with closing(node.reader(EventQuery(follow=True))) as reader:
        found = list(drained(reader))
        cursor = reader.cursor()
        # An older one does not come back only because another was removed.
        node.remove("b")
        found += drained(reader)
        assert len(times(found)) == 4
        # The one that is recorded is served, though others began later.
        node.write("a", 2)
        node.write("c", 2)
        node.write("d", 2)
        found += drained(reader)
        assert [file.name for file in node.recordings.all()] == ["c", "d"]
        # What was left out in between goes on where it was.
        node.write("a", 1)
        node.write("c", 1)
        found += drained(reader)
    assert len(times(found)) == len({*times(found)})
    assert not gaps(found, REMOVED, LEFT_OUT)
    node.write("e", 1)
    node.write("f", 1)
    found, _ = node.all(EventQuery(after=parse_cursor(cursor)))
    assert [gap.recording for gap in gaps(found, LEFT_OUT)] == ["c"]
    assert [gap.recording for gap in gaps(found, REMOVED)] == ["b"]


def test_unreadable_recordings_are_opened_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    open_recording = Recording.open

    def counted(path: Path) -> Recording:
        opened.append(path)
        return open_recording(path)

    monkeypatch.setattr(Recording, "open", counted)
    node.path("damaged").write_bytes(b"x" * 5000)
    os.utime(node.path("damaged"), (0, 0))
    node.write("a", 1)
    for _ in range(3):
        node.recordings.all()
    assert sorted(opened) == [node.path("a"), node.path("damaged")]
    node.path("damaged").unlink()
    node.write("damaged", 1)
    assert [file.name for file in node.recordings.all()] == ["a", "damaged"]
    assert len(opened) == 3


def test_the_end_of_a_session_is_sent_though_the_clock_went_back(node: Node) -> None:
    path = node.path("a")
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start(started_ns=START))
    for number in range(5):
        recorder.capture(session, an_item(wall_ns=START + number * SECOND))
    wait_for(path, 5)
    _, cursor = node.all(EventQuery())
    recorder.end_session(session, "runtime restarted", START - 3600 * SECOND)
    second = recorder.begin_session(a_start(started_ns=START - 3599 * SECOND))
    recorder.capture(second, an_item(wall_ns=START - 3598 * SECOND))
    recorder.end_session(second, "over", START - 3597 * SECOND)
    recorder.close()
    found, cursor = node.all(EventQuery(after=parse_cursor(cursor)))
    assert [one.session_end.id for one in found if one.session_end is not None] == [1, 2]
    assert numbers(found) == [6]
