# SPDX-License-Identifier: Apache-2.0
"""Read the plugins' failure policies from the replies to Configure."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace

from nri_scope.events import Role, Session
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
