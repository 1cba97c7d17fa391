# SPDX-License-Identifier: Apache-2.0
"""Parsing of times on the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.cli.time_arguments import parse_moment
from nri_scope.recording.records import rfc3339

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 1, 31, 14, 5, 30, 250_000, tzinfo=ZONE)
SECOND = 1_000_000_000
NOW_NS = int(NOW.timestamp()) * SECOND + 250_000_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T14:05:00Z", "2026-01-31T14:05:00.000000Z"),
        ("2026-01-31T14:05:00.123456Z", "2026-01-31T14:05:00.123456Z"),
        ("2026-01-31T14:05:00+05:30", "2026-01-31T08:35:00.000000Z"),
        ("2026-01-31T14:05:00", "2026-01-31T12:05:00.000000Z"),
        ("2026-01-31 14:05", "2026-01-31T12:05:00.000000Z"),
        ("2026-01-31", "2026-01-30T22:00:00.000000Z"),
        ("14:05", "2026-01-31T12:05:00.000000Z"),
        ("9:05:07", "2026-01-31T07:05:07.000000Z"),
        ("14:05:07.5", "2026-01-31T12:05:07.500000Z"),
        ("23:59", "2026-01-31T21:59:00.000000Z"),
        ("today", "2026-01-30T22:00:00.000000Z"),
        ("Yesterday", "2026-01-29T22:00:00.000000Z"),
        ("yesterday 14:00", "2026-01-30T12:00:00.000000Z"),
        ("now", "2026-01-31T12:05:30.250000Z"),
        ("10m", "2026-01-31T11:55:30.250000Z"),
        ("1.5h", "2026-01-31T10:35:30.250000Z"),
        (" 2d ", "2026-01-29T12:05:30.250000Z"),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
    ],
)
def test_moments(text: str, moment: str) -> None:
    found = parse_moment(text, NOW_NS, ZONE)
    assert found is not None
    assert rfc3339(found) == moment


def test_nanoseconds_are_parsed() -> None:
    assert parse_moment("2026-01-31T12:05:00.123456789Z", NOW_NS) == (
        1_769_861_100 * SECOND + 123_456_789
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "10", "soon", "14", "14:5", "25:00", "2026-13-01", "2026-01-31T", "yesterday noon"),
        *("0001-01-01", "9999-12-31", "1969-12-31T23:59:59Z", "99999d", "-10m", "20260131", "٣m"),
    ],
)
def test_other_text_is_none(text: str) -> None:
    assert parse_moment(text, NOW_NS, ZONE) is None


@settings(deadline=None)
@given(st.text(max_size=30) | st.text("0123456789-:.TZ+ smhdtoay", max_size=30))
def test_any_text_is_a_moment_or_none(text: str) -> None:
    found = parse_moment(text, NOW_NS, UTC)
    assert found is None or 0 <= found < 1 << 63


@settings(deadline=None)
@given(st.integers(0, 2**62))
def test_times_of_the_log_are_parsed(at_ns: int) -> None:
    found = parse_moment(rfc3339(at_ns), NOW_NS)
    assert found == at_ns // 1000 * 1000
