# SPDX-License-Identifier: Apache-2.0
"""Points in time, durations and sizes as typed by users.

Times are those of filters, ``--since``, ``--until`` and "go to"; ``500us``, ``1.5ms``, ``2h`` are
durations, ``4k``, ``500M`` sizes. A time of day without a date is on a day of the recording, as
shown in local time, never guessed: if it occurs more than once during the recording, the date is
required.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import NamedTuple

from nri_scope.errors import UsageError

DURATION_UNITS: dict[str, int] = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
    "d": 86400 * 1_000_000_000,
}
"""Nanoseconds by unit."""

SIZE_UNITS: dict[str, int] = {
    "b": 1,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
}
"""Bytes by unit in lower case. ``k``, ``kB``, ``Ki`` and ``KiB`` are all 1024."""

LARGEST = 2**63 - 1
"""The largest integer in SQLite."""

_QUANTITY = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?([A-Za-zµ]{0,3})")

EXAMPLES = "2026-01-31T14:05:00Z, 14:05, +30s, -10m, yesterday, or 10m for ten minutes ago"
"""Examples for help texts and errors."""
RANGE = ".."
"""Separator of a range."""

_SECOND = 1_000_000_000
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DISPLAYED_DIGITS = 3
"""Maximum number of digits after the second in displayed times."""
_LAST_DAY = date(2262, 4, 10)
"""The last whole day before `LARGEST` ns since the epoch."""
_WRITTEN = re.compile(
    r"(?:(?P<day>today|yesterday|[0-9]{4}-[0-9]{2}-[0-9]{2})(?:\Z|(?:T| +)(?=[0-9])))?"
    r"(?:(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?P<zone>Z|(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2}))?)?",
    re.IGNORECASE,
)


class TimeSpan(NamedTuple):
    """Times of a recording's first and last event, in ns since the epoch."""

    first_ns: int
    last_ns: int


class Moment(NamedTuple):
    """A point in time, in ns since the epoch, and the end of what was written: 14:06 for 14:05."""

    at_ns: int
    end_ns: int


