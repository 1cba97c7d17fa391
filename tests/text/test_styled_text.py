# SPDX-License-Identifier: Apache-2.0
"""Styled text is a string that keeps the styles of its spans."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from nri_scope.cli.output import Output
from nri_scope.text.styled_text import (
    Layout,
    LayoutPart,
    Span,
    Style,
    StyledText,
    paint_line,
    spans_of,
)
from tests.tui.hostile import NAMES

_PIECES = st.lists(
    st.builds(Span, st.text("ab ü世", max_size=9), st.sampled_from(Style)), max_size=5
)


@given(_PIECES, _PIECES)
def test_styled_text_equals_its_text_and_joins_spans(first: list[Span], second: list[Span]) -> None:
    one = StyledText(*first)
    whole = StyledText(one, *second)
    assert whole == "".join(span.text for span in [*first, *second])
    assert spans_of(whole) == tuple(span for span in [*first, *second] if span.text)


@given(_PIECES)
def test_painted_text_has_the_same_text_and_number_of_spans(pieces: list[Span]) -> None:
    """Rich parses the escape sequences."""
    read = Text.from_ansi(paint_line(StyledText(*pieces)))
    text = StyledText(*pieces)
    assert read.plain == text
    assert len(read.spans) == sum(bool(span.style) for span in text.spans)


def test_untrusted_escape_sequences_have_no_effect() -> None:
    for name in NAMES.values():
        for line in Layout(None).parts([LayoutPart(name, Style.BAD)], 0, 0):
            assert re.findall(r"\x1b.*?m", paint_line(line)) == ["\x1b[31m", "\x1b[0m"]


def test_only_a_terminal_gets_escape_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    for colour, expected in ((False, "a\n"), (True, "\x1b[1ma\x1b[0m\n")):
        stream = io.StringIO()
        output = Output(stream)
        monkeypatch.setattr(output, "colour", colour)
        output.line(StyledText(Span("a", Style.STRONG)))
        output.flush()
        assert stream.getvalue() == expected
