# SPDX-License-Identifier: Apache-2.0
"""Filters' regular expressions mean what Python's do, in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nri_scope.errors import FilterError
from nri_scope.recorder.filter.automaton import MAX_STEPS, Regex

ATOMS = ["a", "b", "c", ".", "^", "$", r"\b", r"\B", "[ab]", "[^a]", "[]a]", "[a-c-]", r"[\d_]"]
ATOMS += [r"\w", r"\d", r"\s", r"\S", r"\x61", r"\.", "-", "_", " ", "{", "{a}"]
REPEATS = ["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "*?", "+?", "??", "{0}"]
patterns = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: f"({'|'.join(items)})"),
        st.builds("(?:{}){}".format, inner, st.sampled_from(REPEATS)),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(patterns, st.text("abc-_ \n1é.{}", max_size=8))
def test_finds_what_python_finds(pattern: str, text: str) -> None:
    # Python itself changed its mind about this one in 3.14.
    assume(text or r"\B" not in pattern)
    # The end is the end here; Python's $ also matches before a last newline.
    wanted = re.search(pattern.replace("$", r"\Z"), text) is not None
    assert Regex(pattern).search(text) == wanted


@settings(deadline=None)
@given(st.text("()[]{}|*+?^$\\.-:i,=!<P1axbdwsZ", max_size=12))
def test_any_pattern_is_understood_or_refused(pattern: str) -> None:
    position = 0
    try:
        Regex(pattern).search("aXb1 ")
    except FilterError as error:
        position = error.position
    assert 0 <= position <= len(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?i)WEB-[0-9]+", "my-web-12", True),
        ("(?i)[a-z]", "É", False),
        ("(?i)é", "É", True),
        ("web-[0-9]+", "WEB-1", False),
        ("^web$", "web", True),
        ("^web$", "web\n", False),
        (r"\bdb\b", "my-db-0", True),
        (r"\bdb\b", "mydb-0", False),
        ("", "", True),
    ],
)
def test_examples(pattern: str, text: str, found: bool) -> None:
    assert Regex(pattern).search(text) is found


@pytest.mark.parametrize(
    ("pattern", "position", "problem"),
    [
        ("a(b", 1, "never closed"),
        ("ab)", 2, "closes nothing"),
        ("a[b", 1, "never closed"),
        ("*a", 0, "nothing to repeat"),
        ("a**", 2, "repeats a repetition"),
        ("a*+", 2, "repeats a repetition"),
        ("a{3,2}", 1, "smaller than the first"),
        ("[b-a]", 1, "backwards"),
        (r"(a)\1", 3, "back-references are not supported"),
        ("(?=a)", 0, "only (…)"),
        ("(?P<x>a)", 0, "only (…)"),
        (r"a\q", 1, "not a known escape"),
        ("a\\", 1, "lone backslash"),
        (r"\x4", 0, "hexadecimal"),
        (r"\U00110000", 0, "no such character"),
        ("(((a{99}){99}){99}){99}", 0, "too large"),
        ("(" * 50 + ")" * 50, 40, "more than 40"),
    ],
)
def test_a_bad_pattern_is_named_with_its_place(pattern: str, position: int, problem: str) -> None:
    with pytest.raises(FilterError) as caught:
        Regex(pattern)
    assert problem in str(caught.value)
    assert caught.value.position == position


def test_evil_patterns_cost_no_more_steps_than_the_text_has_characters() -> None:
    evil = Regex("(a+)+(a|a)*(a*)*$b")
    assert not evil.search("a" * 4000)
    # Two different characters have been seen after two different pasts, no more.
    assert evil._remembered <= 4


def test_remembered_steps_are_bounded_and_forgetting_changes_nothing() -> None:
    pattern = Regex("x(.)*y")
    text = "".join(chr(0x4E00 + n) for n in range(4000))
    for first in ("-", "xx", "-x", "--"):
        assert pattern.search(first + text + "y") is ("x" in first)
        assert pattern._remembered <= MAX_STEPS