class _Clock(NamedTuple):
    """A time of day."""

    hour: int
    minute: int
    second: int
    nanosecond: int
    width_ns: int
    """Precision as written; 0: a whole day."""
    zone: tzinfo | None
    """None: the local zone."""

    def on(self, day: date) -> int:
        """Return this time of a day, in ns since the epoch."""
        local = datetime(
            day.year, day.month, day.day, self.hour, self.minute, self.second, tzinfo=self.zone
        )
        whole = local.astimezone(UTC) - _EPOCH
        return (whole.days * 86_400 + whole.seconds) * _SECOND + self.nanosecond

    def day(self, at_ns: int) -> date:
        """Return the day of a time in this zone."""
        return datetime.fromtimestamp(at_ns // _SECOND, self.zone).date()


def moment(
    text: str,
    span: TimeSpan | None = None,
    *,
    after_ns: int | None = None,
    now_ns: int | None = None,
    zone: tzinfo | None = None,
    or_event: bool = False,
    clamped: bool = False,
) -> Moment:
    """Return a point in time. Raises UsageError.

    ``span``: that of the recording; None for events as they happen, whose first and last event are
    now. ``after_ns``: start of a range that ends at this point: a time without a date is the next
    one. ``zone``: of times without a zone, by default the local one. ``or_event``: whether errors
    say that the text may also be an event's number. ``clamped``: return the nearest possible time
    for one that a recording cannot have.
    """
    now = time.time_ns() if now_ns is None else now_ns
    text = text.strip()
    parsed: Moment | None = None
    # For example, 30 February, or a day that the platform's calendar does not reach.
    with suppress(ValueError, OverflowError, OSError):
        parsed = _relative(text, span or TimeSpan(now, now), now)
        parsed = parsed or _absolute(text, span, now, after_ns, zone)
    if parsed is None:
        what, more = ("neither the number of an event nor", "17, ") if or_event else ("not", "")
        raise UsageError(f'"{text[:40]}" is {what} a time', f"write {more}{EXAMPLES}")
    if parsed.at_ns >= 0 and parsed.end_ns <= LARGEST:
        return parsed
    if not clamped:
        raise UsageError(
            f'"{text[:40]}" is out of range: recordings have times from 1970-01-01 to {_LAST_DAY}',
            "`nri-scope report FILE` shows those of one",
        )
    at_ns = min(max(0, parsed.at_ns), LARGEST)
    return Moment(at_ns, max(at_ns, min(parsed.end_ns, LARGEST)))


def interval(
    since: str, until: str, span: TimeSpan | None = None, *, now_ns: int | None = None
) -> tuple[int | None, int | None]:
    """Return the times from ``since`` to ``until``, whose `end_ns` is excluded; None for "". Raises
    UsageError for other texts than those of `moment`.
    """
    since_ns = moment(since, span, now_ns=now_ns).at_ns if since else None
    until_ns = None
    if until:
        until_ns = end_ns(until, moment(until, span, after_ns=since_ns, now_ns=now_ns))
    return since_ns, until_ns


def end_ns(text: str, parsed: Moment) -> int:
    """Return the end, excluded, of a range that is written as ``text``.

    Times are displayed with up to three digits after the second, so such a text includes all that
    is displayed like it. Other texts are exact.
    """
    match = _WRITTEN.fullmatch(text.strip())
    return parsed.end_ns if match and _is_as_displayed(match["fraction"]) else parsed.at_ns


def _is_as_displayed(fraction: str | None) -> bool:
    return fraction is not None and len(fraction) <= _DISPLAYED_DIGITS


def event_or_moment(text: str, span: TimeSpan | None = None) -> int | Moment:
    """Return an event's number, or a point in time, clamped. Raises UsageError."""
    number = event_number(text)
    if number is not None:
        return number
    return moment(text, span, or_event=True, clamped=True)


def event_number(text: str) -> int | None:
    """Return an event's number; None for other text."""
    text = text.strip()
    return int(text[:18]) if text.isascii() and text.isdigit() else None


def utc(at_ns: int, *, is_end: bool = False) -> str:
    """Return the shortest RFC 3339 form of a time, in UTC. ``is_end``: for the end of a range."""
    seconds, nanoseconds = divmod(at_ns, _SECOND)
    text = f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"
    if not nanoseconds:
        return f"{text}Z"
    # With fewer digits, an end would include the unit that it names.
    digits = max(_digits(at_ns), _DISPLAYED_DIGITS + 1 if is_end else 0)
    return f"{text}.{f'{nanoseconds:09d}'[:digits]}Z"


def range_text(since_ns: int, until_ns: int, span: TimeSpan | None) -> str:
    """Return a range as people type it: in local time, with the date only if it is needed.

    Both times have equally many digits after the second.
    """
    digits = max(_digits(since_ns), _digits(until_ns))
    if digits:
        digits = max(digits, _DISPLAYED_DIGITS + 1)
    for form in ("%H:%M:%S", "%Y-%m-%dT%H:%M:%S"):
        since, until = _local(since_ns, form, digits), _local(until_ns, form, digits)
        with suppress(UsageError):
            if interval(since, until, span) == (since_ns, until_ns):
                return f"{since}{RANGE}{until}"
    # In the hour that is repeated when summer time ends.
    return f"{utc(since_ns)}{RANGE}{utc(until_ns, is_end=True)}"


def _local(at_ns: int, form: str, digits: int) -> str:
    seconds, nanoseconds = divmod(at_ns, _SECOND)
    text = time.strftime(form, time.localtime(seconds))
    return f"{text}.{nanoseconds:09d}"[: len(text) + 1 + digits] if digits else text


def _digits(at_ns: int) -> int:
    """Return the number of digits after the second that a time needs."""
    return len(f"{at_ns % _SECOND:09d}".rstrip("0"))


def _relative(text: str, span: TimeSpan, now: int) -> Moment | None:
    if text.lower() == "now":
        return Moment(now, now + 1)
    sign = text[:1] if text[:1] in ("+", "-") else ""
    parts = split_quantity(text.removeprefix(sign))
    unit = duration_unit(parts[2]) if parts and parts[2] else None
    if parts is None or unit is None:
        return None
    amount, width = int(parts[0] * unit), max(1, int(parts[1] * unit))
    if sign == "+":
        at_ns = span.first_ns + amount
    else:
        at_ns = (span.last_ns if sign else now) - amount
    return Moment(at_ns, at_ns + width)


def _absolute(
    text: str, span: TimeSpan | None, now: int, after_ns: int | None, zone: tzinfo | None
) -> Moment | None:
    match = _WRITTEN.fullmatch(text)
    if match is None or not text:
        return None
    day, clock = match["day"], _clock(match, zone)
    if day is None:
        if after_ns is not None:
            # An end as displayed may be that of the start.
            width = clock.width_ns if _is_as_displayed(match["fraction"]) else 0
            at_ns = _next_after(after_ns - width, clock, span)
        else:
            at_ns = _on_own_day(text, clock, span or TimeSpan(now, now))
        return Moment(at_ns, at_ns + clock.width_ns)
    if day[0].isdigit():
        at_date = date.fromisoformat(day)
        if not _EPOCH.year - 1 <= at_date.year <= _LAST_DAY.year:
            # Not computed: years that the platform's calendar does not reach are times, too.
            at_ns = -1 if at_date.year < _EPOCH.year else LARGEST + 1
            return Moment(at_ns, at_ns)
    else:
        at_date = clock.day(now) - (_DAY if day.lower() == "yesterday" else timedelta())
    at_ns = clock.on(at_date)
    # Not 24 hours later: summer time may begin or end.
    end_ns = at_ns + clock.width_ns if clock.width_ns else clock.on(at_date + _DAY)
    return Moment(at_ns, end_ns)


def _clock(match: re.Match[str], zone: tzinfo | None) -> _Clock:
    fraction, width = match["fraction"] or "", 0
    if match["hour"]:
        width = _SECOND if match["second"] else 60 * _SECOND
    if match["zone"]:
        offset = timedelta(hours=int(match["hours"] or 0), minutes=int(match["minutes"] or 0))
        zone = timezone(-offset if match["sign"] == "-" else offset)
    return _Clock(
        int(match["hour"] or 0),
        int(match["minute"] or 0),
        int(match["second"] or 0),
        int(fraction.ljust(9, "0")),
        10 ** (9 - len(fraction)) if fraction else width,
        zone,
    )


def _next_after(after_ns: int, clock: _Clock, span: TimeSpan | None) -> int:
    """Return the next occurrence of a time of day, or the last one during the recording's days."""
    day = clock.day(after_ns)
    end = day + _DAY
    if span is not None:
        day, end = max(day, clock.day(min(span))), clock.day(max(span))
    at_ns = clock.on(min(day, end))
    return clock.on(day + _DAY) if at_ns <= after_ns and day < end else at_ns


def _on_own_day(text: str, clock: _Clock, span: TimeSpan) -> int:
    """Return the time of day on a day of the recording. Raises UsageError if it is ambiguous."""
    first_ns, last_ns = min(span), max(span)
    begin, end = clock.day(first_ns), clock.day(last_ns)
    # Of more than four days, those in between are alike.
    days = sorted({day for day in (begin, begin + _DAY, end - _DAY, end) if begin <= day <= end})
    times = [clock.on(day) for day in days]
    during = [ns for ns in times if ns <= last_ns and ns + clock.width_ns > first_ns]
    if len(during) > 1:
        latest = clock.day(during[-1])
        raise UsageError(
            f"{text} occurs on several days of this recording",
            f"write the date, too, as in {latest}T{text}",
        )
    return during[0] if during else min(times, key=lambda ns: max(first_ns - ns, ns - last_ns))


def split_quantity(text: str) -> tuple[Fraction, Fraction, str] | None:
    """Return the number, its precision and its unit; None if ``text`` is not a quantity.

    The precision is the place value of the last digit: 1/100 for ``1.50``.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    decimals = match[2] or ""
    precision = Fraction(1, 10 ** len(decimals))
    return Fraction(int(match[1] + decimals)) * precision, precision, match[3]


def duration_unit(unit: str) -> int | None:
    """Return the number of nanoseconds in ``unit``, or None if there is no such unit."""
    # Accept the Greek letter mu, which looks like the micro sign.
    return DURATION_UNITS.get(unit.replace("\N{GREEK SMALL LETTER MU}", "µ"))


def size_unit(unit: str) -> int | None:
    """Return the number of bytes in ``unit``, or None if there is no such unit."""
    short = unit.lower()
    if short != "b":
        short = short.removesuffix("b").removesuffix("i")
    return SIZE_UNITS.get(short)


def parse_duration(text: str) -> int | None:
    """Return the nanoseconds in ``10m``, ``1.5s`` …; None without a unit, or if not a duration."""
    return _parse(text, duration_unit)


def parse_size(text: str) -> int | None:
    """Return the bytes in ``500M``, ``64KiB``, ``4096`` …; None if it is not a size."""
    return _parse(text, lambda unit: size_unit(unit or "b"))


def _parse(text: str, unit_of: Callable[[str], int | None]) -> int | None:
    parts = split_quantity(text)
    scale = unit_of(parts[2]) if parts else None
    if parts is None or scale is None:
        return None
    amount = int(parts[0] * scale)
    return amount if amount <= LARGEST else None
