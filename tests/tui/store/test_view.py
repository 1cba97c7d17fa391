# SPDX-License-Identifier: Apache-2.0
"""Rows by position: events and markers in one order."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.entries import Began, Ended
from nri_scope.events import Gap
from nri_scope.filter import parse
from nri_scope.tui.store.event_numbers import NumberList
from nri_scope.tui.store.markers import (
    DamageMarker,
    EntryMarker,
    RowKey,
    RowMarker,
)
from nri_scope.tui.store.view import View
from tests.recording.made import a_session

_ASCENDING = st.lists(st.integers(1, 40), unique=True, max_size=20).map(sorted)


def gap(before: int, number: int = 1) -> EntryMarker:
    return EntryMarker(RowKey(before, 0, before, number), Gap(number, None, 0, 0, "", None))


def gaps(places: list[int]) -> tuple[RowMarker, ...]:
    return tuple(gap(before, number) for number, before in enumerate(sorted(places)))


def a_view(numbers: list[int], between: tuple[RowMarker, ...]) -> View:
    view = View(NumberList(numbers), looked_at=1000)
    view.complete = True
    view.settle(between)
    return view


def keys(view: View) -> list[RowKey]:
    return [view.key_at(position) for position in range(view.length)]


@given(_ASCENDING, st.lists(st.integers(1, 41), max_size=6))
def test_rows_are_in_the_order_of_their_keys(numbers: list[int], places: list[int]) -> None:
    between = gaps(places)
    view = a_view(numbers, between)
    expected = sorted([*map(RowKey.of_event, numbers), *(one.key for one in between)])
    assert keys(view) == expected
    for position, key in enumerate(expected):
        assert view.before(key) == position
        assert view.through(key) == position + 1
    for number in range(43):
        key = RowKey.of_event(number)
        assert view.before(key) == sum(each < key for each in expected)
        assert view.through(key) == sum(each <= key for each in expected)
        assert view.shows(number) == (number in numbers)
    first, last = 3, 9
    entries = [number for number in view.entries(first, last - first) if isinstance(number, int)]
    assert list(view.numbers_between(first, last)) == entries


@given(_ASCENDING, _ASCENDING, st.lists(st.tuples(st.integers(1, 41), st.booleans()), max_size=6))
def test_revision_changes_only_if_rows_moved(
    numbers: list[int], later: list[int], places: list[tuple[int, bool]]
) -> None:
    between = gaps([place for place, _ in places])
    early = tuple(one for one, (_, known) in zip(between, places, strict=True) if known)
    ids = NumberList(numbers)
    view = View(ids, looked_at=1000)
    view.settle(early)
    before, revision = keys(view), view.revision
    ids.extend(array("q", [number for number in later if number > max([0, *numbers])]))
    view.settle(between)
    moved = keys(view)[: len(before)] != before
    assert (view.revision != revision) == moved


def test_missing_event_has_the_position_of_a_neighbour() -> None:
    view = a_view([10, 20, 30], ())
    assert [view.position_of(number) for number in (1, 10, 11, 20, 31)] == [0, 0, 1, 1, 2]
    assert a_view([], ()).position_of(5) == 0


def test_filtered_view_omits_session_markers() -> None:
    found: list[RowMarker] = []
    for number, first in ((1, 1), (2, 10), (3, 20)):
        session = a_session(number)
        found.append(EntryMarker(RowKey(first, 0, 0, number), Began(session)))
        found.append(EntryMarker(RowKey(first + 9, 0, 0, number), Ended(session)))
    between = tuple(sorted(found, key=lambda one: one.key))
    view = View(NumberList([12, 14]), where=parse("x"), looked_at=30)
    view.settle(between)
    assert keys(view) == [RowKey.of_event(12), RowKey.of_event(14)]
    whole = View(NumberList([12, 14]), looked_at=30)
    whole.settle(between)
    assert whole.length == 8


def test_filtered_view_has_only_gaps_before_a_match() -> None:
    ids = NumberList([3, 7])
    view = View(ids, where=parse("x"), looked_at=20)
    between = gaps([2, 5, 7, 8, 12])
    view.settle(between)
    assert [key.event for key in keys(view)] == [2, 3, 5, 7, 7]
    revision = view.revision
    ids.extend(array("q", [11]))
    view.settle(between)
    assert [key.event for key in keys(view)] == [2, 3, 5, 7, 7, 8, 11]
    assert view.revision == revision
    nothing = View(NumberList([]), where=parse("x"), looked_at=20)
    nothing.settle(between)
    assert not nothing.length


def test_running_filter_shows_only_examined_rows() -> None:
    ids = NumberList([3])
    view = View(ids, where=parse("x"), looked_at=5)
    between = (gap(2), gap(6), gap(9))
    view.settle(between)
    revision = view.revision
    assert [key.event for key in keys(view)] == [2, 3]
    ids.extend(array("q", [7, 12]))
    view.looked_at = 20
    view.settle(between)
    assert [key.event for key in keys(view)] == [2, 3, 6, 7, 9, 12]
    assert view.revision == revision


def test_damage_marker_is_the_last_row() -> None:
    view = View(NumberList([1, 2]), looked_at=2)
    view.stopped = DamageMarker.behind(2, "torn")
    view.settle((gap(2), gap(3), gap(9)))
    assert [key.event for key in keys(view)] == [1, 2, 2, 3, 3]
    assert view.entry(4) == view.stopped


@given(
    st.lists(_ASCENDING, min_size=1, max_size=5),
    st.lists(st.integers(1, 41), max_size=8),
    st.booleans(),
)
def test_view_grown_in_steps_equals_a_view_built_in_one(
    steps: list[list[int]], places: list[int], narrowed: bool
) -> None:
    between = gaps(places)
    where = parse("x") if narrowed else None
    ids = NumberList()
    view = View(ids, where=where, looked_at=0)
    for step in steps:
        ids.extend(array("q", [number for number in step if number > max([0, *ids.array])]))
        view.looked_at = max([view.looked_at, *step])
        view.settle(between)
        whole = View(NumberList(ids.array), where=where, looked_at=view.looked_at)
        whole.settle(between)
        assert keys(view) == keys(whole)
        assert view.length == whole.length
        assert list(view.between) == list(whole.between)
