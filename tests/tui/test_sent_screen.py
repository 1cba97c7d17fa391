# SPDX-License-Identifier: Apache-2.0
"""Sending only the cells that differ leaves the same screen as sending everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from nri_scope.tui.terminal import SentScreen
from tests.tui.emulator import Emulator

WIDTH, HEIGHT = 12, 3
_COLORS = st.sampled_from([None, *map(Color.parse, ("#102030", "#a0b0c0", "red", "bright_blue"))])
_STYLES = st.builds(
    lambda color, background, words: Style.parse(words) + Style(color=color, bgcolor=background),
    _COLORS,
    _COLORS,
    st.sampled_from(["", "bold", "dim", "bold dim", "underline", "reverse"]),
)


def _rows(alphabet: str) -> st.SearchStrategy[Strip]:
    segments = st.builds(Segment, st.text(alphabet, max_size=6), _STYLES, st.none())
    return st.builds(
        lambda parts, blank: Strip(parts).adjust_cell_length(WIDTH, blank),
        st.lists(segments, max_size=4),
        _STYLES,
    )


def _sent(screen: SentScreen, y: int, x: int, strip: Strip) -> bytes:
    return screen.update([(y, x, strip)], ColorSystem.TRUECOLOR).encode()


_COLUMNS = st.integers(0, WIDTH)
_PARTS = st.builds(
    lambda y, one, other, row: (y, min(one, other), row.crop(min(one, other), max(one, other))),
    st.integers(0, HEIGHT - 1),
    _COLUMNS,
    _COLUMNS,
    _rows("ab  ·"),
)
_WHOLE_ROWS = st.tuples(st.integers(0, HEIGHT - 1), st.just(0), _rows("ab  ·日"))


@given(st.one_of(st.lists(_PARTS, max_size=12), st.lists(_WHOLE_ROWS, max_size=12)))
def test_differences_leave_the_screen_that_textual_draws(
    updates: list[tuple[int, int, Strip]],
) -> None:
    console = Console(color_system="truecolor", force_terminal=True)
    textual, ours = Emulator(WIDTH, HEIGHT), Emulator(WIDTH, HEIGHT)
    sent = SentScreen()
    for y, x, strip in updates:
        drawn = LayoutUpdate([[strip]], Region(x, y, strip.cell_length, 1))
        textual.feed(drawn.render_segments(console).encode())
        ours.feed(_sent(sent, y, x, strip))
        assert ours.looks() == textual.looks()


def test_equal_rows_send_nothing_and_a_forgotten_screen_everything() -> None:
    sent = SentScreen()
    strip = Strip([Segment("name", Style(bold=True)), Segment("   ", Style(dim=True))])
    assert _sent(sent, 0, 0, strip) == b"\x1b[1;1H\x1b[1mname   \x1b[m"
    assert _sent(sent, 0, 0, strip) == b""
    sent.forget()
    assert b"name   " in _sent(sent, 0, 0, strip)


def test_a_changed_digit_sends_this_digit() -> None:
    sent = SentScreen()
    for text, expected in (("row 17", b"\x1b[2;4Hrow 17"), ("row 18", b"\x1b[2;9H8")):
        out = _sent(sent, 1, 3, Strip([Segment(text)]))
        assert out == expected + b"\x1b[m"
