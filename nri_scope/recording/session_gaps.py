# SPDX-License-Identifier: Apache-2.0
"""The time between a recording's sessions, in which nothing was observed.

A recorder that loses its runtime and finds it again notes a gap. A recorder launched by the runtime
ends with it, and the next one continues the same file; so does a later ``record -o`` to an existing
file. Neither knows what came before, but the recording does: this module derives their gaps from
its sessions, for recordings of every age.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from nri_scope.events import KILLED, Gap, Role, Session

_OBSERVING = frozenset({Role.LOGGER, Role.PROBE, Role.TAP})
"""Roles that observe a node. A replay has its own time; the CRI is only queried."""


def gaps_between(sessions: Iterable[Session], noted: Sequence[Gap]) -> list[Gap]:
    """Return the gaps between sessions that are not among those ``noted`` in the recording.

    Their numbers are those of the sessions that follow them, negated. If a part of a recording was
    made without some events, its sessions do not define the time between them.
    """
    lost = _Reaching(gap for gap in noted if not gap.is_left_out)
    left_out = _Reaching(gap for gap in noted if gap.is_left_out)
    killed = sorted(gap.from_ns for gap in noted if gap.reason == KILLED)
    found: list[Gap] = []
    newest: Session | None = None
    until_ns: float = -inf
    observing = (session for session in sessions if session.role in _OBSERVING)
    for session in sorted(observing, key=lambda session: (session.started_ns, session.id)):
        began_ns = session.started_ns
        if newest is not None and until_ns < began_ns:
            from_ns = int(max(until_ns, lost.reached(began_ns - 1)))
            if from_ns < began_ns and left_out.reached(began_ns) < until_ns:
                why = f"no session was recorded after session {newest.id} had ended"
                if newest.end_reason:
                    why += f": {newest.end_reason}"
                found.append(Gap(-session.id, None, from_ns, began_ns, why, None))
        ended_ns = _end(session, killed)
        if ended_ns > until_ns:
            newest, until_ns = session, ended_ns
    return found


class _Reaching:
    """The latest end of the gaps begun by a moment; moments must be queried in ascending order."""

    def __init__(self, gaps: Iterable[Gap]) -> None:
        self._gaps: Iterator[Gap] = iter(sorted(gaps, key=lambda gap: gap.from_ns))
        self._next = next(self._gaps, None)
        self._reached: float = -inf

    def reached(self, at_ns: int) -> float:
        while self._next is not None and self._next.from_ns <= at_ns:
            self._reached = max(self._reached, self._next.to_ns)
            self._next = next(self._gaps, None)
        return self._reached


def _end(session: Session, killed: Sequence[int]) -> float:
    """Return when a session ended, as far as later rows show."""
    if session.ended_ns is not None:
        return session.ended_ns
    if session.end_reason != KILLED:
        return inf
    # The recorder that continued the file noted the end of the killed recorder's events.
    return next((at_ns for at_ns in killed if at_ns >= session.started_ns), inf)
