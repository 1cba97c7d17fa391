# SPDX-License-Identifier: Apache-2.0
"""Longest string at a position of a text, after any additions and removals."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.share.redaction import longest_prefix
from nri_scope.share.redaction.longest_prefix import PrefixIndex, PrefixSet

_STRINGS = st.text("ab", min_size=1, max_size=9)


@given(
    steps=st.lists(st.tuples(st.booleans(), _STRINGS), max_size=40),
    texts=st.lists(st.text("abc", max_size=14), min_size=1, max_size=5),
    often=st.booleans(),
    begin=st.sampled_from([0, 1, 3]),
    most=st.sampled_from([2, 3, 1_000]),
)
def test_the_longest_prefix_is_found(
    steps: list[tuple[bool, str]], texts: list[str], often: bool, begin: int, most: int
) -> None:
    with patch.object(longest_prefix, "MAX_BLOCK", most):
        _check_steps(steps, texts, often, begin)


def _check_steps(steps: list[tuple[bool, str]], texts: list[str], often: bool, begin: int) -> None:
    index = PrefixIndex(begin) if begin else PrefixSet()
    present: set[str] = set()

    def check() -> None:
        for text in texts:
            for start in range(len(text)):
                for end in range(start, len(text) + 1):
                    best = max((v for v in present if text[start:end].startswith(v)), default="")
                    assert (index.longest_at(text, start, end) or "") == best

    for is_added, string in steps:
        # No value is shorter than the prefix of the index.
        value = string.ljust(begin, "a")
        if is_added and value not in present:
            index.add(value)
            present.add(value)
        elif not is_added and value in present:
            index.remove(value)
            present.discard(value)
        if often:
            check()
    check()


def test_the_longest_of_many_nested_prefixes_is_found() -> None:
    index = PrefixSet()
    for length in range(1, 300):
        index.add("x" * length)
    index.add("x" * 400 + "y")

    assert index.longest_at("x" * 20 + "z", 0, 21) == "x" * 20
    assert index.longest_at("x" * 400, 0, 400) == "x" * 299
    assert index.longest_at("x" * 400, 0, 7) == "x" * 7
