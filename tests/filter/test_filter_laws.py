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
from tests.filter.filter_strategies import events, expressions


def parsed(text: str) -> filters.Filter | None:
    try:
        return filters.parse(text)
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
@example('pod:"\ud800"')
@example("pod:\0")
def test_any_text_is_a_filter_or_a_filter_error(text: str) -> None:
    parsed(text)


@settings(deadline=None)
@given(st.text("():~><=\"'-*\\ aANDORNOTpodktsize0.5", max_size=40))
def test_any_text_of_the_language_s_own_characters_too(text: str) -> None:
    parsed(text)


@settings(deadline=None)
@given(expressions)
def test_the_canonical_text_means_the_same(text: str) -> None:
    found = parsed(text)
    if found is not None:
        again = filters.parse(str(found))
        assert again == found
        assert str(again) == str(found)


@settings(deadline=None)
@given(expressions, st.lists(events, min_size=1, max_size=5))
def test_python_and_sql_agree(text: str, some: list[Event]) -> None:
    found = parsed(text)
    if found is None:
        return
    condition, values = found.to_sql()
    DATABASE.execute("DELETE FROM event")
    DATABASE.executemany(
        f"INSERT INTO event VALUES ({', '.join('?' * len(COLUMNS))})",
        [row(event) for event in some],
    )
    query = f"SELECT {condition} FROM event ORDER BY rowid"
    assert [bool(value) for (value,) in DATABASE.execute(query, values)] == [
        found.matches(event) for event in some
    ]


@settings(deadline=None)
@given(expressions, events)
def test_a_negation_matches_what_its_term_does_not(text: str, event: Event) -> None:
    found = parsed(text)
    if found is not None:
        negated = filters.Filter("", Not(found.root))
        assert negated.matches(event) != found.matches(event)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_name_is_near_a_field_or_none(name: str) -> None:
    assert nearest_field(name) in (None, *filters.FIELDS)


def test_a_filter_of_the_greatest_length_still_is_sql() -> None:
    found = filters.parse("a " * 2047 + "a")
    condition, values = found.to_sql()
    DATABASE.execute(f"SELECT 1 FROM event WHERE {condition}", values)
