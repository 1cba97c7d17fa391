# SPDX-License-Identifier: Apache-2.0
"""Layout of text in lines of a given width."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from nri_scope.text.escape import columns, safe
from nri_scope.text.styled_text import Layout, LayoutPart, Style, break_text, paint_line


@given(st.lists(st.text(max_size=200), max_size=4), st.integers(40, 100))
@example(["\x1b[2J" * 30, "日本" * 40, "a\u202eb"], 80)
def test_lines_fit_the_width_and_keep_all_text(texts: list[str], width: int) -> None:
    lines = Layout(width).parts([LayoutPart(text) for text in texts], 2, 6)
    assert all(columns(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join("".join(map(safe, texts)).split())


def test_parts_share_a_line_if_they_fit() -> None:
    layout = Layout(40)
    parts = [
        LayoutPart("+ /process/env/FOO"),
        LayoutPart('"a long value"'),
        LayoutPart("by 30-x (tap)"),
    ]
    assert layout.parts(parts, 2, 6) == [
        '  + /process/env/FOO  "a long value"',
        "      by 30-x (tap)",
    ]
    assert Layout(None).parts(parts, 2, 6) == [
        '  + /process/env/FOO  "a long value"  by 30-x (tap)'
    ]


def test_lines_are_broken_at_spaces_rather_than_within_words() -> None:
    assert break_text("one two three/four five", 22, 22) == ["one two three/four", "five"]
    assert break_text("/usr/local/bin:/usr/bin:/bin", 20, 20) == [
        "/usr/local/bin:/usr/",
        "bin:/bin",
    ]
    assert break_text("x" * 45, 20, 20) == ["x" * 20, "x" * 20, "x" * 5]


def test_colours_surround_the_escaped_text() -> None:
    (line,) = Layout(80).sentence("a\x1b[2Jb", 0, Style.BAD)
    assert line == "a\\x1b[2Jb"
    assert paint_line(line) == "\x1b[31ma\\x1b[2Jb\x1b[0m"
