# SPDX-License-Identifier: Apache-2.0
"""Lines of the tabs that show a row of the list."""

from __future__ import annotations

from nri_scope.events import Event, Gap, Session
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.detail.tab_lines import Tab, TabRequest, detail
from nri_scope.tui.store.markers import RowKey
from nri_scope.tui.store.reader_thread import CancelFlag
from nri_scope.tui.store.rows import COLUMNS, ListRow, RowKind, RowStyle
from nri_scope.tui.text.styled_line import text_of


def a_row(
    event: Event | None = None, gap: Gap | None = None, session: Session | None = None
) -> ListRow:
    kind = RowKind.EVENT if event else RowKind.GAP if gap else RowKind.ENDED
    key = RowKey.of_event(1)
    return ListRow(kind, key, ("",) * len(COLUMNS), "a row", RowStyle.PLAIN, event, gap, session)


def tab_lines(recording: Recording, row: ListRow, tab: Tab, **more: object) -> list[str]:
    request = TabRequest(row, tab, 80, **more)  # type: ignore[arg-type]
    return [text_of(one) for one in detail(recording, request, CancelFlag())]
