# SPDX-License-Identifier: Apache-2.0
"""Columns that fit a width."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.text.escape import columns, safe
from nri_scope.tui.containers import outline_lines
from nri_scope.tui.plugins import plugin_board, session_board
from nri_scope.tui.text.styled_line import Span, TableField, TableGrid, cut, text_of
from tests.tui.hostile import NAMES

TABLES = (plugin_board.FIELDS, session_board.FIELDS, outline_lines.FIELDS)


@given(st.sampled_from(TABLES), st.integers(80, 300), st.text(max_size=200))
def test_line_with_any_text_is_as_wide_as_the_heading(
    fields: tuple[TableField, ...], width: int, text: str
) -> None:
    grid = TableGrid.of(fields, width)
    line = text_of(grid.line([Span(text)] * len(fields)))
    assert columns(line) == columns(text_of(grid.head())) <= width


@given(st.sampled_from(TABLES), st.integers(1, 300))
def test_narrow_grid_keeps_the_most_important_fields(
    fields: tuple[TableField, ...], width: int
) -> None:
    grid = TableGrid.of(fields, width)
    left_out = [field.rank for field, wide in zip(fields, grid.widths, strict=True) if not wide]
    kept = [field.rank for field, wide in zip(fields, grid.widths, strict=True) if wide]
    assert all(rank > 0 for rank in left_out)
    assert not left_out or max(kept) <= min(left_out)
    assert all(wide >= field.width for field, wide in zip(fields, grid.widths, strict=True) if wide)


def test_all_fields_fit_80_columns() -> None:
    # One column of 80 is the scroll bar's.
    shown = [text_of(TableGrid.of(fields, 79).head()).split() for fields in TABLES]
    assert "Changes" in shown[0] and "Max/of" in shown[0]
    assert "reason" in shown[1] and "Duration" in shown[1]
    assert "Changed" in shown[2] and "Errors" in shown[2]


def test_hostile_texts_are_escaped_and_cut() -> None:
    grid = TableGrid.of((TableField("a", 10), TableField("b", 10, right=True)), 21)
    for name in NAMES.values():
        line = text_of(grid.line([Span(name), Span(name * 1000)]))
        assert columns(line) == 21 and line.isprintable()


@given(st.lists(st.text(max_size=20), max_size=5), st.integers(1, 40))
def test_cut_line_ends_with_an_ellipsis(texts: list[str], width: int) -> None:
    parts = tuple(Span(text) for text in texts)
    whole = "".join(safe(text) for text in texts)
    found = text_of(cut(parts, width))
    assert columns(found) <= width
    if columns(whole) <= width:
        assert found == whole
    else:
        assert found.endswith("…") and whole.startswith(found[:-1])
