# SPDX-License-Identifier: Apache-2.0
"""Positions of operations equal those of a plain list."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.tui.list.scroll_state import ScrollState
from nri_scope.tui.store.event_numbers import Grouped, NumberRanges, Operations
from nri_scope.tui.store.markers import RowKey
from nri_scope.tui.store.view import View

_SIZES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=12)
"""Number of events of each operation, and of the missing numbers after it."""


def _groups(sizes: list[tuple[int, int]]) -> list[list[int]]:
    groups: list[list[int]] = []
    number = 1
    for size, hole in sizes:
        groups.append(list(range(number, number + size)))
        number += size + hole
    return groups


def _made(groups: list[list[int]], *, upto: int | None = None) -> tuple[NumberRanges, Operations]:
    every = NumberRanges()
    for group in groups:
        every.extend(group[0], group[-1])
    operations = Operations(every)
    for group in groups[:upto]:
        rest = array("q", group[1:])
        operations.add(Grouped(rest, array("q", [group[0]] * len(rest)), group[-1]))
    return every, operations


def _check(operations: Operations, groups: list[list[int]]) -> None:
    firsts = [group[0] for group in groups]
    assert len(operations) == len(firsts)
    assert list(operations.slice(0, len(firsts))) == firsts
    for number in range(70):
        assert operations.rank(number) == sum(first < number for first in firsts)
    for group in groups:
        assert operations.grouped.events_of(group[0]) == group
        assert {operations.grouped.first_of(number) for number in group} == {group[0]}


@given(_SIZES, st.integers(0, 12))
def test_events_that_were_not_grouped_are_operations_of_their_own(
    sizes: list[tuple[int, int]], upto: int
) -> None:
    groups = _groups(sizes)
    _, operations = _made(groups, upto=upto)
    rest = [[number] for group in groups[upto:] for number in group]
    _check(operations, [*groups[:upto], *rest])


@given(_SIZES, st.sets(st.integers(1, 60)), st.integers(1, 60))
def test_events_of_rows_are_those_of_their_operations(
    sizes: list[tuple[int, int]], chosen: set[int], oldest: int
) -> None:
    groups = _groups(sizes)
    every, operations = _made(groups)
    touched = operations.take_touched()
    assert all(group[0] in touched for group in groups if len(group) > 1)
    assert not operations.take_touched()
    view = View(operations, groups=operations, looked_at=1_000)
    view.settle(())
    numbers = [number for group in groups for number in group if number in chosen]
    rows = view.rows_of(numbers)
    assert operations.grouped.firsts_of(numbers) == array("q", rows.rows)
    # Later changes of the view have no effect.
    every.trim(oldest)
    operations.trim(oldest)
    expected = [number for group in groups if chosen.intersection(group) for number in group]
    assert list(rows.all()) == expected
    assert rows.count() == len(expected)


@given(_SIZES, st.integers(1, 40), _SIZES)
def test_the_oldest_events_may_be_removed(
    sizes: list[tuple[int, int]], oldest: int, later: list[tuple[int, int]]
) -> None:
    groups = _groups(sizes)
    every, operations = _made(groups)
    newest = groups[-1][-1]
    oldest = min(oldest, newest)
    every.trim(oldest)
    operations.trim(oldest)
    groups = [kept for group in groups if (kept := [one for one in group if one >= oldest])]
    _check(operations, groups)
    for more in _groups(later):
        more = [number + newest for number in more]
        every.extend(more[0], more[-1])
        rest = array("q", more[1:])
        operations.add(Grouped(rest, array("q", [more[0]] * len(rest)), more[-1]))
        groups.append(more)
    assert list(operations.slice(0, 99)) == [group[0] for group in groups]


@given(_SIZES, st.sets(st.integers(0, 11)))
def test_an_open_operation_has_a_row_for_each_event(
    sizes: list[tuple[int, int]], opened: set[int]
) -> None:
    groups = _groups(sizes)
    _, operations = _made(groups)
    view = View(operations, groups=operations, looked_at=1_000)
    view.settle(())
    expected: list[RowKey] = []
    for at, group in enumerate(groups):
        expected.append(RowKey.of_event(group[0]))
        if at in opened:
            view.toggle(group[0])
            expected += map(RowKey.of_connection, group)
    assert [view.key_at(position) for position in range(view.length)] == expected
    for position, key in enumerate(expected):
        assert (view.before(key), view.through(key)) == (position, position + 1)
    for at, group in enumerate(groups):
        for number in group:
            assert view.shows(number)
            is_below = at in opened and number != group[0]
            key = RowKey.of_connection(number) if is_below else RowKey.of_event(group[0])
            assert view.position_of(number) == expected.index(key)
    shown = view.row_events()
    assert list(shown.all()) == [number for group in groups for number in group]
    assert shown.count() == operations.event_count == sum(map(len, groups))
    for at in opened & set(range(len(groups))):
        view.toggle(groups[at][0])
    assert view.length == len(groups)


def test_the_cursor_stays_on_an_event_that_becomes_part_of_an_operation() -> None:
    groups = [[1, 2, 3, 4], [5, 6, 7, 8], [9]]
    _, operations = _made(groups, upto=0)
    view = View(operations, groups=operations, looked_at=9)
    view.settle(())
    listing = ScrollState(view, 3, follows=False)
    listing.go_to(6)
    assert listing.selected == RowKey.of_event(7)
    for group in groups[:2]:
        rest = array("q", group[1:])
        operations.add(Grouped(rest, array("q", [group[0]] * 3), group[-1]))
    view.settle((), moved=True)
    listing.grow()
    assert listing.selected == RowKey.of_event(5)
    view.toggle(5)
    listing.go_to(view.position_of(5) + 1)
    assert listing.selected == RowKey.of_connection(5)
    listing.show(view)
    assert listing.selected == RowKey.of_connection(5)
    view.toggle(5)
    listing.grow()
    assert listing.selected == RowKey.of_event(5)
