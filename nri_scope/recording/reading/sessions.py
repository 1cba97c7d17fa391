# SPDX-License-Identifier: Apache-2.0
"""What follows from a recording's sessions: gaps between them, and plugins' failure policies.

A recorder that reconnects to its runtime records a gap itself. A recorder launched by the runtime
ends with the runtime, and the next one continues the same file, as does a later ``record -o`` to an
existing file. These recorders do not record the time in between as a gap, so this module derives it
from the sessions. Failure policies are in the replies to Configure.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import inf
from operator import itemgetter

from nri_scope.events import KILLED, LATE_SYNCHRONIZE, NO_SESSION, NOT_CONNECTED, Gap, Role, Session
from nri_scope.nri.events import CONFIGURE
from nri_scope.nri.runtime_setup import parse_failure_policy
from nri_scope.nri.versions import NriVersion, has_failure_policy

from ..file.heartbeat import Heartbeat
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
    f"AND n.text = '{CONFIGURE}' AND e.service IS NULL AND e.status_code = 0 "
    "AND (e.reply IS NULL OR o.size <= ?) ORDER BY e.id LIMIT 1"
)

LATE_SYNCHRONIZE_QUERY = (
    "SELECT s.id, e.at_ns + e.timeout_ns FROM session AS s JOIN event AS e ON e.id = s.sync_event "
    "WHERE e.timeout_ns > 0 AND e.took_ns >= e.timeout_ns AND NOT EXISTS "
    "(SELECT 1 FROM event AS later WHERE later.id > e.id AND later.session = s.id) ORDER BY s.id"
)
"""Sessions whose last event is a Synchronize that got a late reply, and its deadline in ns."""

_PART = 1 << 40
"""Difference of the ids of parts of a derived gap; larger than ids of sessions."""
_AFTER_SYNCHRONIZE = 1 << 60
"""Difference of the ids of gaps after Synchronize; larger than those of parts."""

OBSERVING = frozenset({Role.LOGGER, Role.PROBE, Role.TAP})
"""Roles that observe a node. A replay has its own time, and the CRI is only queried."""


def unobserved(noted: Sequence[Gap], sessions: Iterable[Session]) -> list[Gap]:
    """Return the ``noted`` gaps, up to the end of Synchronize, without those of one recorder in
    which another one observed.

    A recording of a node has the sessions of several recorders; `gaps_between` finds what is left.
    The gap of a probe is one of its session, as other probes have other places in the chain.
    """
    observing = sorted((session for session in sessions if session.role in OBSERVING), key=_began)
    starts = [_began(session)[0] for session in observing]
    synchronized = {session.started_ns: _began(session)[0] for session in observing}
    ends = list(accumulate(map(known_end, observing), max))

    def valid() -> Iterator[Gap]:
        for gap in noted:
            before = bisect_left(starts, gap.to_ns)
            of_all = gap.session is None
            if not (of_all and gap.reason.startswith((KILLED, NOT_CONNECTED, NO_SESSION))):
                yield gap
            elif not before or ends[before - 1] <= gap.from_ns:
                yield replace(gap, to_ns=synchronized.get(gap.to_ns, gap.to_ns))

    return list(valid())


def _began(session: Session) -> tuple[int, int]:
    """Return when a session began to observe, and its id."""
    return max(session.started_ns, session.synced_ns or 0), session.id


def gaps_between(sessions: Iterable[Session], noted: Sequence[Gap]) -> list[Gap]:
    """Return the gaps between sessions that the ``noted`` gaps, those in the table, do not cover.

    The id of a gap is the negated id of the session after it; `_PART` tells parts that noted gaps
    divide.
    """
    lost = joined((gap.from_ns, gap.to_ns) for gap in noted if not gap.is_left_out)
    gaps: list[Gap] = []
    newest: Session | None = None
    until_ns: float = -inf
    observing = (session for session in sessions if session.role in OBSERVING)
    for session in sorted(observing, key=_began):
        began_ns, _ = _began(session)
        if newest is not None and until_ns < began_ns:
            why = f"{NO_SESSION} after session {newest.id} had ended"
            if newest.end_reason:
                why += f": {newest.end_reason}"
            holes = _uncovered(int(until_ns), began_ns, lost)
            gaps += (
                Gap(-session.id - part * _PART, None, *hole, why, None)
                for part, hole in enumerate(holes)
            )
        ended_ns = known_end(session)
        if ended_ns > until_ns:
            newest, until_ns = session, ended_ns
    return gaps


def gaps_after_synchronize(
    late: Mapping[int, int], sessions: Iterable[Session], noted: Sequence[Gap]
) -> Iterator[Gap]:
    """Yield a gap for each connection that got no event after a late reply to Synchronize.

    containerd 1.7.24 keeps such a connection open and sends it nothing. ``late``: sessions of
    `LATE_SYNCHRONIZE_QUERY`. Not if a ``noted`` gap of the session, or of omitted events, is in
    this time: a part of a recording has its own. Its id is negative, too.
    """
    for session in sessions:
        from_ns, to_ns = late.get(session.id), session.ended_ns
        if from_ns is None or to_ns is None or session.role not in OBSERVING:
            continue
        is_covered = any(
            gap.from_ns < to_ns
            and gap.to_ns > from_ns
            and (gap.is_left_out or gap.session == session.id)
            for gap in noted
        )
        if from_ns < to_ns and not is_covered:
            yield Gap(
                -session.id - _AFTER_SYNCHRONIZE, session.id, from_ns, to_ns, LATE_SYNCHRONIZE, None
            )


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in ascending order, with those merged that overlap or touch."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def _uncovered(
    from_ns: int, to_ns: int, covered: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the parts of an interval that none of the ``covered`` ones contains."""
    first = bisect_left(covered, from_ns, key=itemgetter(1))
    for low, high in (covered[number] for number in range(first, len(covered))):
        if low >= to_ns:
            break
        if from_ns < low:
            yield from_ns, low
        from_ns = max(from_ns, high)
    if from_ns < to_ns:
        yield from_ns, to_ns


