# SPDX-License-Identifier: Apache-2.0
"""Parse the values of ``--since`` and ``--until``."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, tzinfo

import click

from nri_scope.errors import UsageError
from nri_scope.filter.quantity import parse_duration

FORMS = "2026-01-31T14:05:00Z, 14:05, yesterday, or 10m for ten minutes ago"

_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_FRACTION = re.compile(r"(:[0-9]{2})[.,]([0-9]{1,9})(?![0-9])")
_DAYS = {"today": 0, "yesterday": 1}


def parse_moment(text: str, now_ns: int, zone: tzinfo | None = None) -> int | None:
    """Return ``text`` in nanoseconds since the epoch; None if it is not a time.

    Accepts RFC 3339, a date, ``HH:MM[:SS]`` of today, ``today`` and ``yesterday`` (optionally with
    a time of day), ``now``, or a duration before ``now_ns``. Times without a zone are in ``zone``,
    by default the local one.
    """
    text = text.strip()
    if text.lower() == "now":
        return now_ns
    ago = parse_duration(text)
    if ago is not None:
        return now_ns - ago if ago <= now_ns else None
    fraction = 0
    if found := _FRACTION.search(text):
        # datetime has only microseconds.
        fraction = int(found[2].ljust(9, "0"))
        text = text[: found.end(1)] + text[found.end() :]
    today = datetime.fromtimestamp(now_ns // 1_000_000_000, zone).replace(tzinfo=zone)
    try:
        moment = _parse(text, today, zone)
        if moment is None:
            return None
        whole = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    nanoseconds = (whole.days * 86400 + whole.seconds) * 1_000_000_000 + fraction
    return nanoseconds if 0 <= nanoseconds < 1 << 63 else None


def _parse(text: str, today: datetime, zone: tzinfo | None) -> datetime | None:
    day, _, rest = text.partition(" ")
    if day.lower() in _DAYS:
        today -= timedelta(days=_DAYS[day.lower()])
        return _at(today, rest.strip() or "0:00")
    if ":" in text and "-" not in text and len(text) <= len("00:00:00"):
        return _at(today, text)
    # fromisoformat also takes 20260131 and week dates, but a bare number would be ambiguous.
    if not re.match(r"[0-9]{4}-", text):
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _at(day: datetime, clock: str) -> datetime | None:
    found = _CLOCK.fullmatch(clock)
    if found is None:
        return None
    return day.replace(
        hour=int(found[1]), minute=int(found[2]), second=int(found[3] or 0), microsecond=0
    )


def _convert(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    moment = parse_moment(text, time.time_ns())
    if moment is None:
        raise click.BadParameter(f"{text!r} is not a time; write {FORMS}", param=parameter)
    return moment


def check_interval(since: int | None, until: int | None) -> None:
    """Raise UsageError if ``since`` is not before ``until``."""
    if since is None or until is None or since < until:
        return
    raise UsageError(
        f"--since {_shown(since)} is not before --until {_shown(until)}",
        "give the earlier time to --since",
    )


def _shown(at_ns: int) -> str:
    from nri_scope.recording.display import moment

    return moment(at_ns)


since_option = click.option(
    "--since",
    metavar="TIME",
    callback=_convert,
    help=f"Include only events at or after this time: {FORMS}.",
)
"""Option whose value is in nanoseconds since the epoch, or None."""
until_option = click.option(
    "--until", metavar="TIME", callback=_convert, help="Include only events before this time."
)
"""Option like ``since_option``."""
