# SPDX-License-Identifier: Apache-2.0
"""YAML as lines: the same document, truncated only if huge."""

from __future__ import annotations

from asyncio import CancelledError

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from nri_scope.nri.plain import Plain
from nri_scope.tui.store.reader_thread import CancelFlag
from nri_scope.tui.text import styled_line as yamllines
from nri_scope.tui.text.styled_line import MAX_MEMBERS, MAX_TEXT, Style, text_of, yaml_lines

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_VALUES: st.SearchStrategy[Plain] = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=12,
)


def _lines(value: dict[str, Plain]) -> list[str]:
    return [text_of(line) for line in yaml_lines(value, CancelFlag())]


@example({"0": {"0": "\n", "": None}})
@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_parsed_output_equals_the_value(value: dict[str, Plain]) -> None:
    lines = _lines(value)
    assert yaml.safe_load("".join(f"{line}\n" for line in lines)) == value
    assert not any("\n" in line for line in lines)


def test_a_list_of_mappings_is_one_list() -> None:
    members: list[Plain] = [{"c": number, "d": [number]} for number in range(3)]
    value: dict[str, Plain] = {"a": {"b": members}}
    assert yaml.safe_load("\n".join(_lines(value))) == value


def test_keys_are_highlighted() -> None:
    (found,) = yaml_lines({"a": 1}, CancelFlag())
    assert [(part.text, part.style) for part in found] == [("a:", Style.KEY), (" 1", Style.PLAIN)]


def test_long_texts_are_cut_and_give_their_length() -> None:
    (found,) = _lines({"a": "x" * 100_000})
    assert len(found) < MAX_TEXT + 100
    assert "(100,000 characters in all)" in found


def test_long_lists_and_mappings_give_the_number_of_omitted_members() -> None:
    many: dict[str, Plain] = {str(number): 0 for number in range(MAX_MEMBERS + 7)}
    numbers: list[Plain] = [*range(MAX_MEMBERS + 5)]
    lines = _lines({"list": numbers, "mapping": {"in": {"a": {"b": many}}}})
    assert sum("… 5 more" in line for line in lines) == 1
    assert sum("… 7 more" in line for line in lines) == 1


def test_number_of_lines_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamllines, "MAX_LINES", 10)
    lines = _lines({str(number): number for number in range(20)})
    assert len(lines) == 11
    assert "the rest is omitted" in lines[-1]


def test_cancelled_rendering_stops() -> None:
    stop = CancelFlag()
    lines = yaml_lines({"a": 1, "b": 2}, stop)
    next(lines)
    stop.set()
    with pytest.raises(CancelledError):
        next(lines)
