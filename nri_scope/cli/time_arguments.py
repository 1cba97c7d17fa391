# SPDX-License-Identifier: Apache-2.0
"""Points in time on the command line, with the same meaning as in the filter field `time`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nri_scope.errors import UsageError
from nri_scope.filter.moments import event_number, event_or_moment, interval, moment

from .params import Checked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nri_scope.filter import Filter
    from nri_scope.replay.script import RecordingPlace


def _text(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Return a function that returns its text if ``parse`` accepts it."""

    def checked(text: str) -> str:
        parse(text)
        return text

    return checked


_TIME = Checked("time", _text(moment))
_PLACE = Checked("place", _text(event_or_moment))


def limited(
    where: Filter | None, times: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    """Return the times, also limited by a filter, so that gaps and output are limited, too."""
    low, high = where.times if where is not None else (None, None)
    since = [each for each in (low, times[0]) if each is not None]
    until = [each for each in (None if high is None else high + 1, times[1]) if each is not None]
    return max(since, default=None), min(until, default=None)


def places_of(
    file: Path, begin: str | None, end: str | None
) -> tuple[RecordingPlace | None, RecordingPlace | None]:
    """Return the places of `since_place_option` and `until_place_option` in a recording.

    Raises UsageError, as `recording.query.event_times.times_of`.
    """
    from nri_scope.recording.query.event_times import time_span
    from nri_scope.recording.reading.reader import Recording
    from nri_scope.replay.script import RecordingPlace

    numbers = [event_number(text or "") for text in (begin, end)]
    since, until = (
        text if text is not None and number is None else ""
        for text, number in zip((begin, end), numbers, strict=True)
    )
    times: tuple[int | None, int | None] = (None, None)
    if since or until:
        with Recording.open(file) as recording:
            times = interval(since, until, time_span(recording))
    first, last = (
        RecordingPlace(number, at_ns) if (number, at_ns) != (None, None) else None
        for number, at_ns in zip(numbers, times, strict=True)
    )
    if first is not None and last is not None and first.is_at_or_after(last):
        raise UsageError("--since is not before --until, so there is no event to play", "swap them")
    return first, last


since_option = click.option(
    "--since",
    metavar="TIME",
    type=_TIME,
    help="Only events at or after this time, e.g. 14:05, +30s or yesterday; see `help filters`.",
)
"""Option whose value is a text, for `recording.query.event_times.times_of`, or None."""
until_option = click.option(
    "--until",
    metavar="TIME",
    type=_TIME,
    help="Only events before this time.",
)
"""Option like ``since_option``."""
since_place_option = click.option(
    "--since",
    metavar="EVENT|TIME",
    type=_PLACE,
    help="Start at this event, by its number, or at this time.",
)
"""Option whose value is a text, for `places_of`, or None."""
until_place_option = click.option(
    "--until", metavar="EVENT|TIME", type=_PLACE, help="Stop before this event or time."
)
"""Option like ``since_place_option``."""
