# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.scenario.manifest.field import (
    MAX_DEPTH,
    ManifestValue,
    parse_documents,
)
from nri_scope.text.yaml_reader import MAX_VALUES, MalformedYaml

# Keys in YAML have 1,024 characters at most, escapes included.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x7f\x85\ufeff"), max_size=80
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def plain(node: ManifestValue) -> object:
    if isinstance(node.value, dict):
        return {key: plain(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def parsed(text: str) -> list[object]:
    return [plain(node) for node in parse_documents(text)]


@given(st.dictionaries(TEXT, PLAIN, min_size=1, max_size=4))
def test_json_and_yaml_are_read_back(value: dict[str, object]) -> None:
    assert parsed(json.dumps(value)) == [value]
    assert parsed(json.dumps(value, indent="\t")) == [value]
    assert parsed(yaml.safe_dump(value, default_style='"')) == [value]


@given(st.text() | st.text("{}[]:,-&*!<'\" \n\tab0").filter(bool))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    line = 0
    try:
        parse_documents(text)
    except MalformedYaml as error:
        line = error.line
    # YAML also breaks lines at other characters.
    assert 0 <= line <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("0644", 0o644),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1.10", 1.1),
        ("1e3", 1000.0),
        ("1.2.3", "1.2.3"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("2026-01-01", "2026-01-01"),
        ("9" * 65, "9" * 65),
    ],
)
def test_scalars_have_the_types_of_kubectl(text: str, value: object) -> None:
    (node,) = parse_documents(f"a: {text}")
    found = cast("dict[str, ManifestValue]", node.value)["a"].value
    assert found == value and type(found) is type(value)


def test_lines_are_those_of_keys_and_items() -> None:
    (node,) = parse_documents("a:\n  b:\n  - 1\n  - c: 2\n")
    a = cast("dict[str, ManifestValue]", node.value)["a"]
    b = cast("dict[str, ManifestValue]", a.value)["b"]
    assert (a.line, b.line) == (1, 2)
    assert [item.line for item in cast("list[ManifestValue]", b.value)] == [3, 4]


def test_documents_are_read_without_empty_ones() -> None:
    assert parsed("---\na: 1\n---\n---\n# nothing\n---\nb: &x [1]\nc: *x\n") == [
        {"a": 1},
        {"b": [1], "c": [1]},
    ]


def test_anchors_do_not_multiply_values() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    with pytest.raises(MalformedYaml, match=f"{MAX_VALUES:,}"):
        parse_documents("\n".join(lines))
    lines = ["a0: &a0 [1]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, MAX_DEPTH + 2)]
    with pytest.raises(MalformedYaml, match="deeper"):
        parse_documents("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\na: 2", 2, "listed twice"),
        ("a: *b", 1, "no earlier anchor"),
        ("a:\n  <<: {b: 1}", 2, "merge keys"),
        ("a: !!python/none x", 1, "tag"),
        ("? [a]\n: b", 1, "key"),
        ("a: !!int x", 1, "tag"),
        ('{"a": "\\ud800"}', 1, "not YAML"),
        ("a: [\n", 2, "not YAML"),
        ("a\x00b", 1, "not YAML"),
    ],
)
def test_errors_have_a_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(MalformedYaml, match=problem) as caught:
        parse_documents(text)
    assert caught.value.line == line
