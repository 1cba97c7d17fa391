# SPDX-License-Identifier: Apache-2.0
"""Format counts, durations, sizes and local times for display."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache

SHORT_ID = 12
"""Number of displayed characters of an id, as in container tools."""


def duration(ns: int) -> str:
    """Format a duration: ``91µs``, ``3.40ms``, ``2h05m``.

    Digits are truncated, not rounded, so that the filter ``took:52us``, which matches 52 µs up to
    53 µs, finds all durations displayed as ``52µs``.
    """
    if ns < 1000:
        return f"{ns}ns"
    if ns < 1_000_000:
        return f"{ns // 1000}µs"
    if ns < 1_000_000_000:
        return f"{_first_three(ns, 1_000_000)}ms"
    if ns < 60_000_000_000:
        return f"{_first_three(ns, 1_000_000_000)}s"
    minutes, seconds = divmod(ns // 1_000_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes}m{seconds:02d}s"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h" if days else f"{hours}h{minutes:02d}m"


def deadline(ns: int) -> str:
    """Format a deadline, rounded to its digits: runtimes send slightly less than configured."""
    step = 10_000_000 if ns >= 995_000_000 else 1_000_000
    return duration((ns + step // 2) // step * step)


def share_of_deadline(ns: int, deadline_ns: int) -> str:
    """Compare a time with a deadline: ``99 % of the deadline of 2.00s``."""
    share = "over" if ns > deadline_ns else f"{100 * ns // deadline_ns} % of"
    return f"{share} the deadline of {deadline(deadline_ns)}"


def response_time(took_ns: int) -> str:
    """Format a response time; ``-`` for 0, which means that it was not measured."""
    return duration(took_ns) if took_ns else "-"


def _first_three(ns: int, unit: int) -> str:
    whole, rest = divmod(ns, unit)
    if whole >= 100:
        return str(whole)
    return f"{whole}.{rest * 100 // unit:02d}" if whole < 10 else f"{whole}.{rest * 10 // unit}"


def size(count: int) -> str:
    """Format bytes: ``812 B``, ``4.10 KiB``, ``1.20 GiB``."""
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 999.5:
            return f"{_three(amount)} {unit}"
    return f"{amount:.0f} TiB"


def _three(amount: float) -> str:
    decimals = 2 if amount < 9.995 else 1 if amount < 99.95 else 0
    return f"{amount:.{decimals}f}"


def first_names(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first names, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{separator.join(names[:most])}{more}"


def many(count: int, noun: str) -> str:
    """Format a count with its noun: ``1 event``, ``2,000 events``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def clock(at_ns: int) -> str:
    """Format the local time of day, with milliseconds."""
    seconds, nanoseconds = divmod(at_ns, 1_000_000_000)
    return f"{_local(seconds)[1]}.{nanoseconds // 1_000_000:03d}"


def day(at_ns: int) -> str:
    """Format the local date, with the time zone's offset from UTC."""
    return _local(at_ns // 1_000_000_000)[0]


class Days:
    """Separator lines for a list of local times, one before each new day."""

    def __init__(self) -> None:
        self._day = ""

    @property
    def begun(self) -> bool:
        """Whether a line was returned before."""
        return bool(self._day)

    def turn(self, at_ns: int) -> list[str]:
        """Return one line if the day differs from that of the previous call; else an empty list."""
        before, self._day = self._day, day(at_ns)
        if self._day == before:
            return []
        return [f"── {self._day[:10]}, times at UTC{self._day[11:]}"]


def moment(at_ns: int) -> str:
    """Format the local date and time, to the second, with the offset from UTC."""
    date, clock_time = _local(at_ns // 1_000_000_000)
    return f"{date[:10]} {clock_time}{date[10:]}"


def span(first_ns: int, last_ns: int) -> str:
    """Format two local times: ``2026-01-31 14:05:00.123 to 14:06:00.000, UTC+01:00``.

    The date and the offset from UTC are repeated only if they differ.
    """
    first, last = day(first_ns), day(last_ns)
    if first == last:
        return f"{first[:10]} {clock(first_ns)} to {clock(last_ns)}, UTC{first[11:]}"
    begin = f"{first[:10]} {clock(first_ns)}"
    end = f"{last[:10]} {clock(last_ns)}, UTC{last[11:]}"
    return f"{begin} to {end}" if first[11:] == last[11:] else f"{begin}, UTC{first[11:]} to {end}"


# Events occur in bursts, mostly within the same second.
@lru_cache(maxsize=8)
def _local(seconds: int) -> tuple[str, str]:
    local = time.localtime(seconds)
    zone = time.strftime("%z", local)
    return (
        f"{time.strftime('%Y-%m-%d', local)} {zone[:3]}:{zone[3:]}",
        time.strftime("%H:%M:%S", local),
    )
