# SPDX-License-Identifier: Apache-2.0
"""Determine that a container did not exist because it is missing from a recording."""

from __future__ import annotations

from collections.abc import Callable

from nri_scope.events import Event
from nri_scope.nri.events import Event as NriEvent

from .reader import Recording
from .sqlite_errors import recording_errors

_COMPLETE_LIST = (
    "SELECT 1 FROM session AS s WHERE (s.mask = 0 OR s.mask & ?) AND EXISTS (SELECT 1 FROM event "
    "AS e JOIN name AS n ON n.id = e.event WHERE n.text = 'Synchronize' AND e.session = s.id "
    "AND e.id < ?) LIMIT 1"
)
_KNOWN_CONTAINER = (
    "SELECT 1 FROM container AS c WHERE substr(c.id, 1, ?) = ? AND (EXISTS (SELECT 1 FROM event "
    "AS e WHERE e.container = c.key AND e.id <= ?) OR EXISTS (SELECT 1 FROM state AS s "
    "WHERE s.container = c.key AND s.event <= ?)) LIMIT 1"
)
"""Finds no container that was only the target of a request, which does not prove its existence."""


def absence_test(recording: Recording) -> Callable[[str, Event], bool]:
    """Return a function of an id prefix and an event: whether no such container existed by then.

    That is certain only if a connection received the list of all containers before, and no event
    was lost.
    """

    def is_absent(container_id: str, event: Event) -> bool:
        if any(not gap.is_left_out for gap in recording.gaps()):
            return False
        with recording_errors(recording):
            connection = recording.connection
            bit = NriEvent.CreateContainer.bit
            if connection.execute(_COMPLETE_LIST, (bit, event.id)).fetchone() is None:
                return False
            values = len(container_id), container_id, event.id, event.id
            return connection.execute(_KNOWN_CONTAINER, values).fetchone() is None

    return is_absent
