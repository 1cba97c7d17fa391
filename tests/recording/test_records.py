# SPDX-License-Identifier: Apache-2.0
"""JSON records, and subjects of events."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.filter import parse
from nri_scope.nri.plain import Plain
from nri_scope.recording import display
from nri_scope.recording.reading.records import (
    deadline_ms,
    event_record,
    gap_record,
    json_in_parts,
    rfc3339,
    session_record,
    to_json,
)
from nri_scope.text import quantities
from tests.recording.made import a_gap, a_session, an_event


def test_keys_of_an_event_record() -> None:
    record = event_record(an_event(7, 1.5, event="PostStartContainer", method="StateChange"))
    assert " ".join(record) == (
        "id at session plugin event method namespace pod container container_id pod_id took_us "
        "deadline_ms size status"
    )
    assert record["at"] == "2025-11-20T21:18:01.500000Z"
    assert (record["event"], record["method"]) == ("PostStartContainer", "StateChange")
    assert (record["took_us"], record["deadline_ms"]) == (91, 2000)


def test_a_gap_record_has_the_single_key_gap() -> None:
    assert gap_record(a_gap(1, 0, 1, session=None, lost=None)) == {
        "gap": {
            "from": "2025-11-20T21:18:00.000000Z",
            "to": "2025-11-20T21:18:01.000000Z",
            "session": None,
            "reason": "the disk is full",
            "lost": None,
        }
    }


def test_an_open_session_s_record_has_no_end() -> None:
    assert session_record(a_session(1))["ended"] is None
    assert session_record(a_session(1, 0, 2))["ended"] == "2025-11-20T21:18:02.000000Z"


@pytest.mark.parametrize(("ns", "ms"), [(0, None), (1_999_969_264, 2000), (1, 0), (500_000, 1)])
def test_deadlines_are_rounded_to_milliseconds(ns: int, ms: int | None) -> None:
    assert deadline_ms(ns) == ms


@settings(deadline=None)
@given(st.text())
def test_json_is_one_line_of_printable_ascii(text: str) -> None:
    line = to_json({text: text})
    assert line.isascii() and line.isprintable()
    assert json.loads(line) == {text: text}


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_any_64_bit_time_is_formatted(at_ns: int) -> None:
    moment = datetime.fromisoformat(rfc3339(at_ns))
    assert (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() == pytest.approx(
        at_ns / 1e9, abs=1e-4
    )
    assert quantities.clock(at_ns) and quantities.day(at_ns) and quantities.moment(at_ns)


@settings(deadline=None)
@given(st.integers(0, 60 * 10**9 - 1))
def test_a_filter_matches_a_duration_as_displayed(ns: int) -> None:
    assert parse(f"took:{quantities.duration(ns)}").matches(an_event(1, took_ns=ns))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, "shop/web/app"),
        ({"container": "", "container_id": ""}, "shop/web"),
        ({"container": ""}, "shop/web/c9f0f895fb98"),
        ({"pod": "", "namespace": ""}, "pod 8f14e45fceea/app"),
        ({"pod": "", "namespace": "", "pod_id": "", "container": "", "container_id": ""}, ""),
        ({"pod": "w\x1b[2J", "container": "a\u202e"}, r"shop/w\x1b[2J/a\u202e"),
    ],
)
def test_subject_of_an_event(changed: dict[str, str], text: str) -> None:
    event = an_event(1)
    for name, value in changed.items():
        event = replace(event, **{name: value})  # type: ignore[arg-type]
    assert display.subject(event) == text


JSON_VALUES: st.SearchStrategy[Plain] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_json_in_parts_equals_json_at_once(record: dict[str, Plain]) -> None:
    parts = {
        key: iter(value) if isinstance(value, list) else value for key, value in record.items()
    }
    assert "".join(json_in_parts(parts)) == to_json(record)
