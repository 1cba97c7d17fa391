# SPDX-License-Identifier: Apache-2.0
"""Filters from the cells of rows, and explanations for rows without an event."""

from __future__ import annotations

import re

from nri_scope.events import Event, is_set_up
from nri_scope.filter.fields import BY_NAME
from nri_scope.filter.tree import Matches, quote
from nri_scope.specs import label
from nri_scope.text.quantities import duration

from ..store.rows import COLUMNS, POSITION, ListRow, RowKind
from ..text.filter_text import check


def why_no_event(row: ListRow) -> str:
    """Explain what a row is if it is not an event; "" for an event."""
    match row.kind:
        case RowKind.EVENT:
            return ""
        case RowKind.GAP:
            return "this row is a gap, not an event"
        case RowKind.BEGAN | RowKind.ENDED:
            return "this row is a session, not an event"
        case RowKind.DAMAGED:
            return "this row cannot be read"
        case RowKind.GONE:
            return "this event was removed from the recording"
        case RowKind.LINE:
            return "this row is not an event"


def why_no_filter(row: ListRow, column: str) -> str:
    """Explain why this cell cannot be used as a filter, and what to do."""
    if row.session is not None:
        return f"{why_no_event(row)}; type session:{row.session.id} as a filter to see its events"
    if row.event is None:
        return f"{why_no_event(row)}; there is no value to filter by"
    title = COLUMNS[POSITION[column]].title
    return f"{title} has no value to filter by here; ← and → select another field"


def row_term(row: ListRow, column: str) -> str:
    """Return a filter for the value of a row in a column; "" if there is none."""
    if row.event is None or (row.events and COLUMNS[POSITION[column]].of_one_event):
        return ""
    if column in ("event", "subject") and is_set_up(row.events):
        return f"session:{row.event.session}"
    return term(row.event, column)


def term(event: Event, column: str) -> str:
    """Return a filter for events with the same value in a column; "" if there is none."""
    match column:
        case "event":
            by_name = f"event:{quote(event.event)}"
            if check(by_name).filter:
                return by_name
            # Unknown events are only accepted as a regular expression.
            return str(Matches(BY_NAME["event"], f"^{re.escape(event.event)}$"))
        case "subject":
            names = [f"pod:{quote(event.pod, is_name=True)}"] if event.pod else []
            if event.container:
                names.append(f"container:{quote(event.container, is_name=True)}")
            if not names and (event.container_id or event.pod_id):
                names = [f"id:{quote(event.container_id or event.pod_id)}"]
            return " ".join(names)
        case "plugin":
            return f"plugin:{quote(event.plugin)}" if event.plugin else ""
        case "status":
            return f"status:{quote(event.status)}"
        case "changed":
            return f"changed:{quote(label(event.changed[0]))}" if event.changed else ""
        case "took":
            return f"took:>={_shown_duration(max(0, event.took_ns))}"
        case _:
            return ""


def _shown_duration(ns: int) -> str:
    """Return a duration as shown in the list, in units of the filter language."""
    shown = duration(ns)
    return f"{ns // 1_000_000_000}s" if ns >= 60_000_000_000 else shown.replace("µ", "u")
