# SPDX-License-Identifier: Apache-2.0
"""Why a key that is about an event does nothing on a row, and what does it."""

from __future__ import annotations

from nri_scope.tui.model.rows import COLUMNS, Kind, Row


def no_event(row: Row) -> str:
    """What a row is that is no event; "" where it is one."""
    match row.kind:
        case Kind.EVENT:
            return ""
        case Kind.GAP:
            return "this row is a gap, not an event"
        case Kind.BEGAN | Kind.ENDED:
            return "this row is a session, not an event"
        case Kind.DAMAGED:
            return "what is here cannot be read"
        case Kind.GONE:
            return "this event was removed from the recording"


def no_filter(row: Row, column: str) -> str:
    """Why nothing is filtered by this column of the row, and the way out."""
    if row.session is not None:
        return f"{no_event(row)}; type session:{row.session.id} as a filter to see its events"
    if row.event is None:
        return f"{no_event(row)}; there is no value to filter by"
    title = next(each.title for each in COLUMNS if each.name == column)
    return f"{title} has no value to filter by here; ← and → select another field"


def no_container(row: Row) -> str:
    """Why there is no next event of the same container; "" where there may be one."""
    if row.event is None:
        return f"{no_event(row)}, and about no container"
    return "" if row.event.container_id else "this event is about no container"
