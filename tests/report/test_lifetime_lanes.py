# SPDX-License-Identifier: Apache-2.0
"""Tests of what is drawn over time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.events import Gap
from nri_scope.report.lifetime_lanes import Lanes
from nri_scope.report.limits import COLUMNS

LAST = 10_000


def drawn(gaps: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The gaps of a timeline."""
    made = [Gap(number, None, *ends, "x", None) for number, ends in enumerate(gaps, 1)]
    return Lanes(0, LAST).timeline([], made, str).gaps


@given(st.lists(st.tuples(st.integers(-5, LAST + 5), st.integers(-5, LAST + 5)), max_size=60))
def test_gaps_are_drawn_once_in_each_column_and_nowhere_else(gaps: list[tuple[int, int]]) -> None:
    column = Lanes(0, LAST).column
    wanted = {place for ends in gaps for place in range(column(min(ends)), column(max(ends)) + 1)}
    shown = [place for begin, end in drawn(gaps) for place in range(begin, end + 1)]
    assert shown == sorted(wanted)


def test_many_gaps_are_no_more_than_the_columns() -> None:
    assert len(drawn([(at, at) for at in range(LAST + 1)])) == COLUMNS
