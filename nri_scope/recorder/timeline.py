# SPDX-License-Identifier: Apache-2.0
"""Events with what happened between them, in one stream: gaps, sessions that begin or end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nri_scope.recorder.model import Event, Gap, Session


@dataclass(frozen=True, slots=True)
class Began:
    """The events that follow are of this session, and none before was."""

    session: Session


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that began earlier in the stream is over."""

    session: Session


_END = float("inf")

Item = Event | Gap | Began | Ended


class Timeline:
    """Puts gaps and sessions at their place between events; remembers what it has shown.

    Events keep the order in which they were recorded; what lies between them goes before the first
    event that is not earlier.
    """

    def __init__(self) -> None:
        self._shown_gaps: set[int] = set()
        self._open: dict[int, Session] = {}
        self._began: set[int] = set()

    def merge(
        self,
        events: Iterable[Event],
        sessions: Sequence[Session],
        gaps: Iterable[Gap],
        until_ns: int | None = None,
    ) -> Iterator[Item]:
        """The items of ``events``, and of all ``gaps`` not given before.

        ``sessions`` and ``gaps`` are as the recording has them now, so this can be called again
        with what came later. After the last event follows what happened before ``until_ns``.
        """
        by_id = {session.id: session for session in sessions}
        waiting = sorted(
            (gap for gap in gaps if gap.id not in self._shown_gaps),
            key=lambda gap: (gap.from_ns, gap.id),
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

    def _next(self, waiting: list[Gap]) -> float:
        """The moment of the earliest gap or end that is still to be given."""
        times: list[float] = [
            session.ended_ns for session in self._open.values() if session.ended_ns is not None
        ]
        if waiting:
            times.append(waiting[-1].from_ns)
        return min(times, default=_END)

    def _until(self, at_ns: float, waiting: list[Gap]) -> Iterator[Item]:
        due: list[tuple[int, int, Gap | Ended]] = []
        while waiting and waiting[-1].from_ns <= at_ns:
            gap = waiting.pop()
            self._shown_gaps.add(gap.id)
            due.append((gap.from_ns, 1, gap))
        for session in list(self._open.values()):
            if session.ended_ns is not None and session.ended_ns <= at_ns:
                del self._open[session.id]
                due.append((session.ended_ns, 0, Ended(session)))
        yield from (item for _, _, item in sorted(due, key=lambda entry: entry[:2]))


def interleaved(sessions: Iterable[Session]) -> bool:
    """Whether two sessions were open at the same time: then every line has to say whose it is."""
    latest: float = -_END
    for session in sorted(sessions, key=lambda session: session.started_ns):
        if session.started_ns < latest:
            return True
        # One whose recorder was killed is over when the next one begins.
        latest = max(latest, session.started_ns if session.ended_ns is None else session.ended_ns)
    return False
