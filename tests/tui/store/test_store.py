# SPDX-License-Identifier: Apache-2.0
"""A recording by positions: finished, growing, shrinking, with holes, and damaged."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from itertools import dropwhile, pairwise
from pathlib import Path

import pytest

from nri_scope.entries import Began, Ended
from nri_scope.errors import RecordingError
from nri_scope.events import CapturedCall, Event, Gap, OutcomeKind, Role
from nri_scope.filter import parse
from nri_scope.recorder.ring import MIN_SIZE
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.query.attribution_file import AttributionFile, Request
from nri_scope.recording.query.log_rows import Log
from nri_scope.recording.reading.reader import Recording
from nri_scope.text import quantities
from nri_scope.tui.list.scroll_state import ScrollState
from nri_scope.tui.store import store as store_module
from nri_scope.tui.store.recording_overview import Growth, RecordingKind
from nri_scope.tui.store.rows import ListRow, RowKind
from nri_scope.tui.store.store import Store
from nri_scope.tui.store.view import View
from tests.recording.made import START, at
from tests.recording.recordings import PLUGIN, a_start, captured, record

ITEMS = [item for plugin, item in captured() if plugin == PLUGIN][1:]
"""Without Synchronize."""


def item(number: int, seconds: float) -> CapturedCall:
    return ITEMS[number % len(ITEMS)]._replace(wall_ns=at(seconds))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two sessions, of 40 and 30 events one second apart, and two gaps."""
    path = tmp_path / "x.nriscope.db"
    recorder = Recorder.open(path)
    first = recorder.begin_session(a_start(started_ns=START))
    for number in range(40):
        recorder.capture(first, item(number, number))
    recorder.note_gap(first, at(10.5), at(11), "the disk is full", 2)
    recorder.end_session(first, "done", at(41))
    recorder.note_gap(None, at(41), at(49), "nobody was there", None)
    second = recorder.begin_session(a_start("10-other", started_ns=at(49)))
    for number in range(30):
        recorder.capture(second, item(number, 50 + number))
    recorder.end_session(second, "done", at(90))
    recorder.close()
    return path


