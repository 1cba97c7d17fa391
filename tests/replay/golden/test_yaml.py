# SPDX-License-Identifier: Apache-2.0
"""Goldens as YAML that every parser reads; hostile documents are rejected."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope.errors import UsageError
from nri_scope.nri.plain import Plain
from nri_scope.replay.golden.matchers import (
    Expected,
    Ignored,
    Present,
    RegexMatcher,
    Tolerance,
    parse_matcher,
)
from nri_scope.text import yaml_reader
from nri_scope.text.escape import safe
from nri_scope.text.yaml_reader import MalformedYaml, Node
from nri_scope.text.yaml_text import FlowList, YamlValue, inline
from nri_scope.text.yaml_text import to_yaml as to_any_yaml

from .replies import as_expected, plains, texts


def to_yaml(value: YamlValue) -> str:
    """Return YAML in the style of goldens."""
    return to_any_yaml(value, short_lists=True)


def parse_yaml(text: str) -> Node:
    """Parse a document with matchers."""
    return yaml_reader.parse_yaml(text, parse_matcher)


documents: st.SearchStrategy[dict[str, Plain]] = st.dictionaries(texts, plains, max_size=4)


def is_pattern(text: str) -> bool:
    try:
        parse_matcher("!regex", text)
    except UsageError:
        return False
    return True


patterns = texts.filter(is_pattern).map(RegexMatcher)


@settings(deadline=None)
@given(documents)
def test_every_yaml_parser_reads_the_written_document(document: dict[str, Plain]) -> None:
    written = to_yaml({key: as_expected(value) for key, value in document.items()})
    assert safe(written, newlines=True) == written
    assert parse_yaml(written or "{}").tree() == (document or {})
    assert yaml.load(written, Loader=yaml.SafeLoader) == document
    assert yaml.load(written, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) == document


@example("a", ["0?", "b, c"], "d")
@given(texts, st.lists(texts, max_size=40), texts)
def test_a_list_on_one_line_is_read(key: str, items: list[str], last: str) -> None:
    written = to_yaml({key + "!": FlowList(items), last: last} if key + "!" != last else {})
    if written:
        assert parse_yaml(written).tree() == {key + "!": items, last: last}


@given(st.dictionaries(texts, patterns | st.lists(patterns, max_size=3), min_size=1, max_size=3))
@example({"a": RegexMatcher("\\d+ 'x' \"y\" #")})
def test_patterns_are_read_as_written(document: dict[str, Expected]) -> None:
    assert parse_yaml(to_yaml(document)).tree() == document


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"a": RegexMatcher("^'.*$")}, "a: !regex '^''.*$'\n"),
        ({"a": Tolerance(5, "1.5", True)}, "a: !tolerance 5 ±1.5%\n"),
        ({"a": [Present(), Ignored()]}, "a:\n  - !present\n  - !ignored\n"),
        ({"a": "x\ny\n", "b": "x\n\ny"}, "a: |\n  x\n  y\nb: |-\n  x\n\n  y\n"),
        ({"v": "1.10", "off": "no", "n": 5}, "v: '1.10'\n'off': 'no'\n'n': 5\n"),
        ({"evil": "\x1b[2J\u202e\\"}, 'evil: "\\x1b[2J\\u202e\\\\"\n'),
        ({"a": [], "b": {}, "c": ""}, "a: []\nb: {}\nc: ''\n"),
        ({"args": ["sh", "-c", "a, b"]}, "args: [sh, -c, 'a, b']\n"),
        ({"hooks": [{"path": "/a", "env": {"A": "1"}}]}, None),
    ],
)
def test_examples(value: dict[str, Expected], written: str | None) -> None:
    if written is None:
        written = "hooks:\n  - path: /a\n    env:\n      A: '1'\n"
    assert to_yaml(value) == written
    assert parse_yaml(written).tree() == value


def test_only_integers_and_booleans_are_not_text() -> None:
    text = "a: no\nb: 2026-11-21\nc: 0755\nd: 1.10\ne: true\nf: 12\ng: 1:30\nh: '12'\n5: !!str 7\n"
    assert parse_yaml(text).tree() == {
        "a": "no",
        "b": "2026-11-21",
        "c": "0755",
        "d": "1.10",
        "e": True,
        "f": 12,
        "g": "1:30",
        "h": "12",
        "5": "7",
    }


def test_a_value_has_the_line_of_its_key() -> None:
    root = parse_yaml("# comment\na:\n  b:\n    - x\n    - y\n")
    assert isinstance(root.value, dict)
    outer = root.value["a"]
    assert isinstance(outer.value, dict)
    inner = outer.value["b"]
    assert isinstance(inner.value, list)
    assert [outer.line, inner.line, *(item.line for item in inner.value)] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 0, "empty"),
        ("a: [", 2, "not YAML"),
        ("a: 1\nb: 'x", 2, "not YAML"),
        ("a: &x 1\nb: *x\n", 1, "anchors and aliases"),
        ("&x a: 1\n", 1, "not plain text"),
        ("b: *x\n", 1, "anchors and aliases"),
        ("a: 1\na: 2\n", 2, "'a' is listed twice"),
        ("? [a]\n: 1\n", 1, "a key is not plain text"),
        ("a: 1\n---\nb: 1\n", 2, "a second document"),
        ("a:\nb: 1\n", 1, "a value is missing"),
        ("a: 1\nb: null\n", 2, "a value is missing"),
        ("a: !!python/object/apply:os.system ['x']\n", 1, "precedes a key"),
        ("a: !!python/name:os.system x\n", 1, "unknown matcher"),
        ("a: !regex [x]\n", 1, "precedes a key, a list or a mapping"),
        ("a: !regex '('\n", 1, "bad regular expression"),
        ("a: 1\n\nb: \x07\n", 3, "not YAML"),
        ("%YAML 1." + "9" * 5000 + "\n---\na: 1\n", 0, "not YAML"),
        ("[" * 5000, 1, "nested deeper"),
        ("- " * 5000 + "a", 1, "nested deeper"),
    ],
)
@pytest.mark.parametrize("pure", [False, True])
def test_an_invalid_document_is_rejected_with_its_line(
    text: str, line: int, message: str, pure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pure:
        monkeypatch.setattr(yaml, "CSafeLoader", yaml.SafeLoader, raising=False)
    with pytest.raises(MalformedYaml) as raised:
        parse_yaml(text)
    # Both parsers find every error, not always in the same place.
    assert abs(raised.value.line - line) <= 1
    assert message in str(raised.value)
    assert len(str(raised.value)) < 400


def test_a_matcher_before_a_comma_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    # libyaml parses the comma as a separator.
    monkeypatch.setattr(yaml, "CSafeLoader", yaml.SafeLoader, raising=False)
    with pytest.raises(MalformedYaml, match="put a space after a matcher"):
        parse_yaml("a: {b: !present, c: 1}\n")


def test_values_and_matchers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "MAX_VALUES", 10)
    monkeypatch.setattr(yaml_reader, "MAX_TAGS", 3)
    parse_yaml("- a\n" * 9)
    with pytest.raises(MalformedYaml, match="more than 10 values"):
        parse_yaml("- a\n" * 10)
    with pytest.raises(MalformedYaml, match="more than 3 tags"):
        parse_yaml("- !present\n" * 4)


@given(st.text(st.sampled_from("ab:-?[]{}!&*|>'\"#%@ \n\t,\x00\u2028~1"), max_size=40))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        parsed = parse_yaml(text)
    except MalformedYaml as error:
        line, message = error.line, str(error)
    else:
        line, message = parsed.line, ""
    # U+2028 ends a line, too; 0: no line is to blame.
    assert 0 <= line <= len(text) + 1
    assert "\n" not in message


def test_an_inline_value_is_one_line() -> None:
    assert (
        inline({"a": [1, "x\ny"], "b": RegexMatcher("^a")}) == "{a: [1, \"x\\ny\"], b: !regex '^a'}"
    )
