# SPDX-License-Identifier: Apache-2.0
"""Event numbers by position: ranges behave like the list of their numbers."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.tui.store.view import NumberList, NumberRanges, Numbers

_ASCENDING = st.lists(st.integers(1, 60), unique=True, max_size=30).map(sorted)


def runs_of(numbers: list[int], oldest: int = 1) -> NumberRanges:
    runs = NumberRanges(oldest)
    for number in numbers:
        runs.extend(number, number)
    return runs


def agree(numbers: Numbers, expected: list[int]) -> None:
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
    runs, ids = runs_of(numbers), NumberList(numbers)
    agree(runs, numbers)
    agree(ids, numbers)
    left = [number for number in numbers if number >= oldest]
    assert runs.trim(oldest) == ids.trim(oldest) == (left != numbers)
    agree(runs, left)
    agree(ids, left)
    more = [number for number in later if number > max(runs.last, *numbers, 0)]
    for number in more:
        runs.extend(number, number)
    ids.extend(array("q", more))
    agree(runs, left + more)
    agree(ids, left + more)


@given(_ASCENDING, st.integers(0, 60), st.integers(1, 65))
def test_assumed_numbers_count_like_known_ones(
    numbers: list[int], newest: int, oldest: int
) -> None:
    runs = runs_of(numbers)
    runs.assume(newest)
    expected = numbers + list(range(max([0, *numbers]) + 1, newest + 1))
    agree(runs, expected)
    assert runs.trim(oldest) == (expected != [each for each in expected if each >= oldest])
    agree(runs, [each for each in expected if each >= oldest])


def test_confirming_assumed_numbers_moves_nothing() -> None:
    runs = NumberRanges()
    runs.assume(100)
    assert not runs.extend(1, 50)
    assert len(runs) == 100
    assert not runs.extend(51, 100)
    assert not runs.settle()
    assert len(runs) == 100


def test_hole_moves_the_assumed_numbers_after_it() -> None:
    runs = NumberRanges()
    runs.assume(100)
    runs.extend(1, 50)
    assert runs.extend(61, 80)
    assert len(runs) == 90
    assert runs.at(50) == 61


def test_settle_removes_assumed_numbers_that_do_not_exist() -> None:
    runs = NumberRanges()
    runs.assume(100)
    runs.extend(1, 99)
    assert runs.settle()
    assert len(runs) == 99


def test_hole_after_the_last_number_moves_nothing() -> None:
    runs = runs_of([1, 2])
    assert not runs.extend(5, 6)
    assert list(runs.slice(0, 9)) == [1, 2, 5, 6]