@pytest.fixture
def many(path: Path) -> Path:
    """Add so many events that the walk continues after the recording is shown."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(event)")][1:]
        names = ", ".join(columns)
        while count(connection) < 1_000:
            connection.execute(
                f"INSERT INTO event ({names}) SELECT {names} FROM event WHERE session = 2"
            )
        connection.execute("UPDATE session SET last_event = (SELECT max(id) FROM event)")
        connection.execute("UPDATE event SET at_ns = at_ns + id * 1000000000 WHERE id > 70")
        connection.execute("COMMIT")
    return path


def count(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT count(*) FROM event").fetchone()
    return int(number)


@asynccontextmanager
async def opened(path: Path, *, live: bool = False) -> AsyncIterator[Store]:
    store = await Store.open(path, live=live)
    try:
        yield store
    finally:
        await store.close()


async def all_rows(store: Store, view: View) -> list[ListRow]:
    rows = [*await store.rows(view, 0, view.length + 5)]
    assert [row.key for row in rows] == [view.key_at(at) for at in range(view.length)]
    return rows


def row_names(rows: list[ListRow]) -> list[str]:
    words = []
    for row in rows:
        if row.kind is RowKind.EVENT:
            words.append(str(row.event_id))
        elif row.session is not None:
            words.append(f"{row.kind} {row.session.id}")
        else:
            words.append(str(row.kind))
    return words


def log(path: Path, where: str = "") -> list[str]:
    """Return the entries of `Log`; with ``where``, only events and the gaps before them."""
    words = []
    with Recording.open(path) as recording:
        for entry in Log(recording, where=parse(where)).read():
            match entry:
                case Event(id=number):
                    words.append(str(number))
                case Gap():
                    words.append("gap")
                case Began(session) | Ended(session):
                    kind = "began" if isinstance(entry, Began) else "ended"
                    words.append(f"{kind} {session.id}")
    if where:
        words = [word for word in words if word.isdigit() or word == "gap"]
        words = list(dropwhile(lambda word: word == "gap", words[::-1]))[::-1]
    return words


async def until(store: Store, reached: Callable[[], bool]) -> list[Growth]:
    """Refresh until a condition holds."""
    found = []
    while not reached():
        found.append(await store.refresh())
        await asyncio.sleep(0.01)
    return found


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize("where", ["", "event:CreateContainer", "session:2", "pod:nobody"])
async def test_rows_equal_those_of_the_log(path: Path, where: str) -> None:
    async with opened(path) as store:
        view = await store.view(parse(where) if where else None)
        assert view.complete
        assert row_names(await all_rows(store, view)) == log(path, where)


async def test_rows_of_several_connections_equal_those_of_the_log(tmp_path: Path) -> None:
    path = record(tmp_path / "x.nriscope.db", "00-probe-a", "50-probe-b", "95-probe-c")
    async with opened(path) as store:
        rows = row_names(await all_rows(store, store.all))
    # Sessions that begin simultaneously may be in another order; nothing else differs.
    events = [word for word in log(path) if "began" not in word]
    assert [word for word in rows if "began" not in word] == events
    assert sorted(rows) == sorted(log(path))


async def test_facts_of_a_recording(path: Path) -> None:
    async with opened(path) as store:
        facts = store.facts
    assert (facts.kind, facts.events) == (RecordingKind.RECORDING, 70)
    assert (facts.sessions, facts.connected) == (2, 0)
    assert facts.runtime == "containerd 2.1.9+unknown, NRI 0.8.0 (inferred)"
    assert (facts.first_ns, facts.last_ns) == (at(0), at(79))
    assert (facts.gaps, facts.lost, facts.lost_unknown) == (2, 2, True)
    assert (facts.growing, facts.damage) == (False, "")


async def test_runtime_is_taken_from_nri_even_after_a_cri_session(path: Path) -> None:
    path = path.with_name("cri.nriscope.db")
    recorder = Recorder.open(path)
    recorder.begin_session(a_start(started_ns=START))
    recorder.begin_session(
        replace(a_start(started_ns=at(1)), role=Role.CRI, nri_version="", plugin_name="cri")
    )
    recorder.close()
    async with opened(path) as store:
        assert store.facts.runtime == "containerd 2.1.9+unknown, NRI 0.8.0 (inferred)"


async def test_filtered_view_has_only_matching_events(path: Path) -> None:
    async with opened(path) as store:
        where = parse("event:CreateContainer")
        view = await store.view(where)
        with Recording.open(path) as recording:
            expected = [event.id for event in recording.events(where=where)]
        rows = await all_rows(store, view)
    assert [row.event_id for row in rows if row.event is not None] == expected
    assert view.events == len(expected) > 1


@pytest.mark.parametrize("text", ["", "event:CreateContainer", "-event:*Container"])
@pytest.mark.parametrize("page", [1, 2, 3, 50])
async def test_delta_counts_from_the_event_before_in_the_view(
    path: Path, text: str, page: int
) -> None:
    async with opened(path) as store:
        view = await store.view(parse(text) if text else None)
        rows = [
            row
            for start in range(0, view.length, page)
            for row in await store.rows(view, start, page)
        ]
    events = [row for row in rows if row.event is not None]
    assert len(events) == view.events > 2
    assert {row.cell("delta") for row in rows if row.event is None} <= {""}
    assert events[0].cell("delta") == ""
    for before, row in pairwise(events):
        assert before.event is not None and row.event is not None
        ns = row.event.at_ns - before.event.at_ns
        sign = "-" if ns < 0 else "+"
        assert row.cell("delta") == f"{sign}{quantities.duration(abs(ns))}"


async def test_view_of_a_container_has_only_its_events(path: Path) -> None:
    async with opened(path) as store:
        container = (await store.run(lambda recording: recording.containers()))[0]
        view = await store.view(about=container)
        narrower = await store.view(parse("event:StopContainer"), about=container)
        rows = await all_rows(store, view)
        stopped = await all_rows(store, narrower)
    events = [row.event for row in rows if row.event is not None]
    assert events
    assert {event.container_id for event in events} == {container.id}
    found = [row.event_id for row in stopped if row.event is not None]
    assert found == [event.id for event in events if event.event == "StopContainer"]


async def test_view_of_a_pod_includes_its_containers(path: Path) -> None:
    async with opened(path) as store:
        pod = (await store.run(lambda recording: recording.pods()))[0]
        view = await store.view(about=pod)
        rows = await all_rows(store, view)
    events = [row.event for row in rows if row.event is not None]
    assert {event.pod_id for event in events} == {pod.id}
    assert any(event.container_id for event in events)


# -- growing recordings ---------------------------------------------------------------------


async def test_new_events_appear_in_all_views(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    recorder = Recorder.open(path)
    async with opened(path) as store:
        assert (store.all.length, store.all.complete, store.facts.growing) == (0, True, True)
        filtered = await store.view(parse("event:CreateContainer"))
        session = recorder.begin_session(a_start(started_ns=START))
        for number in range(50):
            recorder.capture(session, item(number, number))
        await until(store, lambda: store.all.events == 50)
        revision, before = store.all.revision, row_names(await all_rows(store, store.all))
        for number in range(50, 90):
            recorder.capture(session, item(number, number))
        recorder.end_session(session, "done", at(100))
        found = await until(store, lambda: store.facts.connected == 0)
        assert sum(growth.events for growth in found) == 40
        rows = row_names(await all_rows(store, store.all))
        assert rows[: len(before)] == before
        assert store.all.revision == revision
        recorder.close()
        assert not store.facts.growing
        assert rows == log(path)
        assert row_names(await all_rows(store, filtered)) == log(path, "event:CreateContainer")
        assert not await store.refresh()


async def test_recording_of_this_process_is_live(path: Path) -> None:
    async with opened(path, live=True) as store:
        assert (store.facts.kind, store.facts.growing) == (RecordingKind.LIVE, True)


async def test_refresh_without_changes_returns_an_empty_growth(path: Path) -> None:
    async with opened(path) as store:
        assert not await store.refresh()
        assert await store.refresh() == Growth()


async def test_late_gap_is_inserted_at_its_time(path: Path) -> None:
    async with opened(path) as store:
        revision = store.all.revision
        change(path, "INSERT INTO gap VALUES (7, NULL, " + f"{at(20.5)}, {at(20.6)}, 'late', 1)")
        growth = await store.refresh()
        assert growth.between and growth.moved
        assert store.all.revision != revision
        assert row_names(await all_rows(store, store.all)) == log(path)


async def test_removed_events_disappear_from_all_views(path: Path) -> None:
    async with opened(path) as store:
        filtered = await store.view(parse("event:CreateContainer"))
        revisions = store.all.revision, filtered.revision
        change(path, "DELETE FROM event WHERE id <= 30")
        # Before the next refresh.
        assert (await store.rows(store.all, 3, 1))[0].kind is RowKind.GONE
        growth = await store.refresh()
        assert growth.removed and not growth.events
        assert store.all.revision != revisions[0] and filtered.revision != revisions[1]
        events = [row.event_id for row in await all_rows(store, store.all) if row.event]
        assert events == list(range(31, 71))
        assert (
            row_names(await all_rows(store, filtered))[-5:] == log(path, str(filtered.where))[-5:]
        )
        assert store.facts.events == 40


async def test_rows_of_a_ring_equal_those_of_the_log(tmp_path: Path) -> None:
    path, chance = tmp_path / "x.nriscope.db", random.Random(1)
    recorder = Recorder.open(path, limits=WriterLimits(max_size=MIN_SIZE))
    session = recorder.begin_session(a_start(started_ns=START))
    number = 0
    async with opened(path) as store:
        filtered = await store.view(parse("event:CreateContainer"))
        listing, removed = ScrollState(filtered, 10), False
        while not removed:
            for _ in range(200):
                reply = chance.randbytes(400)
                recorder.capture(session, item(number, number / 100)._replace(reply=reply))
                number += 1
            while recorder.counters.recorded < number:
                await asyncio.sleep(0.001)
            listing.move(-1)
            selected = listing.selected
            removed = (await store.refresh()).removed
            listing.grow()
            if selected is not None:
                assert listing.selected == selected or not filtered.shows(selected.event)
        recorder.end_session(session, "done", at(number / 100 + 1))
        recorder.close()
        while await store.refresh():
            pass
        assert row_names(await all_rows(store, store.all)) == log(path)
        assert row_names(await all_rows(store, filtered)) == log(path, "event:CreateContainer")


async def test_cancelled_refresh_loses_no_event(path: Path) -> None:
    async with opened(path) as store:
        change(path, "INSERT INTO event SELECT 71, session, 71, at_ns, mono_ns, method, event, "
               "service, pod, container, pod_object, container_object, request, reply, "
               "status_code, status_message, took_ns, timeout_ns, size, mark, changed, owners "
               "FROM event WHERE id = 70")  # fmt: skip
        cancelled = asyncio.create_task(store.refresh())
        await asyncio.sleep(0)
        cancelled.cancel()
        await store.refresh()
        assert store.all.events == 71


async def test_refresh_of_a_deleted_recording_fails(path: Path) -> None:
    async with opened(path) as store:
        path.unlink()
        with pytest.raises(RecordingError):
            await store.refresh()


# -- event numbers with holes ---------------------------------------------------------------


async def test_missing_numbers_are_skipped(path: Path) -> None:
    change(path, "DELETE FROM event WHERE id BETWEEN 10 AND 19 OR id = 50")
    async with opened(path) as store:
        assert store.all.events == 59
        assert row_names(await all_rows(store, store.all)) == log(path)
        assert store.all.position_of(12) == store.all.position_of(20)


async def test_newest_events_are_available_before_the_scan_ends(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(many, "DELETE FROM event WHERE id BETWEEN 100 AND 150")
    monkeypatch.setattr(store_module, "_AT_ONCE", 10)
    async with opened(many) as store:
        assert not store.all.complete
        revision = store.all.revision
        newest = (await store.rows(store.all, store.all.length - 20, 20))[-1].key
        found = await until(store, lambda: store.all.complete)
        found.append(await store.refresh())
        assert store.all.revision != revision
        assert any(growth.moved for growth in found)
        assert store.all.key_at(store.all.length - 1) == newest
        expected = [word for word in log(many) if word.isdigit()]
        events = [row.event_id for row in await all_rows(store, store.all) if row.event]
        assert list(map(str, events)) == expected


async def test_numbers_between_distant_events_do_not_count(path: Path) -> None:
    change(path, f"UPDATE event SET id = {1 << 60} WHERE id = 70")
    async with opened(path) as store:
        assert store.all.events == 70
        view = await store.view(parse("session:2"))
        assert view.events == 30
        assert await store.find(store.all, "no such text", 0) is None
        assert await store.find(store.all, "no such text", store.all.length - 1, False) is None


# -- filters and searching ------------------------------------------------------------------


async def test_filter_reports_partial_results(many: Path) -> None:
    async with opened(many) as store:
        seen: list[tuple[View, float, int, bool]] = []

        def on_progress(view: View, share: float) -> None:
            seen.append((view, share, view.events, view.complete))

        view = await store.view(parse("event:CreateContainer"), on_progress)
        assert {id(each) for each, *_ in seen} == {id(view)}
        shares = [share for _, share, _, _ in seen]
        assert shares == sorted(shares) and shares[-1] == 1.0
        assert seen[-1][2:] == (view.events, True)
        assert view.revision == 0


async def test_filter_can_be_cancelled(many: Path) -> None:
    async with opened(many) as store:
        task = asyncio.create_task(store.view(parse("pod:~.*")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Other requests are not blocked.
        assert len(await store.rows(store.all, 0, 10)) == 10


@pytest.mark.parametrize("where", [None, "session:2", "event:C*"])
@pytest.mark.parametrize("forwards", [True, False])
async def test_searching_finds_each_row_with_the_text(
    path: Path, where: str | None, forwards: bool
) -> None:
    text = "CREATEcontainer"
    async with opened(path) as store:
        view = await store.view(parse(where) if where else None)
        rows = await all_rows(store, view)
        expected = [
            position
            for position, row in enumerate(rows)
            if row.event is not None and text.lower() in row.event.event.lower()
        ]
        found: list[int] = []
        position = 0 if forwards else view.length - 1
        while (hit := await store.find(view, text, position, forwards)) is not None:
            found.append(hit)
            position = hit + 1 if forwards else hit - 1
        assert found == (expected if forwards else expected[::-1])
        assert len(found) > 1


async def test_gaps_are_searched_too(path: Path) -> None:
    async with opened(path) as store:
        position = await store.find(store.all, "disk is FULL", 0)
        assert position is not None
        assert (await store.rows(store.all, position, 1))[0].kind is RowKind.GAP
        assert await store.find(store.all, "disk is full", position + 1) is None
        assert await store.find(store.all, "disk is full", position + 9, False) == position


# -- damage ---------------------------------------------------------------------------------


async def test_unreadable_event_has_a_damaged_row_at_its_position(path: Path) -> None:
    change(path, "UPDATE event SET took_ns = x'00' WHERE id = 33")
    async with opened(path) as store:
        rows = await all_rows(store, store.all)
    damaged = [row for row in rows if row.kind is RowKind.DAMAGED]
    assert [row.key.event for row in damaged] == [33]
    assert "33" in damaged[0].text
    assert sum(row.kind is RowKind.EVENT for row in rows) == 69


@pytest.mark.parametrize("where", ["the middle", "the end"])
async def test_damaged_page_ends_the_rows_with_a_marker(many: Path, where: str) -> None:
    with closing(sqlite3.connect(many)) as connection:
        recorded = count(connection)
    spoil_leaf(many, in_the_middle=where == "the middle")
    async with opened(many) as store:
        rows = await all_rows(store, store.all)
        assert rows[-1].kind is RowKind.DAMAGED
        events = [row.event_id for row in rows if row.event is not None]
        assert events == list(range(1, len(events) + 1))
        assert 70 < len(events) < recorded
        assert store.facts.damage
        filtered = await store.view(parse("session:2"))
        assert filtered.events == len(events) - 40
        assert (await all_rows(store, filtered))[-1].kind is RowKind.DAMAGED
        assert not await store.refresh()


def spoil_leaf(path: Path, *, in_the_middle: bool) -> None:
    """Overwrite the page of the newest events, or another one."""
    change(path, "PRAGMA journal_mode = DELETE")
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'event'"
        ).fetchone()
    content = bytearray(path.read_bytes())

    def number(at: int, length: int) -> int:
        return int.from_bytes(content[at : at + length], "big")

    while content[start := (page - 1) * size] == 5:
        # An interior page: the number of cells is at offset 3, the right-most child at 8, and the
        # offsets of the cells from 12; a cell begins with the page number of another child.
        child = start + 8
        if in_the_middle:
            child = start + number(start + 12 + number(start + 3, 2) // 2 * 2, 2)
        page = number(child, 4)
    content[start : start + size] = b"\xff" * size
    path.write_bytes(content)


async def test_file_that_is_not_a_recording_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("hello, this is a text and no recording")
    with pytest.raises(RecordingError):
        await Store.open(path)


async def test_recording_of_a_newer_version_is_rejected(path: Path) -> None:
    change(path, "PRAGMA user_version = 99")
    with pytest.raises(RecordingError, match="version 99"):
        await Store.open(path)


async def test_closing_cancels_running_requests(many: Path) -> None:
    store = await Store.open(many)
    task = asyncio.create_task(store.view(parse("pod:~.*")))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closed_store_rejects_requests(path: Path) -> None:
    store = await Store.open(path)
    view = store.all
    await store.close()
    with pytest.raises(RecordingError, match="it was closed"):
        await store.run(lambda recording: recording.sessions())
    with pytest.raises(RecordingError, match="it was closed"):
        await store.rows(view, 0, 5)
    with pytest.raises(RecordingError, match="it was closed"):
        await store.refresh()


@pytest.mark.parametrize("grouped", [False, True])
async def test_attributed_values_of_some_events_change_a_filtered_view(
    path: Path, tmp_path: Path, grouped: bool
) -> None:
    file = AttributionFile(tmp_path / "a.db")
    attached = tmp_path / "a.db"
    file.add(3, [Request("20-x", "/process/args", OutcomeKind.SEEN)])
    file.add(20, [Request("20-x", "/process/args", OutcomeKind.SEEN)])
    file.commit(20)
    async with opened(path) as store:
        await store.attach(attached)
        view = await store.view(parse("changed:/process/args"), grouped=grouped)
        assert view.numbers_between(0, view.length)[:2] == array("q", [3, 20])
        recorded = [*view.numbers_between(0, view.length)[2:]]
        # An event before them is not examined again.
        file.add(5, [Request("20-x", "/process/args", OutcomeKind.SEEN)])
        file.add(20, [], "slow")
        file.add(30, [Request("20-x", "/process/args", OutcomeKind.SEEN)])
        file.commit(30)
        store.outdate(19)
        assert await store.refresh()
        rest = [number for number in recorded if number > 30]
        assert [*view.numbers_between(0, view.length)] == [3, 30, *rest]
        assert view.looked_at == 70
        assert not await store.refresh()
        store.outdate(0)
        assert await store.refresh()
        assert [*view.numbers_between(0, view.length)] == [3, 5, 30, *rest]
        # Other views do not depend on these values.
        other = await store.view(parse("event:StopContainer"))
        before = other.revision
        store.outdate(0)
        await store.refresh()
        assert other.revision == before
    file.close()
