# SPDX-License-Identifier: Apache-2.0
"""Merge events, gaps, notes, session starts and ends, and plugin output into one chronological
stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nri_scope.events import Event, Gap, Note, Printed, Session


@dataclass(frozen=True, slots=True)
class Began:
    """A session whose first event follows."""

    session: Session


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that began earlier in the stream has ended."""

    session: Session


_END = float("inf")

Item = Event | Gap | Began | Ended | Note | Printed


class Timeline:
    """Merges gaps, notes, and session starts and ends into the events; yields each item once.

    Events keep their recorded order; an item between them goes before the first event that is not
    earlier.
    """

    def __init__(self) -> None:
        self._shown: set[tuple[type, int]] = set()
        """Types and numbers of the gaps and notes shown."""
        self._open: dict[int, Session] = {}
        self._began: set[int] = set()

    def merge(
        self,
        events: Iterable[Event],
        sessions: Sequence[Session],
        gaps: Iterable[Gap],
        until_ns: int | None = None,
        notes: Iterable[Note] = (),
    ) -> Iterator[Item]:
        """Yield the items of ``events``, and of all ``gaps`` and ``notes`` not given before.

        ``sessions``, ``gaps`` and ``notes`` are those in the recording now, so this can be called
        again with later items. After the last event, the items before ``until_ns`` follow, or all.
        """
        by_id = {session.id: session for session in sessions}
        between: list[Gap | Note] = [*gaps, *notes]
        waiting = sorted(
            (one for one in between if (type(one), one.id) not in self._shown),
            key=lambda one: (time_of(one), type(one) is Gap, one.id),
            reverse=True,
        )
        self._open = {number: by_id.get(number, known) for number, known in self._open.items()}
        next_ns = self._next(waiting)
        for event in events:
            if event.at_ns >= next_ns:
                yield from self._until(event.at_ns, waiting)
                next_ns = self._next(waiting)
            if event.session not in self._began:
                self._began.add(event.session)
                session = by_id.get(event.session)
                if session is not None:
                    self._open[session.id] = session
                    yield Began(session)
                    next_ns = self._next(waiting)
            yield event
        yield from self._until(_END if until_ns is None else until_ns - 1, waiting)

    def _next(self, waiting: list[Gap | Note]) -> float:
        """Return the time of the earliest gap, note or session end that is still to be yielded."""
        times: list[float] = [
            session.ended_ns for session in self._open.values() if session.ended_ns is not None
        ]
        if waiting:
            times.append(time_of(waiting[-1]))
        return min(times, default=_END)

    def _until(self, at_ns: float, waiting: list[Gap | Note]) -> Iterator[Item]:
        due: list[tuple[int, int, Gap | Note | Ended]] = []
        while waiting and time_of(waiting[-1]) <= at_ns:
            one = waiting.pop()
            self._shown.add((type(one), one.id))
            due.append((time_of(one), 1, one))
        for session in list(self._open.values()):
            if session.ended_ns is not None and session.ended_ns <= at_ns:
                del self._open[session.id]
                due.append((session.ended_ns, 0, Ended(session)))
        yield from (item for _, _, item in sorted(due, key=lambda entry: entry[:2]))


def time_of(one: Event | Gap | Note | Printed) -> int:
    """Return the time of an item; for a gap, its start."""
    return one.from_ns if isinstance(one, Gap) else one.at_ns


def merge_output(items: Iterable[Item], lines: Iterable[Printed]) -> Iterator[Item]:
    """Yield ``items`` merged with ``lines`` that plugins printed; both are in order of time."""
    rest = iter(lines)
    line = next(rest, None)
    for item in items:
        match item:
            case Began():
                # Lines printed earlier come with the session's first event.
                until_ns = 0
            case Ended(session):
                until_ns = session.ended_ns or 0
            case _:
                until_ns = time_of(item)
        while line is not None and line.at_ns < until_ns:
            yield line
            line = next(rest, None)
        yield item
    if line is not None:
        yield line
        yield from rest


def sessions_overlap(sessions: Iterable[Session]) -> bool:
    """Return whether any two sessions were open at the same time."""
    latest: float = -_END
    for session in sorted(sessions, key=lambda session: session.started_ns):
        if session.started_ns < latest:
            return True
        # A session whose recorder was killed ends when the next one begins.
        latest = max(latest, session.started_ns if session.ended_ns is None else session.ended_ns)
    return False
