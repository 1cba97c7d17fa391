# SPDX-License-Identifier: Apache-2.0
"""Sorted arrays of event numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.recording.reading.row_pages import ascending


@given(st.lists(st.integers(1, 9)))
def test_numbers_are_sorted_without_duplicates(numbers: list[int]) -> None:
    for each in (numbers, sorted(numbers), sorted(set(numbers))):
        assert list(ascending(each)) == sorted(set(numbers))
