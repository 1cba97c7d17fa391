# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of filters, compiled by RE2."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.errors import FilterError
from nri_scope.filter.text_comparison import Regex


@settings(deadline=None)
@given(st.text(max_size=12), st.text(max_size=8))
def test_any_pattern_is_compiled_or_a_filter_error(pattern: str, text: str) -> None:
    position = 0
    try:
        assert Regex(pattern).search(text) in (True, False)
    except FilterError as error:
        position = error.position
    assert 0 <= position <= len(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        ("(?i)WEB-[0-9]+", "my-web-12", True),
        ("(?i)é", "É", True),
        ("web-[0-9]+", "WEB-1", False),
        ("^web$", "web", True),
        ("^web$", "web\n", False),
        (r"\bdb\b", "my-db-0", True),
        (r"\bdb\b", "mydb-0", False),
        ("a|^$", "", True),
        ("a", "\ud800a", True),
    ],
)
def test_pattern_examples(pattern: str, text: str, is_match: bool) -> None:
    assert Regex(pattern).search(text) is is_match


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a(b", "missing ): a(b"),
        ("ab)", "unexpected ): ab)"),
        ("*a", "no argument for repetition"),
        ("[b-a]", "invalid character class range"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?=a)", "invalid perl operator"),
        ("(((a{99}){99}){99}){99}", "repetition"),
        ("\ud800", "not valid text"),
    ],
)
def test_an_invalid_pattern_is_explained(pattern: str, problem: str) -> None:
    with pytest.raises(FilterError) as caught:
        Regex(pattern)
    assert problem in str(caught.value)


def test_exponential_patterns_match_in_bounded_memory() -> None:
    """Check a pattern on which Python's ``re`` would practically never end."""
    tracemalloc.start()
    try:
        assert not Regex("(a+)+(a|a)*(a*)*$b").search("a" * 100_000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
