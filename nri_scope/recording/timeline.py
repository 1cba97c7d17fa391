# SPDX-License-Identifier: Apache-2.0
"""Merge events, gaps, notes, session starts and ends, and plugin output into one chronological
stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nri_scope.entries import Began, Ended, Item, time_of
from nri_scope.events import PASSIVE_ROLES, Event, Gap, Note, Printed, Session

_END = float("inf")


class Timeline:
    """Merger of events with gaps, notes, and session starts and ends; it yields each item once.

    Events keep their recorded order. Any other item precedes the first event that is not earlier
    than the item.
    """

    def __init__(self) -> None:
        self._yielded: set[tuple[type, int]] = set()
        """Types and ids of the gaps and notes already yielded."""
        self._open: dict[int, Session] = {}
        self._began: set[int] = set()

    def expect_ends(self, sessions: Iterable[Session]) -> None:
        """Yield the ends of ``sessions``, whose starts another timeline has yielded."""
        self._open |= {session.id: session for session in sessions}

    def merge(
        self,
        events: Iterable[Event],
        sessions: Sequence[Session],
        gaps: Iterable[Gap],
        until_ns: int | None = None,
        notes: Iterable[Note] = (),
    ) -> Iterator[Item]:
        """Yield ``events``, merged with the ``gaps`` and ``notes`` that were not yielded before.

        To follow a growing recording, call this again with the new events and all current
        ``sessions``, ``gaps`` and ``notes``. After the last event come the remaining items before
        ``until_ns``, or all of them.
        """
        by_id = {session.id: session for session in sessions}
        between: list[Gap | Note] = [*gaps, *notes]
        pending = sorted(
            (item for item in between if (type(item), item.id) not in self._yielded),
            key=lambda item: (time_of(item), type(item) is Gap, item.id),
            reverse=True,
        )
        self._open = {number: by_id.get(number, known) for number, known in self._open.items()}
        next_ns = self._next(pending)
        for event in events:
            if event.at_ns >= next_ns:
                yield from self._until(event.at_ns, pending)
                next_ns = self._next(pending)
            if event.session not in self._began:
                self._began.add(event.session)
                session = by_id.get(event.session)
                if session is not None:
                    self._open[session.id] = session
                    yield Began(session)
                    next_ns = self._next(pending)
            yield event
        yield from self._until(_END if until_ns is None else until_ns - 1, pending)

    def begin_after(self, at_ns: int, sessions: Iterable[Session]) -> Iterator[Began]:
        """Yield the starts of open sessions after the time of the newest event, as they have none.

        A copy of the events about one pod has such a session if recording goes on.
        """
        for session in sessions:
            if session.started_ns > at_ns and session.id not in self._began:
                self._began.add(session.id)
                self._open[session.id] = session
                yield Began(session)

    def _next(self, pending: list[Gap | Note]) -> float:
        """Return the time of the next gap, note or session end."""
        times: list[float] = [
            session.ended_ns for session in self._open.values() if session.ended_ns is not None
        ]
        if pending:
            times.append(time_of(pending[-1]))
        return min(times, default=_END)

    def _until(self, at_ns: float, pending: list[Gap | Note]) -> Iterator[Item]:
        due: list[tuple[int, int, Gap | Note | Ended]] = []
        while pending and time_of(pending[-1]) <= at_ns:
            item = pending.pop()
            self._yielded.add((type(item), item.id))
            due.append((time_of(item), 1, item))
        for session in list(self._open.values()):
            if session.ended_ns is not None and session.ended_ns <= at_ns:
                del self._open[session.id]
                due.append((session.ended_ns, 0, Ended(session)))
        yield from (item for _, _, item in sorted(due, key=lambda entry: entry[:2]))


def merge_output(items: Iterable[Item], lines: Iterable[Printed]) -> Iterator[Item]:
    """Yield ``items`` merged with ``lines`` printed by plugins; both in chronological order."""
    rest = iter(lines)
    line = next(rest, None)
    for item in items:
        # Yield no lines before a start: they belong between it and the next event.
        until_ns = 0 if isinstance(item, Began) else time_of(item)
        while line is not None and line.at_ns < until_ns:
            yield line
            line = next(rest, None)
        yield item
    if line is not None:
        yield line
        yield from rest


def sessions_overlap(sessions: Iterable[Session]) -> bool:
    """Return whether any two sessions overlapped in time."""
    latest: float = -_END
    for session in sorted(sessions, key=lambda session: session.started_ns):
        if session.started_ns < latest:
            return True
        if session.ended_ns is not None:
            latest = max(latest, session.ended_ns)
        elif not session.end_reason:
            # It is open, unless its recorder was killed.
            latest = _END
    return False


def can_show_times(sessions: Iterable[Session]) -> bool:
    """Return whether the sessions can show a plugin's time; one passive session cannot."""
    chain = [session for session in sessions if session.is_connection]
    has_plugin = any(session.role not in PASSIVE_ROLES for session in chain)
    return has_plugin or sessions_overlap(chain)
