# SPDX-License-Identifier: Apache-2.0
"""Control and invisible characters are escaped."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from nri_scope.text.escape import MAX_MARKS, columns, is_narrow, safe

ANYTHING = st.text(st.characters(), max_size=20)
"""Any text, including surrogates, which stand for bytes that are not UTF-8."""


@settings(deadline=None)
@given(ANYTHING)
def test_only_printable_characters_remain(text: str) -> None:
    shown = safe(text)
    assert shown.isprintable()
    assert not any(unicodedata.category(char)[0] == "C" for char in shown)
    shown.encode()


@settings(deadline=None)
@given(ANYTHING)
def test_newlines_are_kept_on_request(text: str) -> None:
    shown = safe(text, newlines=True)
    assert shown.count("\n") == text.count("\n")
    assert shown.replace("\n", "").isprintable()


@settings(deadline=None)
@given(ANYTHING, st.integers(0, 30))
def test_text_is_cut_only_if_wider_than_requested(text: str, width: int) -> None:
    shown = safe(text, width)
    whole = safe(text)
    assert columns(shown) <= width
    assert shown == whole if columns(whole) <= width else shown.endswith("…") or width == 0


@settings(deadline=None)
@given(ANYTHING)
def test_escaping_is_idempotent(text: str) -> None:
    assert safe(safe(text)) == safe(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-0", "web-0"),
        ("", ""),
        ("größer 容器 🚀", "größer 容器 🚀"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\nb\r\tc\0", r"a\nb\r\tc\x00"),
        ("\x9b31m", r"\x9b31m"),
        ("safe\u202egpj.exe", r"safe\u202egpj.exe"),
        ("a\u200bb\ufeff\u00ad\u2066", r"a\u200bb\ufeff\xad\u2066"),
        ("a\u00a0b\u2028", r"a\xa0b\u2028"),
        ("\u3164\u115f\ufe0f", r"\u3164\u115f\ufe0f"),
        ("\U000e0041\U000e0100", r"\U000e0041\U000e0100"),
        ("\udcff\ud800", r"\udcff\ud800"),
        ("\uffff\u0378\ue000", r"\uffff\u0378\ue000"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        (r"a\x1b", r"a\x1b"),
    ],
)
def test_escaped_examples(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_a_width_escapes_newlines() -> None:
    assert safe("a\nb", newlines=True) == "a\nb"
    assert safe("a\nb", 10, newlines=True) == r"a\nb"


def test_combining_marks_are_limited() -> None:
    assert safe("e\u0301") == "e\u0301"
    piled = safe("z" + "\u0301" * 20)
    assert piled.count("\u0301") == MAX_MARKS


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
        ("容器容器", 8, "容器容器"),
        ("容器容器", 7, "容器容…"),
        ("容器容器", 6, "容器…"),
        ("a\x1b", 4, r"a\x…"),
    ],
)
def test_long_text_is_cut_visibly(text: str, width: int, shown: str) -> None:
    assert safe(text, width) == shown


def test_narrow_characters_are_one_column_wide() -> None:
    narrow = [char for char in map(chr, range(sys.maxunicode + 1)) if is_narrow(char)]
    assert {*" ~µ…▸"} <= {*narrow}
    assert {unicodedata.east_asian_width(char) for char in narrow} <= {"Na", "N", "A"}
    assert {unicodedata.combining(char) for char in narrow} == {0}
    assert {cell_len(char) for char in narrow} == {1}
