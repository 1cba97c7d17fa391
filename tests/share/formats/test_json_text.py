# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.share.formats.exported_part import MAX_DEPTH, json_line, json_text

TEXTS = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
"""Small values; deep and wide ones have separate tests."""
SOUND = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=4), max_leaves=8
)


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


@given(VALUES)
def test_any_value_is_encoded_as_json_in_utf8(value: Any) -> None:
    line, text = json_line(value), json_text(value)
    for encoded in (line, text):
        read = json.loads(encoded.encode().decode(), parse_constant=_refuse)
        # Raises if there is a lone surrogate.
        json.dumps(read, ensure_ascii=False).encode()
    # One line of printable ASCII.
    assert line.isascii() and line.isprintable()


@given(SOUND)
def test_portable_values_are_unchanged(value: Any) -> None:
    assert json.loads(json_line(value)) == json.loads(json_text(value)) == value


@pytest.mark.parametrize("encode", [json_line, json_text])
def test_lone_surrogates_are_escaped(encode: Any) -> None:
    assert json.loads(encode({"\ud800": ["\udfff", "🐳"]})) == {"\\ud800": ["\\udfff", "🐳"]}


@pytest.mark.parametrize("encode", [json_line, json_text])
def test_infinity_and_nan_are_texts(encode: Any) -> None:
    assert json.loads(encode([float("inf"), float("nan"), 1.5])) == ["inf", "nan", 1.5]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 20_000])
@pytest.mark.parametrize("encode", [json_line, json_text])
def test_deep_values_are_cut(encode: Any, depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    assert encode(value) == "[" * MAX_DEPTH + encode("…") + "]" * MAX_DEPTH


@pytest.mark.parametrize("encode", [json_line, json_text])
def test_wide_values_are_not_cut(encode: Any) -> None:
    value = [[n] for n in range(10 * MAX_DEPTH)] + ["[" * 10 * MAX_DEPTH]
    assert json.loads(encode(value)) == value
