# SPDX-License-Identifier: Apache-2.0
"""Painted text becomes styled lines, with the same text."""

from __future__ import annotations

from nri_scope.differ.render.layout import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Layout, Part
from nri_scope.tui.text.styled_line import Style, lines_of, text_of
from tests.tui.hostile import NAMES


def test_every_colour_of_the_layout_has_a_style() -> None:
    layout = Layout(width=None, colour=True)
    for colour in (BOLD, DIM, RED, GREEN, YELLOW, CYAN):
        (found,) = lines_of([f"a {layout.paint(colour, 'b')} c"])
        plain, painted, rest = found
        assert (plain.text, painted.text, rest.text) == ("a ", "b", " c")
        assert plain.style == rest.style == Style.PLAIN != painted.style


def test_a_strangers_escapes_paint_nothing() -> None:
    layout = Layout(width=None, colour=True)
    for name in NAMES.values():
        plain = Layout(width=None, colour=False).parts([Part(name, RED)], 0, 0)
        painted = layout.parts([Part(name, RED)], 0, 0)
        assert [text_of(one) for one in lines_of(painted)] == plain
