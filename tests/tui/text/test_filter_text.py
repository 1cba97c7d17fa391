# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.events import Event
from nri_scope.filter import parse
from nri_scope.recording.query.subject_queries import completion_values
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.list.event_list import term
from nri_scope.tui.text.filter_text import VIEWS, TypedHistory, check, complete, narrowed
from tests.recording.made import an_event
from tests.sample_names import API, CHECKOUT_POD, NAMESPACE

RECORDING = Path(__file__).parents[3] / "recordings" / "containerd-2.1.nriscope.db"
VALUES = {"pod": ["web", "web api", "batch"], "ns": ["shop"]}


@pytest.fixture(scope="module", name="recorded")
def _recorded() -> list[Event]:
    with Recording.open(RECORDING) as recording:
        return list(recording.events())


def event_named(events: list[Event], name: str) -> Event:
    return next(event for event in events if event.event == name)


def test_valid_filter_is_accepted() -> None:
    assert check("ns:shop took:>1ms").filter is not None


def test_invalid_filter_gives_problem_position_and_suggestion() -> None:
    found = check("ns:shop spod:x")
    assert found.filter is None
    assert found.position == len("ns:shop ")
    assert found.problem.startswith('unknown field "spod", the nearest is "pod"; ')


@given(st.text(max_size=40))
def test_check_never_raises(text: str) -> None:
    found = check(text)
    assert (found.filter is None) == bool(found.problem)
    assert 0 <= found.position <= len(text)


def test_named_views_are_valid_filters() -> None:
    for text in VIEWS.values():
        assert check(text).filter is not None


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("p", ("plugin:", "pod:", "problem:")),
        ("ns:shop -po", ("pod:",)),
        ("(st", ("status:",)),
        ("pod:w", ("web", '"web api"')),
        ("pod:", ("web", '"web api"', "batch")),
        ('pod:"web a', ('"web api"',)),
        ("status:", ("ok", "error", "timeout")),
        ("nonsense:", ()),
        ("pod:zzz", ()),
    ],
)
def test_a_word_is_completed_with_fields_or_values(text: str, options: tuple[str, ...]) -> None:
    assert complete(text, len(text), VALUES).options == options


def test_event_names_are_offered_without_recorded_values() -> None:
    assert complete("event:creat", 11, {}).options[0] == "CreateContainer"


def test_completion_has_the_range_that_it_replaces() -> None:
    found = complete("ns:shop pod:w AND x", len("ns:shop pod:w"), VALUES)
    assert (found.start, found.end) == (len("ns:shop pod:"), len("ns:shop pod:w"))


@given(st.text(alphabet="ab:\"' ()-", max_size=20), st.integers(0, 20))
def test_completion_never_raises_and_its_range_is_in_the_text(text: str, at: int) -> None:
    cursor = min(at, len(text))
    found = complete(text, cursor, VALUES)
    assert 0 <= found.start <= found.end == cursor


def test_completion_values_are_read_from_the_recording() -> None:
    with Recording.open(RECORDING) as recording:
        values = completion_values(recording)
    assert NAMESPACE in values["ns"] and API in values["container"]
    assert list(values["plugin"]) == ["00-nri-scope"]


def test_completion_values_include_changed_paths_and_owners(tmp_path: Path) -> None:
    path = Path(shutil.copy(RECORDING, tmp_path))
    lists = {
        5: ('["/process/env/FOO","/linux/resources/cpu"]', '["60-cpu-policy"]'),
        6: ('["/process/env/FOO"]', '["30-env","60-cpu-policy",7]'),
        7: ("no JSON", '"no list"'),
        8: (f'["/{"x" * 300}"]', "[" * 10_000),
    }
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, texts in lists.items():
            connection.execute("UPDATE event SET changed=?, owners=? WHERE id=?", (*texts, number))
    with Recording.open(path) as recording:
        values = completion_values(recording)
        assert list(values["changed"]) == ["cpu", "env FOO"]
        assert list(values["owner"]) == ["30-env", "60-cpu-policy"]
        assert complete("owner:cpu", 9, values).options == ("60-cpu-policy",)
        # An offered value matches the event it was read from.
        event = recording.event(5)
        assert event is not None and parse("owner:60-cpu-policy").matches(event)
        assert parse('changed:"env FOO" changed:cpu').matches(event)


@pytest.mark.parametrize("column", ["event", "subject", "plugin", "status", "took"])
def test_filter_by_a_cell_matches_its_event(recorded: list[Event], column: str) -> None:
    for event in recorded:
        text = term(event, column)
        assert not text or parse(text).matches(event), text


def test_a_filter_by_the_subject_names_pod_and_container(recorded: list[Event]) -> None:
    found = term(event_named(recorded, "CreateContainer"), "subject")
    assert found == f"pod:{CHECKOUT_POD} container:{API}"


@pytest.mark.parametrize(
    ("took_ns", "text"),
    [
        (-5, "took:>=0ns"),
        (999, "took:>=999ns"),
        (91_700, "took:>=91us"),
        (3_409_999, "took:>=3.40ms"),
        (59_999_999_999, "took:>=59.9s"),
        (83_500_000_000, "took:>=83s"),
        (7_200_000_000_000, "took:>=7200s"),
    ],
)
def test_filter_by_a_duration_matches_its_event(took_ns: int, text: str) -> None:
    event = an_event(1, took_ns=took_ns)
    assert term(event, "took") == text
    assert took_ns < 0 or parse(text).matches(event)


def test_a_column_without_a_value_gives_no_filter(recorded: list[Event]) -> None:
    event = event_named(recorded, "Configure")
    assert term(event, "subject") == term(event, "time") == term(event, "changed") == ""


def test_narrowed_filter_keeps_its_terms(recorded: list[Event]) -> None:
    event = event_named(recorded, "CreateContainer")
    either = "event:StartContainer OR event:CreateContainer"
    assert narrowed("", "pod:web") == "pod:web"
    assert narrowed(either, "pod:web") == f"({either}) pod:web"
    assert narrowed("pod:web", "pod:web") == "pod:web"
    out = narrowed(either, f"pod:{CHECKOUT_POD} container:{API}", out=True)
    assert not parse(out).matches(event) and parse(either).matches(event)


def test_history_goes_back_and_returns_to_the_draft() -> None:
    history = TypedHistory()
    for text in ("one", "two", "one", " "):
        history.add(text)
    assert [history.older("draft"), history.older("x"), history.older("x")] == ["one", "two", "two"]
    assert [history.newer("x"), history.newer("x"), history.newer("y")] == ["one", "draft", "y"]


def test_an_empty_history_changes_nothing() -> None:
    assert TypedHistory().older("draft") == TypedHistory().newer("draft") == "draft"
