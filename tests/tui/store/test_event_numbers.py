# SPDX-License-Identifier: Apache-2.0
"""Event numbers by position: ranges behave like the list of their numbers."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.tui.store.event_numbers import NumberList, NumberRanges

_ASCENDING = st.lists(st.integers(1, 60), unique=True, max_size=30).map(sorted)


def ranges_of(numbers: list[int], oldest: int = 1) -> NumberRanges:
    ranges = NumberRanges(oldest)
    for number in numbers:
        ranges.extend(number, number)
    return ranges


def assert_numbers(numbers: NumberList | NumberRanges, expected: list[int]) -> None:
    assert len(numbers) == len(expected)
    assert [numbers.at(position) for position in range(len(expected))] == expected
    assert list(numbers.slice(2, 7)) == expected[2:7]
    for number in range(65):
        assert numbers.rank(number) == sum(each < number for each in expected)
    for outside in (-1, len(expected)):
        with pytest.raises(IndexError):
            numbers.at(outside)


@given(_ASCENDING, st.integers(1, 65), _ASCENDING)
def test_ranges_equal_the_list_of_their_numbers(
    numbers: list[int], oldest: int, later: list[int]
) -> None:
    ranges, ids = ranges_of(numbers), NumberList(numbers)
    assert_numbers(ranges, numbers)
    assert_numbers(ids, numbers)
    left = [number for number in numbers if number >= oldest]
    assert ranges.trim(oldest) == ids.trim(oldest) == (left != numbers)
    assert_numbers(ranges, left)
    assert_numbers(ids, left)
    more = [number for number in later if number > max(ranges.last, *numbers, 0)]
    for number in more:
        ranges.extend(number, number)
    ids.extend(array("q", more))
    assert_numbers(ranges, left + more)
    assert_numbers(ids, left + more)


@given(_ASCENDING, _ASCENDING)
def test_numbers_are_added_once_and_in_order(numbers: list[int], more: list[int]) -> None:
    ids = NumberList(numbers)
    moved = ids.extend(array("q", more))
    assert list(ids.array) == sorted({*numbers, *more})
    assert moved == (list(ids.array[: len(numbers)]) != numbers)


@given(_ASCENDING, st.integers(0, 60), st.integers(1, 65))
def test_assumed_numbers_count_like_known_ones(
    numbers: list[int], newest: int, oldest: int
) -> None:
    ranges = ranges_of(numbers)
    ranges.assume(newest)
    expected = numbers + list(range(max([0, *numbers]) + 1, newest + 1))
    assert_numbers(ranges, expected)
    assert ranges.trim(oldest) == (expected != [each for each in expected if each >= oldest])
    assert_numbers(ranges, [each for each in expected if each >= oldest])


def test_confirming_assumed_numbers_moves_nothing() -> None:
    ranges = NumberRanges()
    ranges.assume(100)
    assert not ranges.extend(1, 50)
    assert len(ranges) == 100
    assert not ranges.extend(51, 100)
    assert not ranges.settle()
    assert len(ranges) == 100


def test_hole_moves_the_assumed_numbers_after_it() -> None:
    ranges = NumberRanges()
    ranges.assume(100)
    ranges.extend(1, 50)
    assert ranges.extend(61, 80)
    assert len(ranges) == 90
    assert ranges.at(50) == 61


def test_settle_removes_assumed_numbers_that_do_not_exist() -> None:
    ranges = NumberRanges()
    ranges.assume(100)
    ranges.extend(1, 99)
    assert ranges.settle()
    assert len(ranges) == 99


def test_hole_after_the_last_number_moves_nothing() -> None:
    ranges = ranges_of([1, 2])
    assert not ranges.extend(5, 6)
    assert list(ranges.slice(0, 9)) == [1, 2, 5, 6]