def gap_until(
    now_ns: int, heartbeat: Heartbeat, sessions: Sequence[Session], newest_ns: int
) -> Gap:
    """Return the gap up to now of a recorder in trouble; ``newest_ns``: time of the last event.

    Its id is 0: it has no row, and ends when the recorder goes on.
    """
    began_ns = min((session.started_ns for session in sessions), default=now_ns)
    from_ns = min(max(heartbeat.written_ns, newest_ns) or began_ns, now_ns)
    unended = (session for session in sessions if session.ended_ns is None)
    active = [session.id for session in unended if not session.end_reason]
    # Another recorder may observe what this one does not.
    session = active[0] if len(active) == 1 else None
    return Gap(0, session, from_ns, now_ns, heartbeat.trouble(now_ns), None)


def known_end(session: Session) -> float:
    """Return the end of a session in ns, or infinity if unknown."""
    return inf if session.ended_ns is None else session.ended_ns


def with_ends(sessions: Iterable[Session], until_ns: int) -> Iterator[Session]:
    """Yield the sessions of a recorder that is not running; those that it did not close ended at
    ``until_ns``, up to which it wrote all events.
    """
    for session in sessions:
        if session.ended_ns is None:
            ended_ns = max(session.started_ns, until_ns)
            session = replace(session, ended_ns=ended_ns, end_reason=KILLED)
        yield session


def with_failure_policies(
    sessions: Iterable[Session], connection: sqlite3.Connection, content: Callable[[int], bytes]
) -> list[Session]:
    """Return the sessions with the failure policies that their runtimes apply; None if unknown.

    ``content`` returns the content of an object. Raises what it and SQLite raise.
    """
    completed: list[Session] = []
    searched = 0
    for session in sessions:
        has_policy = has_failure_policy(NriVersion.parse(session.nri_version))
        if has_policy and session.role != Role.CRI:
            policy = row = None
            if searched < _SESSIONS_MAX:
                searched += 1
                row = connection.execute(_REPLY, (_NEAR, session.id, _REPLY_MAX)).fetchone()
            if row is not None:
                # An empty reply is stored as NULL.
                (number,) = optional_numbers_of(row)
                policy = parse_failure_policy(b"" if number is None else content(number))
            session = replace(session, failure_policy=policy)
        completed.append(session)
    return completed
