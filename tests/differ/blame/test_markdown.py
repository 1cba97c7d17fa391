# SPDX-License-Identifier: Apache-2.0
"""A container's lines as Markdown."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.attribution.history import History
from nri_scope.differ.blame import body, lines, markdown, view
from nri_scope.differ.blame.markdown import fenced
from tests.differ.render.samples import ENV

from .histories import turns


def _markdown(found: History) -> list[str]:
    told = lines(found)
    return list(markdown(found, told, *body(view(told, "changed"))))


def test_it_can_be_pasted_into_an_issue() -> None:
    found = turns({"annotations": {"a": "x"}}, (ENV, {"annotations": {"a": "y"}}))
    found.remarks.append("nobody saw what plugins before 50 did")
    assert _markdown(found) == [
        "### `shop/web/app`",
        "",
        "`aaaaaaaaaaaa`, created by event 14: 1 line; changed: 30-env-injector 1",
        "",
        "- nobody saw what plugins before 50 did",
        "",
        "```text",
        "                   │annotations:",
        "30-env-injector T ~│  a: 'y'  # was x",
        "```",
        "",
        "- T: the plugin's own reply (tap)",
    ]


@given(st.lists(st.text("`~ab\n", max_size=12).map(lambda text: text.replace("\n", ""))))
def test_nothing_ends_the_block_but_its_end(content: list[str]) -> None:
    first, *inner, last = fenced(content)
    assert inner == content
    assert first == f"{last}text" and set(last) == {"`"} and len(last) >= 3
    assert not any(last in line for line in inner)


def test_what_strangers_named_stays_text() -> None:
    found = turns({}, (replace(ENV, plugins=("30-<b>|@me",)), {"annotations": {"```": "</pre>"}}))
    found = replace(found, name="a`b/<img>/#1", failure="see http://x `y`")
    found.remarks.append("<script>")
    said = _markdown(found)
    block = said.index("````text")
    outside = [*said[:block], *said[said.index("````") + 1 :]]
    for line in outside:
        rest = re.sub(r"<code>[^<]*</code>|`[^`]*`", "", line)
        assert "<" not in rest and "@" not in rest and "http" not in rest
