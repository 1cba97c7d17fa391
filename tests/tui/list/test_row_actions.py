# SPDX-License-Identifier: Apache-2.0
"""Messages of keys that have no effect on a row."""

from __future__ import annotations

from nri_scope.entries import Began
from nri_scope.events import Gap
from nri_scope.tui.list.event_list import why_no_event, why_no_filter
from nri_scope.tui.store.markers import EntryMarker, RowKey
from nri_scope.tui.store.rows import damaged_row, event_row, gone_row, marker_row
from tests.recording.made import a_session, an_event

SESSION = marker_row(EntryMarker(RowKey(1, 0, 0, 2), Began(a_session(2))))
GAP = marker_row(EntryMarker(RowKey(1, 0), Gap(1, None, 0, 1, "", None)))


def test_session_row_suggests_a_filter_by_its_number() -> None:
    words = "this row is a session, not an event; type session:2 as a filter to see its events"
    assert why_no_filter(SESSION, "took") == words


def test_gap_row_has_no_value_to_filter_by() -> None:
    assert "a gap, not an event; there is no value" in why_no_filter(GAP, "subject")


def test_damaged_and_removed_rows_state_the_reason() -> None:
    assert "cannot be read" in why_no_filter(damaged_row(3, "torn"), "event")
    assert "was removed" in why_no_filter(gone_row(3), "event")


def test_column_without_a_value_is_named() -> None:
    row = event_row(an_event(1), 0)
    assert why_no_event(row) == ""
    assert why_no_filter(row, "time").startswith("Time has no value to filter by here")
