# SPDX-License-Identifier: Apache-2.0
"""Rows of a line, and matches of a text in it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from nri_scope.tui.text.styled_line import (
    MAX_CHARACTERS,
    Span,
    Style,
    StyledLine,
    breaks,
    folded,
    hanging,
    line,
    shown,
    split_by_spans,
    text_of,
)
from tests.tui.hostile import NAMES, assert_harmless

_TEXT = st.text(st.sampled_from("ab容🐳é "), max_size=40)


@given(_TEXT, st.integers(4, 12))
def test_wrapped_rows_cover_the_line_and_fit_the_width(text: str, room: int) -> None:
    cuts = [*breaks(text, room), cell_len(text)]
    assert cuts[0] == 0
    widths = [after - before for before, after in pairwise(cuts)]
    assert 0 <= widths[0] <= room
    assert all(0 < width <= room - hanging(text, room) for width in widths[1:])
    # No cut goes through a character.
    edges = {cell_len(text[:at]) for at in range(len(text) + 1)}
    assert edges.issuperset(cuts)


@given(_TEXT, st.integers(0, 10), st.lists(st.integers(0, 50), max_size=6))
def test_split_pieces_cover_the_text_once(text: str, offset: int, edges: list[int]) -> None:
    ordered = sorted(set(edges))
    spans = list(zip(ordered[::2], ordered[1::2], strict=False))
    begin, end = offset, offset + len(text)
    found = list(split_by_spans(begin, end, spans))
    at = begin
    for first, last, is_match in found:
        assert first == at < last
        assert all(is_match == any(a <= spot < b for a, b in spans) for spot in range(first, last))
        at = last
    assert at == end


def test_short_line_is_escaped_but_not_cut() -> None:
    parts: StyledLine = tuple(Span(name[:100]) for name in NAMES.values())
    text = text_of(shown(parts))
    assert_harmless(text)
    assert "characters in all" not in text


def test_line_is_cut_if_its_spans_together_are_too_long() -> None:
    half = "y" * (MAX_CHARACTERS // 2)
    found = text_of(shown((Span(half), Span(half), Span("z"))))
    assert found == f"{half}{half}… ({MAX_CHARACTERS + 1:,} characters in all)"
    assert shown(line("short")) == line("short")


@given(_TEXT, st.integers(4, 20), st.integers(0, 12))
def test_folded_lines_contain_all_text_and_fit_the_width(text: str, room: int, indent: int) -> None:
    found = list(folded((Span(text[:5], Style.KEY), Span(text[5:])), room, indent))
    assert all(cell_len(text_of(one)) <= room for one in found)
    margin = " " * min(indent, room // 2)
    first, *rest = map(text_of, found)
    assert all(one.startswith(margin) for one in rest)
    assert "".join([first, *(one[len(margin) :] for one in rest)]) == text


def test_folding_breaks_between_words() -> None:
    assert [text_of(one) for one in folded(line("one two three four"), 10, 2)] == [
        "one two ",
        "  three ",
        "  four",
    ]
