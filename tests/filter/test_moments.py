# SPDX-License-Identifier: Apache-2.0
"""Points in time as typed, without and with a recording."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.errors import UsageError
from nri_scope.filter.moments import TimeSpan, event_or_moment, interval, moment, range_text, utc
from nri_scope.recording.reading.records import rfc3339
from tests.amount import amount

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 1, 31, 14, 5, 30, 250_000, tzinfo=ZONE)
SECOND = 1_000_000_000
NOW_NS = int(NOW.timestamp()) * SECOND + 250_000_000


def ns(text: str) -> int:
    """Return the time of an RFC 3339 text, by another parser."""
    return int(datetime.fromisoformat(text).timestamp()) * SECOND


def span(first: str, last: str) -> TimeSpan:
    return TimeSpan(ns(f"{first}+02:00"), ns(f"{last}+02:00"))


ONE_DAY = span("2025-07-01T09:00:30", "2025-07-01T11:00:00")
OVER_MIDNIGHT = span("2025-07-01T23:30:00", "2025-07-02T00:30:00")
SEVERAL_DAYS = span("2025-07-01T09:00:00", "2025-07-05T17:00:00")


@pytest.mark.parametrize(
    ("text", "at", "end"),
    [
        ("2026-01-31T14:05:00Z", "2026-01-31T14:05:00Z", "2026-01-31T14:05:01Z"),
        ("2026-01-31t14:05:00z", "2026-01-31T14:05:00Z", "2026-01-31T14:05:01Z"),
        ("2026-01-31T14:05:00.123456Z", "2026-01-31T14:05:00.123456Z", None),
        ("2026-01-31T14:05:00+05:30", "2026-01-31T08:35:00Z", None),
        ("2026-01-31T14:05:00-0530", "2026-01-31T19:35:00Z", None),
        ("2026-01-31T14:05:00", "2026-01-31T12:05:00Z", None),
        ("2026-01-31 14:05", "2026-01-31T12:05:00Z", "2026-01-31T12:06:00Z"),
        ("2026-01-31", "2026-01-30T22:00:00Z", "2026-01-31T22:00:00Z"),
        ("14:05", "2026-01-31T12:05:00Z", "2026-01-31T12:06:00Z"),
        ("14:05Z", "2026-01-31T14:05:00Z", "2026-01-31T14:06:00Z"),
        ("9:05:07", "2026-01-31T07:05:07Z", "2026-01-31T07:05:08Z"),
        ("14:05:07.5", "2026-01-31T12:05:07.5Z", "2026-01-31T12:05:07.6Z"),
        ("14:05:07,50", "2026-01-31T12:05:07.5Z", "2026-01-31T12:05:07.51Z"),
        ("23:59", "2026-01-31T21:59:00Z", None),
        ("today", "2026-01-30T22:00:00Z", "2026-01-31T22:00:00Z"),
        ("Yesterday", "2026-01-29T22:00:00Z", "2026-01-30T22:00:00Z"),
        ("yesterday 14:00", "2026-01-30T12:00:00Z", "2026-01-30T12:01:00Z"),
        ("now", "2026-01-31T12:05:30.25Z", "2026-01-31T12:05:30.250000001Z"),
        ("10m", "2026-01-31T11:55:30.25Z", "2026-01-31T11:56:30.25Z"),
        ("1.5h", "2026-01-31T10:35:30.25Z", "2026-01-31T10:41:30.25Z"),
        (" 2d ", "2026-01-29T12:05:30.25Z", None),
        # Of events as they happen, the first and the last one are now.
        ("+10m", "2026-01-31T12:15:30.25Z", None),
        ("-10m", "2026-01-31T11:55:30.25Z", None),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", None),
    ],
)
def test_moments_without_a_recording(text: str, at: str, end: str | None) -> None:
    found = moment(text, now_ns=NOW_NS, zone=ZONE)
    assert utc(found.at_ns) == at
    assert end is None or utc(found.end_ns) == end


@pytest.mark.parametrize(
    ("text", "times", "at"),
    [
        ("+30s", ONE_DAY, "2025-07-01T07:01:00Z"),
        ("+0s", ONE_DAY, "2025-07-01T07:00:30Z"),
        ("-10m", ONE_DAY, "2025-07-01T08:50:00Z"),
        ("10:05", ONE_DAY, "2025-07-01T08:05:00Z"),
        # The first event is within this minute.
        ("9:00", ONE_DAY, "2025-07-01T07:00:00Z"),
        # Before and after the recording, but on its day.
        ("0:00", ONE_DAY, "2025-06-30T22:00:00Z"),
        ("23:59", ONE_DAY, "2025-07-01T21:59:00Z"),
        ("23:45", OVER_MIDNIGHT, "2025-07-01T21:45:00Z"),
        ("0:10", OVER_MIDNIGHT, "2025-07-01T22:10:00Z"),
        # Not during the recording: the nearest one on its days.
        ("23:00", OVER_MIDNIGHT, "2025-07-01T21:00:00Z"),
        ("1:00", OVER_MIDNIGHT, "2025-07-01T23:00:00Z"),
        ("2025-07-03 10:05", SEVERAL_DAYS, "2025-07-03T08:05:00Z"),
        # These depend on the present only.
        ("yesterday 14:05", ONE_DAY, "2026-01-30T12:05:00Z"),
        ("10m", ONE_DAY, "2026-01-31T11:55:30.25Z"),
        ("2025-06-01", ONE_DAY, "2025-05-31T22:00:00Z"),
    ],
)
def test_moments_in_a_recording(text: str, times: TimeSpan, at: str) -> None:
    assert utc(moment(text, times, now_ns=NOW_NS, zone=ZONE).at_ns) == at


@pytest.mark.parametrize("text", ["10:05", "9:00", "17:00", "0:00", "23:59:59.5"])
def test_a_time_of_several_days_needs_its_date(text: str) -> None:
    with pytest.raises(UsageError, match="occurs on several days of this recording") as caught:
        moment(text, SEVERAL_DAYS, zone=ZONE)
    dated = caught.value.hint.rpartition(" ")[2]
    at_ns = moment(dated, SEVERAL_DAYS, zone=ZONE).at_ns
    assert SEVERAL_DAYS.first_ns <= at_ns <= SEVERAL_DAYS.last_ns


@pytest.mark.parametrize(
    ("text", "after", "times", "at"),
    [
        ("0:10", "2025-07-01T23:45:00", OVER_MIDNIGHT, "2025-07-01T22:10:00Z"),
        ("10:10", "2025-07-03T10:05:00", SEVERAL_DAYS, "2025-07-03T08:10:00Z"),
        ("10:00", "2025-07-03T10:05:00", SEVERAL_DAYS, "2025-07-04T08:00:00Z"),
        # The recording has no later day.
        ("10:00", "2025-07-01T10:05:00", ONE_DAY, "2025-07-01T08:00:00Z"),
        ("10:00", "2020-01-01T00:00:00", ONE_DAY, "2025-07-01T08:00:00Z"),
        ("10:00", "2030-01-01T00:00:00", ONE_DAY, "2025-07-01T08:00:00Z"),
        ("0:10", "2025-07-01T23:45:00", None, "2025-07-01T22:10:00Z"),
    ],
)
def test_the_end_of_a_range_is_the_next_time_of_day(
    text: str, after: str, times: TimeSpan | None, at: str
) -> None:
    found = moment(text, times, after_ns=ns(f"{after}+02:00"), zone=ZONE)
    assert utc(found.at_ns) == at


@pytest.mark.parametrize(
    "text",
    [
        *("", "10", "soon", "14", "14:5", "25:00", "2026-13-01", "2026-01-31T", "yesterday noon"),
        *("2026-02-30", "10000-01-01", "20260131", "٣m", "+", "-"),
        *("+30", "2026-01-31Z", "today14:05", " T", "14:05:60", "--1m"),
        *("2026-01-31T14:05+99:00", "١٤:٠٥", "+10:00", "14:05.5"),
    ],
)
def test_other_text_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time; write 2026-01-31T14:05:00Z, 14:05"):
        moment(text, now_ns=NOW_NS, zone=ZONE)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        *((text, 0) for text in ("0001-01-01", "1969-12-31T23:59:59Z", "99999d", "-99999d")),
        *((text, 2**63 - 1) for text in ("2262-04-13", "3000-01-01", "9999-12-31", "+99999999d")),
    ],
)
def test_a_time_that_no_recording_has_is_an_error_with_the_possible_ones(
    text: str, nearest: int
) -> None:
    words = f'"{re.escape(text)}" is out of range: recordings have times from 1970-01-01 to 2262-04'
    with pytest.raises(UsageError, match=words):
        moment(text, now_ns=NOW_NS, zone=ZONE)
    assert moment(text, now_ns=NOW_NS, zone=ZONE, clamped=True).at_ns == nearest
    assert event_or_moment(text, ONE_DAY) == (nearest, nearest)


def test_all_days_up_to_the_last_one_are_times() -> None:
    for text in ("1970-01-02", "2262-04-10"):
        assert moment(text, zone=ZONE).at_ns > 0


def test_a_number_is_an_event() -> None:
    assert event_or_moment(" 17 ") == 17
    assert event_or_moment("+1s", ONE_DAY) == moment("+1s", ONE_DAY)
    with pytest.raises(UsageError, match='"x" is neither the number of an event nor a time; wri'):
        event_or_moment("x")


_texts = st.text(max_size=30) | st.text("0123456789-:.TZ+ smhdtoay", max_size=30)
_times = st.integers(-(2**63), 2**63 - 1) | st.integers(NOW_NS, NOW_NS + 10**15)
_spans = st.none() | st.builds(TimeSpan, _times, _times)


@settings(deadline=None)
@given(_texts, _spans, st.none() | _times)
def test_any_text_is_a_moment_or_an_error(
    text: str, times: TimeSpan | None, after_ns: int | None
) -> None:
    with suppress(UsageError):
        found = moment(text, times, after_ns=after_ns, now_ns=NOW_NS)
        assert 0 <= found.at_ns < found.end_ns < 1 << 63


@settings(deadline=None)
@given(st.integers(0, 2**62))
def test_times_of_the_log_are_parsed(at_ns: int) -> None:
    assert moment(rfc3339(at_ns)).at_ns == at_ns // 1000 * 1000
    assert moment(utc(at_ns)).at_ns == at_ns


@contextmanager
def in_zone(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    with in_zone(request.param):
        yield request.param


def test_a_range_has_the_text_that_people_type(zone: str) -> None:
    first = moment("2025-07-01 09:00").at_ns
    start, end = first + 5 * SECOND, first + 65 * SECOND + 250_000_000
    short = range_text(start, end, TimeSpan(first, first + 3600 * SECOND))
    # With three digits or fewer, the end would include what is displayed like it.
    assert short == "09:00:05.0000..09:01:05.2500"
    long = range_text(start, end, TimeSpan(first, first + 3 * 86_400 * SECOND))
    assert long == "2025-07-01T09:00:05.0000..2025-07-01T09:01:05.2500"


@settings(max_examples=amount(300, 300), deadline=None)
@given(data=st.data())
def test_a_range_s_text_means_the_range(data: st.DataObject) -> None:
    begin = ns("2025-10-25T20:00:00Z")
    since, until, first, last = data.draw(
        st.lists(st.integers(begin, begin + 86_400 * SECOND), min_size=4, max_size=4)
    )
    times = data.draw(st.sampled_from([None, TimeSpan(first, last)]))
    unit = data.draw(st.sampled_from([1, 10**6, 10**8, SECOND]))
    since, until = min(since, until), (max(since, until) // unit + 1) * unit
    # Summer time ended on 2025-10-26T01:00:00Z, so that an hour occurred twice.
    with in_zone("Europe/Berlin"):
        low, _, high = range_text(since, until, times).partition("..")
        if not low.endswith("Z"):
            assert len(low.partition(".")[2]) == len(high.partition(".")[2])
        assert interval(low, high, times) == (since, until)


def test_dates_have_the_length_of_their_day(zone: str) -> None:
    found = moment("2025-10-26")
    hours = {"Europe/Berlin": 25}.get(zone, 24)
    assert found.end_ns - found.at_ns == hours * 3600 * SECOND
    assert datetime.fromtimestamp(found.at_ns // SECOND, UTC).astimezone().hour == 0
