# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.text.escape import columns, safe
from nri_scope.tui.list.columns import place
from nri_scope.tui.store.rows import COLUMNS
from nri_scope.tui.text.styled_line import fitted
from scripts.tui_page import HEADS


@given(st.integers(25, 400), st.integers(1, 12), st.booleans())
def test_columns_fill_exactly_the_width(width: int, digits: int, plugins: bool) -> None:
    placed = place(width, digits=digits, plugins=plugins)
    last = placed[-1]
    assert last.left + last.width == width
    for one, other in pairwise(placed):
        assert one.left + one.width < other.left


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (37, "event subject"),
        (77, "time event subject changed plugin took status"),
        (97, "id time event subject changed plugin took status"),
        (117, "id time delta event subject changed plugin took status"),
        (157, "id time delta elapsed event subject changed plugin took deadline status"),
    ],
)
def test_narrow_lists_keep_the_most_important_columns(width: int, names: str) -> None:
    assert [each.column.name for each in place(width, digits=4)] == names.split()


def test_column_of_a_single_plugin_is_omitted_in_narrow_lists() -> None:
    assert "plugin" not in {each.column.name for each in place(77, plugins=False)}
    assert "plugin" in {each.column.name for each in place(117, plugins=False)}


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (77, "Time|Event|Pod/container|Δ|Pl|Took/of|Status"),
        (117, "#|Time|Delta|Event|Pod/container|Changed|Plugin|Took/of|Status"),
        (157, "#|Time|Delta|Elapsed|Event|Pod/container|Changed|Plugin|Took|Of|Status"),
    ],
)
def test_titles_fit_their_columns(width: int, titles: str) -> None:
    assert "|".join(each.title for each in place(width)) == titles


def test_wide_lists_show_whole_names_of_plugins_and_events() -> None:
    widths = {each.column.name: each.width for each in place(197, longest_plugin=24)}
    assert widths["plugin"] == 24
    assert widths["event"] == len("ValidateContainerAdjustment")
    assert widths["subject"] >= 40


@given(st.integers(1, 400), st.booleans())
def test_wider_list_loses_no_column(width: int, plugins: bool) -> None:
    fewer, more = ({one.at for one in place(each, plugins=plugins)} for each in (width, width + 1))
    assert fewer <= more


@given(st.text(max_size=30), st.integers(1, 20), st.booleans())
def test_fitted_text_has_exactly_the_width(text: str, width: int, right: bool) -> None:
    assert columns(fitted(safe(text), width, right=right)) == width


def test_a_wide_list_has_every_column() -> None:
    assert tuple(each.column for each in place(400)) == COLUMNS


def test_the_page_explains_every_column() -> None:
    explained = {title for titles in HEADS for title in titles.split(", ")}
    # These two are their names.
    assert {each.title for each in COLUMNS} - explained == {"Event", "Pod/container"}
