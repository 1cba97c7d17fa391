# SPDX-License-Identifier: Apache-2.0
"""Containers that are missing from a recording and so did not exist."""

from __future__ import annotations

from collections.abc import Callable

from nri_scope.events import Event
from nri_scope.nri.events import Event as NriEvent

from .reader import Recording
from .sqlite_errors import recording_errors

_ALL_TOLD = (
    "SELECT 1 FROM session AS s WHERE (s.mask = 0 OR s.mask & ?) AND EXISTS (SELECT 1 FROM event "
    "AS e JOIN name AS n ON n.id = e.event WHERE n.text = 'Synchronize' AND e.session = s.id "
    "AND e.id < ?) LIMIT 1"
)
_THIS_TOLD = (
    "SELECT 1 FROM container AS c WHERE substr(c.id, 1, ?) = ? AND (EXISTS (SELECT 1 FROM event "
    "AS e WHERE e.container = c.key AND e.id <= ?) OR EXISTS (SELECT 1 FROM state AS s "
    "WHERE s.container = c.key AND s.event <= ?)) LIMIT 1"
)
"""A request for a container does not prove that it exists."""


def absence_test(recording: Recording) -> Callable[[str, Event], bool]:
    """Return a test: whether no container whose id begins with a text existed by an event.

    That is certain if a connection got the list of all containers before, and nothing was lost.
    """

    def is_absent(container_id: str, event: Event) -> bool:
        if any(not gap.is_left_out for gap in recording.gaps()):
            return False
        with recording_errors(recording):
            connection = recording.connection
            bit = NriEvent.CreateContainer.bit
            if connection.execute(_ALL_TOLD, (bit, event.id)).fetchone() is None:
                return False
            values = len(container_id), container_id, event.id, event.id
            return connection.execute(_THIS_TOLD, values).fetchone() is None

    return is_absent
