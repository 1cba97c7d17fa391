# SPDX-License-Identifier: Apache-2.0
"""Repeated messages are counted each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.share.redaction import engine as tallies
from nri_scope.share.redaction.engine import ReplacementCounts

FOUND = st.lists(
    st.tuples(st.sampled_from(["env-values", "urls"]), st.sampled_from("abcde")), max_size=4
).map(tuple)


@given(st.lists(FOUND, max_size=30), st.integers(0, 8))
def test_a_repeated_message_counts_like_a_new_one(
    messages: list[tuple[tuple[str, str], ...]], remembered: int
) -> None:
    each, repeated = ReplacementCounts(), ReplacementCounts()
    kept, tallies._MAX_REPEATED = tallies._MAX_REPEATED, remembered
    try:
        for found in messages:
            for rule, place in found:
                each.add(rule, place)
            repeated.repeat(found)
        assert repeated.total == each.total == sum(map(len, messages))
        assert repeated.by_rule() == each.by_rule()
        assert list(repeated) == list(each)
    finally:
        tallies._MAX_REPEATED = kept
