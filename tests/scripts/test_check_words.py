# SPDX-License-Identifier: Apache-2.0
"""Tests of the word list: it finds its words at any place, and accepts ordinary sentences."""

import pytest

from scripts.check_words import files, findings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Nobody asked.\n", "Nobody"),
        ('"""Asked in\n    vain."""', "in vain"),
        ("# asked in\n# vain\n", "in vain"),
        ('say("what is"\n    " no event")', "what is no"),
        ("the files of a\nstranger", "stranger"),
        ("a process of ours", "process of ours"),
    ],
)
def test_finds_a_word(text: str, words: str) -> None:
    assert [found for _, found, _ in findings(text)] == [words]


def test_reports_the_line() -> None:
    assert [line for line, _, _ in findings("one\n\nlikewise\nwhoever\n")] == [3, 4]


@pytest.mark.parametrize(
    "text",
    ["Return the newer event.", "uid = nobody_uid", "what is not known", "in vanilla"],
)
def test_plain_words_pass(text: str) -> None:
    assert list(findings(text)) == []


def test_generated_code_is_excluded() -> None:
    assert not any("_gen" in path.parts for path in files())
