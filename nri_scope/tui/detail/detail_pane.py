# SPDX-License-Identifier: Apache-2.0
"""The detail pane: details of the selected row in tabs, beside or below the view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial, partialmethod
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.timer import Timer
from textual.widget import Widget

from nri_scope.errors import NriScopeError
from nri_scope.recording.display import subject
from nri_scope.text.escape import safe

from ..actions import key_of
from ..store.reader_thread import CancelFlag
from ..store.rows import ListRow
from ..store.store import Store
from ..text.styled_line import EventLine, Style, StyledLine, line
from ..textual_workarounds import begin
from ..widgets.bars import TabLine
from ..widgets.board import GUTTER
from ..widgets.lines import LinesView
from ..widgets.messages import OpenEvent, TabChosen
from .tab_lines import Tab, TabRequest, detail

_SETTLE_S = 0.06
"""Seconds that the cursor must stay on a row before its details are read."""
_PLACEHOLDER_DELAY_S = 0.15
"""Seconds of reading after which the details of the previous row are replaced by "…"."""
_REREAD_S = 2.0
"""Seconds between reads of the same details while the recording grows."""
_BESIDE_FROM = 200
"""Minimum screen width for the pane beside the list, in columns, unless the user moved it."""
_GROWING = (Tab.SUMMARY, Tab.CHANGES, Tab.BLAME)
"""Tabs that also depend on later events."""
_LOADING: tuple[StyledLine, ...] = (line("…", Style.DIM),)


class _Body(LinesView):
    """Lines of a tab."""

    when_resized: Callable[[], None] = lambda: None
    action_full: Callable[[], None] = lambda: None
    """Toggle between all lines and only changed ones, or open the line's event."""

    def resized(self) -> None:
        """Lay out lines for another width."""
        super().resized()
        self.when_resized()


