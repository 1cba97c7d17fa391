# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.recorder.escape import columns, safe
from nri_scope.tui.model.columns import fitted, place


@given(st.integers(40, 400), st.integers(1, 12))
def test_columns_fill_the_width_and_never_more(width: int, digits: int) -> None:
    placed = place(width, {"id": digits})
    last = placed[-1]
    assert last.left + last.width == width
    for one, other in pairwise(placed):
        assert one.left + one.width < other.left


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (38, "event subject"),
        (78, "id time event subject took status"),
        (158, "id time elapsed event subject changed plugin took deadline status"),
    ],
)
def test_the_most_important_columns_stay(width: int, names: str) -> None:
    assert [each.column.name for each in place(width, {"id": 4})] == names.split()


@given(st.text(max_size=30), st.integers(1, 20), st.booleans())
def test_a_fitted_text_takes_exactly_its_columns(text: str, width: int, right: bool) -> None:
    assert columns(fitted(safe(text), width, right=right)) == width
