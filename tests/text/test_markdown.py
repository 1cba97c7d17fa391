# SPDX-License-Identifier: Apache-2.0
"""Text in Markdown, read with a CommonMark parser with GitHub's tables."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from nri_scope.text.escape import code, prose, safe

_HOSTILE = st.text() | st.text(alphabet="`|\\<>*_[]()!@#~&;\n -$www.https:/ab")
_OURS = {"<code>", "</code>"}


def tokens(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def inline(text: str) -> Iterator[Token]:
    for token in tokens(text):
        yield from token.children or ()


def texts(text: str) -> list[str]:
    """Return the visible text of all table cells."""
    found = []
    inside = False
    for token in tokens(text):
        if token.type in ("td_open", "th_open"):
            inside = True
        elif token.type in ("td_close", "th_close"):
            inside = False
        elif inside and token.type == "inline":
            found.append("".join(t.content for t in token.children or () if t.content not in _OURS))
    return found


@given(_HOSTILE)
@example("a\\|b")
@example("</code><img src=x onerror=alert(1)>")
@example("``` \n| a | b |")
@example("&#124;&lt;")
def test_hostile_text_is_one_code_span_in_one_cell(hostile: str) -> None:
    table = f"| a | b |\n|---|---|\n| {code(hostile)} | end |"
    found = texts(table)
    assert len(found) == 4
    assert found[2].split() == safe(hostile).split()
    assert found[3] == "end"
    assert {token.type for token in inline(table)} <= {"text", "code_inline", "html_inline"}
    assert {t.content for t in inline(table) if t.type == "html_inline"} <= _OURS


@given(_HOSTILE)
@example("see www.example.com")
@example("by @maintainer in #12")
@example("1. <b>")
def test_hostile_prose_is_text_or_code(hostile: str) -> None:
    text = f"- {prose(hostile)} end"
    types = {token.type for token in inline(text)}
    assert types <= {"text", "code_inline", "html_inline", "text_special"}
    if "code" not in text and "`" not in text:
        assert not {"@", "#", "<", "*", "_"} & set(prose(hostile))
        assert "www." not in text
