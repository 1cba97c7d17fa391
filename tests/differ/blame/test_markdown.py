# SPDX-License-Identifier: Apache-2.0
"""A container's lines as Markdown."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.attribution.history import History
from nri_scope.differ.blame import body, lines, markdown, view
from nri_scope.differ.blame.text import fenced
from tests.differ.render.samples import ENV

from .histories import history_of_turns


def _markdown(found: History) -> list[str]:
    all_lines = lines(found)
    return list(markdown(found, all_lines, *body(view(all_lines, "changed"))))


def test_changed_lines_of_a_container_as_markdown() -> None:
    found = history_of_turns({"annotations": {"a": "x"}}, (ENV, {"annotations": {"a": "y"}}))
    found.remarks.append("nobody saw what plugins before 50 did")
    assert _markdown(found) == [
        "### `shop/web/app`",
        "",
        "`aaaaaaaaaaaa`, created by event 14: 1 line; changed: 30-env-injector 1",
        "",
        "- nobody saw what plugins before 50 did",
        "- `~ changed`",
        "- T: plugin's reply",
        "",
        "```text",
        "                   │annotations:",
        "30-env-injector T ~│  a: 'y'  # was x",
        "```",
    ]


@given(st.lists(st.text("`~ab\n", max_size=12).map(lambda text: text.replace("\n", ""))))
def test_only_the_closing_fence_ends_the_block(content: list[str]) -> None:
    first, *inner, last = fenced(content)
    assert inner == content
    assert first == f"{last}text" and set(last) == {"`"} and len(last) >= 3
    assert not any(last in line for line in inner)


def test_untrusted_names_are_not_rendered_as_markup() -> None:
    found = history_of_turns(
        {}, (replace(ENV, plugins=("30-<b>|@me",)), {"annotations": {"```": "</pre>"}})
    )
    found = replace(found, name="a`b/<img>/#1", failure="see http://x `y`")
    found.remarks.append("<script>")
    printed = _markdown(found)
    block = printed.index("````text")
    outside = [*printed[:block], *printed[printed.index("````") + 1 :]]
    for line in outside:
        rest = re.sub(r"<code>[^<]*</code>|`[^`]*`", "", line)
        assert "<" not in rest and "@" not in rest and "http" not in rest
