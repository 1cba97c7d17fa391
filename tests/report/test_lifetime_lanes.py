# SPDX-License-Identifier: Apache-2.0
"""Lanes of the timeline."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.events import Gap
from nri_scope.report.lifetime_lanes import LaneCollector
from nri_scope.report.limits import COLUMNS

LAST = 10_000


def drawn_gaps(gaps: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the gaps of a timeline."""
    recorded = [Gap(number, None, *ends, "x", None) for number, ends in enumerate(gaps, 1)]
    return LaneCollector(0, LAST).timeline([], recorded, str).gaps


@given(st.lists(st.tuples(st.integers(-5, LAST + 5), st.integers(-5, LAST + 5)), max_size=60))
def test_each_column_with_a_gap_is_drawn_once(gaps: list[tuple[int, int]]) -> None:
    column = LaneCollector(0, LAST).column
    expected = {place for ends in gaps for place in range(column(min(ends)), column(max(ends)) + 1)}
    shown = [place for begin, end in drawn_gaps(gaps) for place in range(begin, end + 1)]
    assert shown == sorted(expected)


def test_the_number_of_gaps_is_bounded_by_the_columns() -> None:
    assert len(drawn_gaps([(at, at) for at in range(LAST + 1)])) == COLUMNS
