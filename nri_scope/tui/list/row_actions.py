# SPDX-License-Identifier: Apache-2.0
"""What a row can be filtered by, and why a key that is about an event does nothing on a row."""

from __future__ import annotations

import re

from nri_scope.recorder import display
from nri_scope.recorder.filter.fields import BY_NAME
from nri_scope.recorder.filter.tree import Matches, quote
from nri_scope.recorder.model import Event
from nri_scope.tui.store.rows import COLUMNS, Row, RowKind
from nri_scope.tui.text.filter_text import check


def no_event(row: Row) -> str:
    """Return what a row is that is no event; "" where it is one."""
    match row.kind:
        case RowKind.EVENT:
            return ""
        case RowKind.GAP:
            return "this row is a gap, not an event"
        case RowKind.BEGAN | RowKind.ENDED:
            return "this row is a session, not an event"
        case RowKind.DAMAGED:
            return "what is here cannot be read"
        case RowKind.GONE:
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


def term(event: Event, column: str) -> str:
    """Return the filter that finds what has the same value in this column; "" where none can."""
    match column:
        case "event":
            found = f"event:{quote(event.event)}"
            # A method that our tables do not have is found by a regular expression.
            return (
                found
                if check(found).filter
                else str(Matches(BY_NAME["event"], f"^{re.escape(event.event)}$"))
            )
        case "subject":
            names = [f"pod:{quote(event.pod)}"] if event.pod else []
            if event.container:
                names.append(f"container:{quote(event.container)}")
            if not names and (event.container_id or event.pod_id):
                names = [f"id:{quote(event.container_id or event.pod_id)}"]
            return " ".join(names)
        case "plugin":
            return f"plugin:{quote(event.plugin)}" if event.plugin else ""
        case "status":
            return f"status:{quote(event.status)}"
        case "changed":
            return f"changed:{quote(event.changed[0])}" if event.changed else ""
        case "took":
            return f"took:>={_shown_duration(max(0, event.took_ns))}"
        case _:
            return ""


def _shown_duration(ns: int) -> str:
    """As the list shows it: cut, never more than it was; in the units that a filter knows."""
    shown = display.duration(ns)
    return f"{ns // 1_000_000_000}s" if ns >= 60_000_000_000 else shown.replace("µ", "u")
