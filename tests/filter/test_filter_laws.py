# SPDX-License-Identifier: Apache-2.0
"""Properties of every filter and every event."""

from __future__ import annotations

import dataclasses
import json
import sqlite3

from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope import filter as filters
from nri_scope.errors import FilterError
from nri_scope.events import Event
from nri_scope.filter.fields import nearest_field
from nri_scope.filter.tree import Not
from tests.filter.filter_strategies import SPAN, events, expressions


def parse_or_none(text: str) -> filters.Filter | None:
    try:
        return filters.parse(text, SPAN)
    except FilterError as caught:
        error = caught
    assert 0 <= error.position <= len(text)
    assert error.problem and "\n" not in error.problem
    return None


COLUMNS = [field.name for field in dataclasses.fields(Event)]
DATABASE = sqlite3.connect(":memory:")
DATABASE.execute(f"CREATE TABLE event ({', '.join(COLUMNS)})")
filters.register(DATABASE)


def row(event: Event) -> list[str | int]:
    values = dataclasses.asdict(event)
    return [
        json.dumps(list(value)) if isinstance(value, tuple) else value for value in values.values()
    ]


@settings(deadline=None)
@given(st.text(max_size=60))
@example("(" * 5000)
@example("-" * 5000)
@example("NOT " * 1000)
@example("a OR " * 800 + "a")
@example("pod:~" + "(" * 3000)
@example("pod:~((((a{999}){999}){999}){999}){999}")
@example("took:>99999999999999999999999999")
@example("took:>9999999999999999999h")
@example("took:>\u0663")
@example("time:\u0661:00")
@example("time:>99999999999999999999d")
@example("time:.." * 1000)
@example('pod:"\ud800"')
@example("pod:\0")
def test_any_text_is_parsed_or_a_filter_error(text: str) -> None:
    parse_or_none(text)


@settings(deadline=None)
@given(st.text("():~><=\"'-*\\ aANDORNOTpodktsize0.5", max_size=40))
def test_any_text_of_syntax_characters_is_parsed_or_a_filter_error(text: str) -> None:
    parse_or_none(text)


@settings(deadline=None)
@given(expressions)
def test_canonical_text_parses_to_the_same_filter(text: str) -> None:
    parsed_filter = parse_or_none(text)
    if parsed_filter is not None:
        reparsed = filters.parse(str(parsed_filter))
        assert reparsed == parsed_filter
        assert str(reparsed) == str(parsed_filter)


@settings(deadline=None)
@given(expressions, st.lists(events, min_size=1, max_size=5))
def test_python_and_sql_agree_on_any_filter(text: str, sample: list[Event]) -> None:
    parsed_filter = parse_or_none(text)
    if parsed_filter is not None:
        _assert_sql_agrees(parsed_filter, sample)


def _assert_sql_agrees(parsed_filter: filters.Filter, sample: list[Event]) -> None:
    condition, values = parsed_filter.to_sql()
    DATABASE.execute("DELETE FROM event")
    DATABASE.executemany(
        f"INSERT INTO event VALUES ({', '.join('?' * len(COLUMNS))})",
        [row(event) for event in sample],
    )
    query = f"SELECT {condition} FROM event ORDER BY rowid"
    assert [bool(value) for (value,) in DATABASE.execute(query, values)] == [
        parsed_filter.matches(event) for event in sample
    ]


@settings(deadline=None)
@given(expressions, events)
def test_a_negated_filter_matches_exactly_the_other_events(text: str, event: Event) -> None:
    parsed_filter = parse_or_none(text)
    if parsed_filter is not None:
        negated = filters.Filter("", Not(parsed_filter.root))
        assert negated.matches(event) != parsed_filter.matches(event)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_nearest_field_of_any_name_is_a_field_or_none(name: str) -> None:
    assert nearest_field(name) in (None, *filters.FIELDS)


@settings(deadline=None, max_examples=2)
@given(events)
def test_a_filter_of_maximum_length_is_valid_sql(event: Event) -> None:
    _assert_sql_agrees(filters.parse("a " * 2047 + "a"), [event])
