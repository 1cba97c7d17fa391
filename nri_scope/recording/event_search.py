# SPDX-License-Identifier: Apache-2.0
"""Search events for a text from a given event, forwards or backwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nri_scope.filter.text_comparison import fold

from .event_pages import among
from .reader import Recording
from .sqlite_errors import query_numbers

_STEP = 4_000
_AMONG = 500
_SEPARATOR = "x'0a'"
_TEXT = f" || {_SEPARATOR} || ".join(
    (
        "event",
        "namespace || '/' || pod || '/' || container",
        "plugin",
        "container_id",
        "pod_id",
        "status",
        "status_message",
        "mark",
        "changed",
        "owners",
    )
)
_HAS = f"instr(lower({_TEXT}), ?) > 0"


@dataclass(frozen=True, slots=True)
class SearchStep:
    """Progress of a search."""

    share: float
    """Fraction done, 0 to 1."""
    found: int | None = None
    """The event found, which ends the search."""


def among_all(
    recording: Recording, text: str, start: int, end: int, *, forwards: bool
) -> Iterator[SearchStep]:
    """Search events from ``start`` to ``end``, both included; backwards, ``end`` is the smaller
    one.

    Raises RecordingError.
    """
    needle = fold(text)
    whole = abs(end - start) + 1
    at = start
    sign = 1 if forwards else -1
    compare, order = (">=", "ASC") if forwards else ("<=", "DESC")
    while (end - at) * sign >= 0:
        # Continue at the next existing event: there may be large holes.
        some = query_numbers(
            recording, f"SELECT id FROM event WHERE id {compare} ? ORDER BY id {order} LIMIT 1", at
        )
        if not some or (end - some[0][0]) * sign < 0 or (some[0][0] - at) * sign < 0:
            return
        at = some[0][0]
        last = min(end, at + _STEP) if forwards else max(end, at - _STEP)
        low, high = min(at, last), max(at, last)
        found = query_numbers(
            recording,
            f"SELECT id FROM events WHERE id >= {low} AND id <= {high} AND {_HAS} "
            f"ORDER BY id {order} LIMIT 1",
            needle,
        )
        at = last + sign
        yield SearchStep(min(1.0, abs(at - start) / whole), found[0][0] if found else None)
        if found:
            return


def among_some(
    recording: Recording, text: str, numbers: Sequence[int], *, forwards: bool
) -> Iterator[SearchStep]:
    """Search these events in ascending order; backwards from the last. Raises RecordingError."""
    needle = fold(text)
    order = "ASC" if forwards else "DESC"
    for done in range(0, len(numbers), _AMONG):
        stop = len(numbers) - done
        some = numbers[done : done + _AMONG] if forwards else numbers[max(0, stop - _AMONG) : stop]
        found = query_numbers(
            recording,
            f"SELECT id FROM events WHERE {among(some)} AND {_HAS} ORDER BY id {order} LIMIT 1",
            needle,
        )
        yield SearchStep(min(1.0, (done + _AMONG) / len(numbers)), found[0][0] if found else None)
        if found:
            return
