# SPDX-License-Identifier: Apache-2.0
"""Values as YAML in flow style."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.specs import Json
from nri_scope.text.escape import safe
from nri_scope.text.yaml_text import MAX_DEPTH, inline, key

TEXTS = (
    st.text(max_size=60)
    | st.text("ab:#-_=/. ,'\"[]{}\\0129\n\t~<*&!%@`|>?", max_size=60)
    | st.sampled_from(
        ["true", "No", "1e3", "0x1f", "null", "2001-01-01", "=", "<<", "a: b", "a #b", "- a", ".5"]
    )
)
SCALARS = TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False)
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=8,
)


@given(VALUES, st.sampled_from(["- ", "key: "]))
def test_values_round_trip(value: Json, head: str) -> None:
    line = f"  {head}{inline(value)}"
    assert safe(line) == line
    read = yaml.safe_load(line)
    assert (read[0] if head == "- " else read["key"]) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("FOO=bar", "FOO=bar"),
        ("", "''"),
        ("1000", "'1000'"),
        ("yes", "'yes'"),
        ("-c", "-c"),
        ("- c", "'- c'"),
        ("café ☕", "'café ☕'"),
        ("a\x1b[2J\u202e", '"a\\x1b[2J\\u202e"'),
        (None, "null"),
        (True, "true"),
        (1e30, "1.0e+30"),
        (math.inf, ".inf"),
        (["a", {"b": []}], "[a, {b: []}]"),
    ],
)
def test_values_have_a_readable_form(value: Json, text: str) -> None:
    assert inline(value) == text


def test_nan_round_trips() -> None:
    assert math.isnan(yaml.safe_load(inline(math.nan)))


def test_a_value_nested_too_deeply_is_cut() -> None:
    deep: Json = "x"
    for _ in range(100_000):
        deep = [deep]
    assert inline(deep) == "[" * MAX_DEPTH + '"…"' + "]" * MAX_DEPTH


@pytest.mark.parametrize("name", ["a", "a: b", "", "yes", "-", "a\nb", "{", "io.x/y"])
def test_keys_round_trip(name: str) -> None:
    assert yaml.safe_load(f"{key(name)} 1") == {name: 1}
