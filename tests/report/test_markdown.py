# SPDX-License-Identifier: Apache-2.0
"""The Markdown fits into an issue and shows a recording's texts only as text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from nri_scope.recording.reading.reader import Recording
from nri_scope.report.collect import collect
from nri_scope.report.limits import MARKDOWN_MAX
from nri_scope.report.markdown import markdown
from nri_scope.report.report_data import Facts
from tests.amount import amount
from tests.replay.recordings import of_capture
from tests.tui.hostile import INVISIBLE, hostile_recording

from . import problem_recordings

OURS = re.compile(r"</?(?:details|summary|sub|code)>|<details><summary>|</summary>", re.IGNORECASE)
PARSER = MarkdownIt("gfm-like")
"""As GitHub reads it, bare addresses included."""
EVIL = [
    "```\n# heading\n```",
    "@everyone #1 GH-26 octo/repo#3 deadbeefcafe https://evil.example www.evil.example",
    "[a](https://evil.example) ![i](https://evil.example/i.png) <https://evil.example>",
    "<script>alert(1)</script></details></code><img src=x>",
    "| a | b |\n|---|---|\n| c | d |",
    "`` ` ``` ` ``",
    "- [ ] task\n1. one\n> quote\n---\n***bold*** ~~gone~~ _it_",
    "$$x$$ :tada: &lt;script&gt; &#60;b&#62; \\` \\|",
]


def facts_of(path: Path) -> Facts:
    with Recording.open(path) as recording:
        return collect(recording)


def tokens(text: str) -> list[Token]:
    found: list[Token] = []
    for token in PARSER.parse(text):
        found.append(token)
        found += token.children or []
    return found


def assert_is_only_text(text: str) -> None:
    in_code = False
    for token in tokens(text):
        assert token.type not in ("link_open", "image", "code_block", "fence"), token
        if token.type in ("html_inline", "html_block"):
            rest = OURS.sub("", token.content)
            assert "<" not in rest, token.content
            in_code = token.content == "<code>"
        if token.type == "text" and not in_code:
            # GitHub links these in prose, but not in code.
            assert not re.search(r"[@#]\w|\bGH-\d|\b[0-9a-f]{7,40}\b", token.content), token.content
    assert not any(char in text for char in INVISIBLE)
    folds = "".join(token.content for token in tokens(text) if token.type == "html_block")
    assert folds.count("<details>") == folds.count("</details>")


def test_markdown_of_a_real_chain(tmp_path: Path) -> None:
    text = markdown(facts_of(of_capture("containerd-2.4-beta", tmp_path / "chain.nriscope.db")))
    assert_is_only_text(text)
    assert text.startswith("## NRI report: `chain.nriscope.db`\n")
    assert (
        '| `~` | `env FOO` | `"bar"` | `"overridden"` | 30-env-injector, seen in event 25 |' in text
    )
    # Bars within code are escaped, so that every table is parsed.
    tables = [token for token in tokens(text) if token.type == "table_open"]
    assert len(tables) == 6


def test_a_hostile_recording_is_text(tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "hostile.nriscope.db")
    text = markdown(facts_of(path))
    assert_is_only_text(text)
    assert len(text) <= MARKDOWN_MAX


@pytest.mark.parametrize("evil", EVIL)
def test_markdown_in_names_is_text(evil: str, tmp_path: Path) -> None:
    assert_is_only_text(markdown(facts_of(problem_recordings.named(tmp_path, evil))))


@settings(
    max_examples=amount(25, 25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.text("`|@#<>[]()*_~\\\n&-! abG1./:h", min_size=1, max_size=30))
def test_generated_names_are_text(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("named")
    assert_is_only_text(markdown(facts_of(problem_recordings.named(folder, name))))


def test_a_long_report_is_cut_between_parts_and_lists_the_omitted(tmp_path: Path) -> None:
    facts = facts_of(of_capture("containerd-2.4-beta", tmp_path / "chain.nriscope.db"))
    whole = markdown(facts)
    assert "Omitted" not in whole
    for max_length in (2_500, 4_000, 6_000):
        text = markdown(facts, max_length)
        assert len(text) <= max_length
        assert_is_only_text(text)
        assert "**Omitted for lack of space:**" in text
        assert "The HTML report contains them." in text


def test_many_containers_stay_within_the_limit(tmp_path: Path) -> None:
    text = markdown(facts_of(problem_recordings.many_changes(tmp_path)))
    assert len(text) <= MARKDOWN_MAX
    assert "× container's changes" in text
    assert_is_only_text(text)


def test_findings_come_first(tmp_path: Path) -> None:
    text = markdown(facts_of(problem_recordings.healthy(tmp_path)))
    assert text.index("### Findings") < text.index("### The chain") < text.index("### Sessions")
    assert "No findings." in text
