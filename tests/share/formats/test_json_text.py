# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.share.formats.json_text import MAX_DEPTH, json_line, json_text

TEXTS = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
"""Small ones: what is deep or wide has tests of its own."""
SOUND = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=4), max_leaves=8
)


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


@given(VALUES)
def test_whatever_it_is_becomes_json_in_utf8(value: Any) -> None:
    line, text = json_line(value), json_text(value)
    for told in (line, text):
        read = json.loads(told.encode().decode(), parse_constant=_refuse)
        # No half of a pair is left.
        json.dumps(read, ensure_ascii=False).encode()
    # One line of printable ASCII.
    assert line.isascii() and line.isprintable()


@given(SOUND)
def test_what_every_program_reads_stays_as_it_is(value: Any) -> None:
    assert json.loads(json_line(value)) == json.loads(json_text(value)) == value


@pytest.mark.parametrize("encode", [json_line, json_text])
def test_halves_of_pairs_are_told_in_words(encode: Any) -> None:
    assert json.loads(encode({"\ud800": ["\udfff", "🐳"]})) == {"\\ud800": ["\\udfff", "🐳"]}


@pytest.mark.parametrize("encode", [json_line, json_text])
def test_what_is_no_number_is_a_text(encode: Any) -> None:
    assert json.loads(encode([float("inf"), float("nan"), 1.5])) == ["inf", "nan", 1.5]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 20_000])
@pytest.mark.parametrize("encode", [json_line, json_text])
def test_what_is_too_deep_is_cut(encode: Any, depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    assert encode(value) == "[" * MAX_DEPTH + encode("…") + "]" * MAX_DEPTH


@pytest.mark.parametrize("encode", [json_line, json_text])
def test_what_is_wide_is_not_cut(encode: Any) -> None:
    value = [[n] for n in range(10 * MAX_DEPTH)] + ["[" * 10 * MAX_DEPTH]
    assert json.loads(encode(value)) == value
