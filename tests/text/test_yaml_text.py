# SPDX-License-Identifier: Apache-2.0
"""Readable YAML that round-trips and is safe to print on a terminal."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.nri.plain import Plain
from nri_scope.text.escape import safe
from nri_scope.text.yaml_text import MAX_DEPTH, FlowMapping, scalar, to_yaml

texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\x1b\u202e\u0301:#'\"\\- \t"),
    max_size=12,
)
WORDS = ["y", "Yes", "no", "ON", "off", "true", "null", "~", "=", "<<", ".inf", "-.INF", ".nan"]
WORDS += ["0b1", "0o7", "017", "0x1f", "1_0", "1:30", "1e3", "2001-01-01"]
values: st.SearchStrategy[Plain] = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts, inner, max_size=3)
        | st.dictionaries(texts, inner, max_size=3).map(FlowMapping)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(values)
def test_values_round_trip_and_are_escaped(value: Plain) -> None:
    written = to_yaml(value)
    assert safe(written, newlines=True) == written
    assert yaml.safe_load(written) == value


@settings(deadline=None)
@given(texts, st.dictionaries(texts, texts | st.integers() | st.none(), min_size=1, max_size=3))
def test_long_lists_use_the_fast_path_and_round_trip(key: str, line: dict[str, Plain]) -> None:
    lines: list[Plain] = [FlowMapping(line)] * 20
    value: Plain = {"first": 1, key: lines, "last": {}}
    written = to_yaml(value)
    assert safe(written, newlines=True) == written
    assert yaml.safe_load(written) == value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"env": ["A=b", "C=é d"]}, "env:\n  - A=b\n  - 'C=é d'\n"),
        ({"note": "- a\n- b\n"}, "note: |\n  - a\n  - b\n"),
        ({"evil": "\x1b[2J\u202e"}, 'evil: "\\x1b[2J\\u202e"\n'),
        (
            {"events": [FlowMapping(id=1, event="StopContainer")]},
            "events:\n  - {id: 1, event: StopContainer}\n",
        ),
        ({"version": "1.10", "off": "no"}, "version: '1.10'\n'off': 'no'\n"),
        ({"request": {}}, "request: {}\n"),
    ],
)
def test_written_examples(value: Plain, written: str) -> None:
    assert to_yaml(value) == written


def test_long_values_stay_on_one_line() -> None:
    assert to_yaml({"key": "word " * 500}).count("\n") == 1


@given(texts | st.text("0123456789.:-+eExXobTZtryf _", max_size=12) | st.sampled_from(WORDS))
def test_plain_scalars_are_strings_to_pyyaml(text: str) -> None:
    """PyYAML's resolver is independent of the tested patterns."""
    if scalar(text) == text:
        resolver = yaml.SafeLoader.yaml_implicit_resolvers
        patterns = [*resolver.get(text[:1], []), *resolver.get(None, [])]
        assert not any(pattern.match(text) for _, pattern in patterns)


def test_a_value_nested_too_deeply_is_cut() -> None:
    deep: Plain = "x"
    for _ in range(100_000):
        deep = {"a": [deep]}
    written = to_yaml({"a": deep})
    assert written.count("\n") < 2 * MAX_DEPTH and '"…"' in written
    assert yaml.safe_load(written)["a"]["a"]
