# SPDX-License-Identifier: Apache-2.0
"""Values as YAML in flow style."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.specs import Json
from nri_scope.text.escape import columns, safe
from nri_scope.text.yaml_text import FLOW_DEPTH_MAX, fill, inline, key

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


@given(VALUES, st.sampled_from([None, 20, 40, 80]), st.sampled_from(["- ", "key: "]))
def test_values_round_trip(value: Json, width: int | None, head: str) -> None:
    lines = fill(f"  {head}", value, width, 6)
    assert all(safe(line) == line for line in lines)
    read = yaml.safe_load("\n".join(lines))
    assert (read[0] if head == "- " else read["key"]) == value


@given(st.text(max_size=200), st.integers(24, 80))
def test_long_texts_fit_the_width(text: str, width: int) -> None:
    # The escape of a character takes up to ten columns and is not broken.
    assert all(columns(line) <= width for line in fill("  - ", text, width, 6))


def test_lists_are_broken_between_their_members() -> None:
    assert fill("args: ", ["/bin/sh", "-c", "sleep 1"], 20, 4) == [
        "args: [/bin/sh, -c,",
        "    sleep 1]",
    ]


def test_a_long_text_continues_on_the_next_line() -> None:
    assert fill("- ", "PATH=/usr/local/sbin:/usr/local/bin", 24, 4) == [
        '- "PATH=/usr/local/\\',
        '    sbin:/usr/local/bin"',
    ]


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
    (line,) = fill("", deep, None, 2)
    assert line == "[" * FLOW_DEPTH_MAX + '"…"' + "]" * FLOW_DEPTH_MAX


@pytest.mark.parametrize("name", ["a", "a: b", "", "yes", "-", "a\nb", "{", "io.x/y"])
def test_keys_round_trip(name: str) -> None:
    assert yaml.safe_load(f"{key(name)} 1") == {name: 1}
