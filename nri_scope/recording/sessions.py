# SPDX-License-Identifier: Apache-2.0
"""What follows from a recording's sessions: gaps between them, and plugins' failure policies.

A recorder that reconnects to its runtime records a gap itself. A recorder launched by the runtime
ends with the runtime, and the next one continues the same file, as does a later ``record -o`` to an
existing file. These recorders do not record the time in between as a gap, so this module derives it
from the sessions. Failure policies are in the replies to Configure.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

from nri_scope.events import KILLED, NO_SESSION, Gap, Role, Session
from nri_scope.nri.runtime_setup import parse_failure_policy
from nri_scope.nri.versions import NriVersion, has_failure_policy

from .rows import optional_numbers_of

_NEAR = 1_000
"""Maximum distance of Configure from the session's first event, in event ids."""
_REPLY_MAX = 1_000
"""Maximum size in bytes of a Configure reply that is read; valid ones have about ten."""
_SESSIONS_MAX = 1_000
"""Maximum number of sessions that are searched; the file may be forged."""
_REPLY = (
    "SELECT e.reply FROM event AS e JOIN name AS n ON n.id = e.method "
    "JOIN session AS s ON s.id = e.session LEFT JOIN object AS o ON o.id = e.reply "
    "WHERE e.id BETWEEN s.first_event AND s.first_event + ? AND s.id = ? "
    "AND n.text = 'Configure' AND e.service IS NULL AND e.status_code = 0 "
    "AND (e.reply IS NULL OR o.size <= ?) ORDER BY e.id LIMIT 1"
)

_OBSERVING = frozenset({Role.LOGGER, Role.PROBE, Role.TAP})
"""Roles that observe a node. A replay has its own time, and the CRI is only queried."""


def gaps_between(sessions: Iterable[Session], noted: Sequence[Gap]) -> list[Gap]:
    """Return the gaps between sessions that the ``noted`` gaps, those in the table, do not cover.

    The id of a gap is the negated id of the session after it. Where an extracted part of a
    recording omits events, no gap is derived.
    """
    lost = _LatestEnd(gap for gap in noted if not gap.is_left_out)
    left_out = _LatestEnd(gap for gap in noted if gap.is_left_out)
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
                why = f"{NO_SESSION} after session {newest.id} had ended"
                if newest.end_reason:
                    why += f": {newest.end_reason}"
                found.append(Gap(-session.id, None, from_ns, began_ns, why, None))
        ended_ns = _end(session, killed)
        if ended_ns > until_ns:
            newest, until_ns = session, ended_ns
    return found


class _LatestEnd:
    """Latest end of the gaps that began by a given time. Times must be queried in order."""

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
    """Return the end of a session in ns, or infinity if unknown."""
    if session.ended_ns is not None:
        return session.ended_ns
    if session.end_reason != KILLED:
        return inf
    # The gap recorded by the next recorder begins at the killed recorder's last event.
    return next((at_ns for at_ns in killed if at_ns >= session.started_ns), inf)


def with_failure_policies(
    sessions: Iterable[Session], connection: sqlite3.Connection, content: Callable[[int], bytes]
) -> list[Session]:
    """Return the sessions with the failure policies that their runtimes apply; None if unknown.

    ``content`` returns the content of an object. Raises what it and SQLite raise.
    """
    found: list[Session] = []
    searched = 0
    for session in sessions:
        known = has_failure_policy(NriVersion.parse(session.nri_version))
        if known and session.role != Role.CRI:
            policy = row = None
            if searched < _SESSIONS_MAX:
                searched += 1
                row = connection.execute(_REPLY, (_NEAR, session.id, _REPLY_MAX)).fetchone()
            if row is not None:
                # An empty reply is stored as NULL.
                (number,) = optional_numbers_of(row)
                policy = parse_failure_policy(b"" if number is None else content(number))
            session = replace(session, failure_policy=policy)
        found.append(session)
    return found