class DetailPane(Widget):
    """Pane with the details of one row, docked at an edge of its parent.

    Nothing is read while the pane is hidden, or for rows that the cursor only passes. Reading
    is cancelled when its result is no longer needed.
    """

    DEFAULT_CSS = """
    DetailPane { dock: bottom; width: 100%; height: 50%; border-top: solid $panel; }
    DetailPane.-beside {
        dock: right; width: 50%; height: 100%; border-top: none; border-left: solid $panel;
    }
    DetailPane:ansi { border-top: solid $primary; }
    DetailPane.-beside:ansi { border-top: none; border-left: solid $primary; }
    DetailPane.-alone, DetailPane.-alone:ansi { width: 100%; height: 100%; border: none; }
    DetailPane.-hidden { display: none; }
    DetailPane > LinesView { height: 1fr; }
    """
    can_focus = False

    tabs: ClassVar[tuple[Tab, ...]] = tuple(Tab)

    def __init__(
        self,
        store: Store,
        *,
        hidden: bool = False,
    ) -> None:
        super().__init__()
        self._store = store
        self._tab_line = TabLine({tab: tab for tab in Tab}, padded=True)
        self._body = _Body(wrap=True)
        self._body.when_resized, self._body.action_full = self._fit, self._enter
        self.left: Callable[[], None] = lambda: None
        """Called when the pane is no longer maximised or shown: focuses the view at once, so that
        the next key does not reach hidden lines."""
        self.arranged: Callable[[], None] = lambda: None
        """Called when another tab is shown, or the pane is shown, hidden, maximised or restored."""
        self._row: ListRow | None = None
        self._comment = ""
        self._full = False
        self._beside: bool | None = None
        self._shown: TabRequest | None = None
        """Request whose lines are shown or being read."""
        self._read_last: TabRequest | None = None
        """Request whose lines are shown; None if there are none, or "…"."""
        self._reread_timer: Timer | None = None
        self._opens = False
        """Whether to open the line under the cursor once the row has been read."""
        self._stop = CancelFlag()
        self.set_class(hidden, "-hidden")

    def compose(self) -> ComposeResult:
        """Compose tabs and lines."""
        yield self._tab_line
        yield self._body

    # -- content ------------------------------------------------------------------------------

    @property
    def tab(self) -> Tab:
        """The current tab, even if the pane is hidden."""
        return Tab(self._tab_line.chosen)

    @property
    def body(self) -> LinesView:
        """The lines, for focus and search."""
        return self._body

    @property
    def is_hidden(self) -> bool:
        """Whether the pane is hidden."""
        return self.has_class("-hidden")

    @property
    def is_alone(self) -> bool:
        """Whether the pane is maximised."""
        return self.has_class("-alone")

    @property
    def is_full(self) -> bool:
        """Whether the Blame tab shows all lines."""
        return self._full

    def show(self, row: ListRow | None, comment: str = "") -> None:
        """Show a row; ``comment``: the user's comment on it."""
        if (row, comment) == (self._row, self._comment):
            return
        self._row, self._comment, self._opens = row, comment, False
        self._tab_line.show(self.tab, _title_of(row))
        self._load(_SETTLE_S)

    def show_tab(self, tab: Tab) -> None:
        """Switch to a tab, for this and all later rows."""
        if tab is not self.tab:
            self._tab_line.show(tab, self._tab_line.words)
            self._load()
            self.arranged()

    def recording_grown(self) -> None:
        """Schedule another read of the details, as later events may show changes."""
        if self._reread_timer is None and self._shown is not None and self.tab in _GROWING:
            self._reread_timer = self.set_timer(_REREAD_S, self._reread)

    def _reread(self) -> None:
        self._reread_timer = None
        if self._shown is not None and self._stop.is_set:
            self._load()
        else:
            # A read is under way and may miss the new data: schedule another one.
            self.recording_grown()

    async def find(self, text: str, *, forwards: bool = True) -> bool:
        """Go to the next line with `text` after the last match, wrapping; highlight all matches."""
        body = self._body
        body.highlight = text
        start = body.found + 1 if forwards else body.found - 1
        found = await body.find(text, start, forwards=forwards)
        if found is None and len(body.source):
            again = 0 if forwards else len(body.source) - 1
            found = await body.find(text, again, forwards=forwards)
        if found is None:
            return False
        body.found = found
        body.go_to(found)
        return True

    # -- actions ------------------------------------------------------------------------------

    def _show_neighbour(self, step: int) -> None:
        """Show the tab to the right (1) or left (-1); if the pane is hidden, open it."""
        if self.is_hidden:
            self.action_toggle_detail()
        self.show_tab(self.tabs[(self.tabs.index(self.tab) + step) % len(self.tabs)])

    action_next_tab = partialmethod(_show_neighbour, 1)
    action_previous_tab = partialmethod(_show_neighbour, -1)

    def action_toggle_detail(self) -> None:
        """Show or hide the pane."""
        self.set_class(not self.is_hidden, "-hidden")
        if self.is_hidden:
            self._stop.set()
            self._shown = None
            self.restore()
            self.left()
        else:
            self._load()
        self.arranged()

    def action_maximise_detail(self) -> None:
        """Maximise the pane, or restore it."""
        if self.is_hidden:
            self.action_toggle_detail()
        self.toggle_class("-alone")
        if self.is_alone:
            self.screen.set_focus(self._body)
        else:
            self.left()
        self.arranged()

    def restore(self) -> None:
        """End maximising the pane."""
        if self.is_alone:
            self.remove_class("-alone")
            self.arranged()

    def action_move_detail(self) -> None:
        """Move the pane from below to beside, or back."""
        self._beside = not self.has_class("-beside")
        self._place()

    def on_mount(self) -> None:
        """Place the pane below or beside the view."""
        self._place()

    def on_resize(self) -> None:
        """Place the pane for the new size."""
        self._place()

    def _fit(self) -> None:
        request = self._current_request()
        if request is not None and request != self._shown:
            self._load(_SETTLE_S)

    def _place(self) -> None:
        wide = self.app.size.width >= _BESIDE_FROM
        self.set_class(wide if self._beside is None else self._beside, "-beside")

    @on(TabChosen)
    def _tab_chosen(self, message: TabChosen) -> None:
        message.stop()
        self.show_tab(Tab(message.name))

    def _enter(self) -> None:
        if self.tab is Tab.BLAME:
            self._full = not self._full
            self._load()
            self.arranged()
            return
        request = self._current_request()
        if request is not None and request.row.summary is not None and request != self._read_last:
            self._opens = True
            return
        source = self._body.source
        found = source[self._body.cursor] if self._body.has_cursor and len(source) else None
        if isinstance(found, EventLine):
            self.post_message(OpenEvent(found.event))

    @on(LinesView.Opened)
    def _line_opened(self, message: LinesView.Opened) -> None:
        message.stop()
        self._enter()

    # -- reading ------------------------------------------------------------------------------

    def _current_request(self) -> TabRequest | None:
        if self._row is None or self.is_hidden:
            return None
        # YAML is wrapped when drawn; other tabs are laid out for a width.
        laid_out = self.tab in (Tab.SUMMARY, Tab.CHANGES, Tab.BLAME)
        width = self._body.scrollable_content_region.width if laid_out else 80
        if not width:
            # Not laid out yet: `_fit` is called when the size is known.
            return None
        full = self._full and self.tab is Tab.BLAME
        shown: list[int | None] = [event.id for event in self._row.events]
        findings = self._store.analysis.titles(*shown or [self._row.event_id])
        if self._row.summary is not None:
            width -= GUTTER
        return TabRequest(self._row, self.tab, max(width, 20), full, self._comment, findings)

    def _load(self, delay: float = 0.0) -> None:
        """Read the current request after ``delay`` seconds, replacing earlier reads."""
        self._stop.set()
        self._stop = CancelFlag()
        begin(self, partial(self._read, delay, self._stop), "detail", exclusive=True)

    async def _read(self, delay: float, stop: CancelFlag) -> None:
        if delay:
            await asyncio.sleep(delay)
        before, request = self._shown, self._current_request()
        self._shown = request
        if request is None:
            stop.set()
            self._replace_lines(())
            return

        def show_placeholder() -> None:
            # A stopped timer may already have queued this call.
            if not stop.is_set:
                self._replace_lines(_LOADING)

        # When lines are only refreshed, the old ones stay until then.
        timer = (
            self.set_timer(_PLACEHOLDER_DELAY_S, show_placeholder)
            if self._read_last is None or not _is_update(self._read_last, request)
            else None
        )
        try:
            lines = await self._store.run(lambda recording: detail(recording, request, stop))
        except NriScopeError as error:
            lines = [line(str(error), Style.BAD)]
        finally:
            # Also after a cancellation, to end the work in the thread.
            stop.set()
            if timer is not None:
                timer.stop()
        if request.tab is Tab.BLAME and (request.row.event or request.row.subject):
            kind = "only changed lines" if request.full else "all lines"
            lines = [*lines, (), line(f"{key_of('full')} in this pane shows {kind}", Style.DIM)]
        self._read_last = request
        if before != request or lines != self._body.source:
            keep = before is not None and _is_same_subject(before, request)
            self._show_lines(lines, keep=keep)
            text, names = self._body.highlight, _title_of(request.row).lower()
            if not keep and request.tab is Tab.BLAME and text.lower() not in names:
                # What the user searched for in the list, unless that is the container.
                await self.find(text)
        if self._opens:
            self._opens = False
            self._enter()

    def _show_lines(self, lines: list[StyledLine], *, keep: bool) -> None:
        """Show lines, with a cursor if some can be opened; ``keep``: keep the position."""
        first = next((at for at, each in enumerate(lines) if isinstance(each, EventLine)), None)
        keep = keep and self._body.has_cursor == (first is not None)
        self._body.has_cursor = first is not None
        self._body.gutter_width = GUTTER if self._body.has_cursor else 0
        self._body.show(lines, keep_position=keep)
        if first is not None and not keep:
            self._body.cursor = first

    def _replace_lines(self, lines: tuple[StyledLine, ...]) -> None:
        self._read_last = None
        self._show_lines([*lines], keep=False)


def _title_of(row: ListRow | None) -> str:
    if row is None:
        return ""
    event = row.event
    if event is None:
        return row.text
    return f"#{event.id} {safe(event.event)} {subject(event)}".rstrip()


def _is_update(one: TabRequest, other: TabRequest) -> bool:
    """Return whether both show the same thing, perhaps with other numbers."""
    return one == other or (one.tab is other.tab and _plugin_of(one) == _plugin_of(other) != "")


def _plugin_of(tab_request: TabRequest) -> str:
    return tab_request.row.text if tab_request.row.summary is not None else ""


def _is_same_subject(one: TabRequest, other: TabRequest) -> bool:
    """Return whether the same scroll position is useful in both."""
    if _plugin_of(one):
        return _is_update(one, other)
    if one.tab is not other.tab or one.full != other.full:
        return False
    if one.row.event is None or other.row.event is None:
        return one.row == other.row
    return one.row.event.container_id == other.row.event.container_id
