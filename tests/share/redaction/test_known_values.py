# SPDX-License-Identifier: Apache-2.0
"""Places in which known values are replaced."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.share.redaction import known_values as subject
from nri_scope.share.redaction.known_values import KnownValues, Strength
from nri_scope.share.redaction.limits import Memory
from nri_scope.share.redaction.tokens import PLAIN_TOKEN, Tokens

KEY = bytes(range(32))
_VALUES = st.text("ab-", min_size=6, max_size=12).filter(lambda text: text.strip("-") != "")


@pytest.mark.parametrize("long", [1024, 8, 0], ids=["short", "both", "long"])
@given(values=st.sets(_VALUES, max_size=8), text=st.text("ab- ", max_size=60), at=st.data())
def test_the_first_and_longest_value_is_replaced_and_tokens_are_unchanged(
    long: int, values: set[str], text: str, at: st.DataObject
) -> None:
    token = "redacted-abababababab"
    middle = at.draw(st.integers(0, len(text)))
    text = text[:middle] + token + text[middle:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject, "_LONG_LENGTH", long)
        known = KnownValues(Tokens(KEY), Memory())
        for value in values:
            known.add(value, "rule", Strength.SECRET)
        shown, _ = known.replace(text)

    everywhere = {one.value for one in known.originals() if one.is_searchable}
    assert shown == _expected(known, text, everywhere)


def _expected(known: KnownValues, text: str, values: set[str]) -> str:
    tokens = [match.span() for match in re.finditer(PLAIN_TOKEN, text)]
    given_, at = "", 0
    while at < len(text):
        fitting = [
            value
            for value in values
            if text.startswith(value, at)
            and not any(start < at + len(value) and at < end for start, end in tokens)
        ]
        value = max(fitting, key=len, default="")
        given_ += known.add(value, "rule", Strength.SECRET) if value else text[at]
        at += len(value) or 1
    return given_


@pytest.mark.parametrize(("end", "text"), [("", "x" * 60_000), ("1", "x" * 60_000)])
def test_nested_values_are_found_in_a_text_of_one_letter(end: str, text: str) -> None:
    known = KnownValues(Tokens(KEY), Memory())
    for length in range(20, 1_520):
        known.add("x" * length + end, "rule", Strength.SECRET)
    shown, rules = known.replace(text + end)

    assert len(rules) == (1 if end else -(-60_000 // 1_519))
    assert re.sub(PLAIN_TOKEN, "", shown) == (f"{'x' * (60_000 - 1_519)}" if end else "")
