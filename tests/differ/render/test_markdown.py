# SPDX-License-Identifier: Apache-2.0
"""Rendered Markdown, read with a CommonMark parser with GitHub's tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.owner import plugin
from nri_scope.differ.render import renderer
from nri_scope.differ.render.markdown import code, prose
from nri_scope.text.escape import safe
from tests.differ.render.samples import (
    ANSWER,
    CALM,
    CREATION,
    FAILED,
    SIDECAR,
    STEPS,
    name_of,
    step,
    with_step,
)

_HOSTILE = st.text() | st.text(alphabet="`|\\<>*_[]()!@#~&;\n -$www.https:/ab")
_OURS = {"<code>", "</code>"}


def markdown(*rounds: RoundDiff, live: bool = False, quiet: bool = False) -> list[str]:
    render = renderer("markdown", live=live, quiet_unchanged=quiet)
    lines = [*render.head("x.nriscope.db", ["runtime: containerd 2.1"])]
    for one in rounds:
        lines += render.round(one, name_of)
    return [*lines, *render.end()]


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


def test_containers_have_headings_and_events_have_tables() -> None:
    lines = markdown(CREATION, CALM, FAILED)
    assert lines.count("### `shop/web/app`") == 1
    assert "**CreateContainer** (event 14, 2023-11-14T22:13:20.000000Z)" in lines
    assert '| `~` | `env FOO` | `"bar"` | `"baz"` | 30-env-injector | tap | in effect |' in lines
    reason = "the earlier value is there in the spec that was used (event 20)"
    assert f"- `mounts[/data]`: dropped: {reason}" in lines
    assert "On another container, `shop/web/sidecar`:" in lines
    assert "- **failed**: `30-env-injector returned an error: no\\x1b[2Jway`" in lines
    cells = texts("\n".join(lines))
    assert len(cells) == 7 * (len(STEPS) + 2)


def test_events_without_a_change_are_collapsed_or_omitted() -> None:
    lines = markdown(CREATION, CALM, CALM)
    assert "<details><summary>2 operations without observed changes</summary>" in lines
    assert lines[lines.index("</details>") - 1] == ""
    assert not [x for x in markdown(CREATION, CALM, quiet=True) if "StartContainer" in x]


def test_long_tables_are_collapsed() -> None:
    many = tuple(step(f"/process/env/V{n}", None, "x", "added") for n in range(21))
    assert "<details><summary>21 requests and changes</summary>" in markdown(
        replace(CREATION, steps=many)
    )
    assert "<details>" not in "\n".join(markdown(replace(CREATION, steps=many[:20])))


def test_live_markdown_is_written_round_by_round() -> None:
    lines = markdown(CREATION, CALM, CREATION, live=True)
    assert lines.count("### `shop/web/app`") == 1
    assert lines.index("### `shop/web/app`") < next(n for n, x in enumerate(lines) if "Start" in x)


def test_live_markdown_repeats_a_request_when_its_outcome_is_known() -> None:
    assert markdown(ANSWER)[-1] == "No change seen."
    lines = markdown(ANSWER, live=True)
    assert "Outcome of earlier requests:" in lines
    assert len(texts("\n".join(lines))) == 7 * (len(ANSWER.settled) + 1)


def test_an_unchanged_round_says_so() -> None:
    assert "No change seen." in markdown(CALM)


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


@given(_HOSTILE, _HOSTILE, _HOSTILE)
def test_hostile_text_does_not_change_the_structure_of_a_round(
    path: str, value: str, words: str
) -> None:
    hostile = replace(
        step(f"/x/{path}", value, words, "changed", plugin(f"30-{words}")), note=words
    )
    side = step("/x", None, value, "added", container=SIDECAR)
    diff = replace(with_step(hostile), steps=(hostile, side), remarks=(words,), seen_by=(value,))
    text = "\n".join(markdown(diff))
    kinds = [token.type for token in tokens(text)]
    assert kinds.count("table_open") == 2
    assert kinds.count("td_open") == 14
    assert kinds.count("heading_open") == 1
    assert not {"html_block", "fence", "code_block", "blockquote_open", "hr"} & set(kinds)
    assert not {"link", "image"} & {token.type.partition("_")[0] for token in inline(text)}
