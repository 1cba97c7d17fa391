# SPDX-License-Identifier: Apache-2.0
"""The details of the selected row, in tabs; beside the list, below it, alone, or hidden."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from nri_scope.errors import NriScopeError
from nri_scope.recording.display import subject
from nri_scope.text.escape import safe

from ..actions import DEFAULT, Keymap
from ..store.reader_thread import CancelFlag
from ..store.rows import Row
from ..store.store import Store
from ..text.styled_line import Style, StyledLine, line
from ..textual_gaps import begin
from ..widgets.bars import TabLine
from ..widgets.lines import Lines
from ..widgets.messages import TabChosen
from .tab_lines import Tab, TabRequest, detail

_SETTLED = 0.06
"""Seconds that the cursor must stay on a row before it is read, for fast scrolling."""
_PATIENCE = 0.15
"""Seconds after which the content of another row is replaced with "…"."""
_RENEWED = 2.0
"""Seconds after which the content is read again while the recording grows."""
_BESIDE_FROM = 200
"""Minimum columns of the screen for the pane to be beside the list, unless configured."""
_GROWING = (Tab.SUMMARY, Tab.CHANGES, Tab.BLAME)
"""Tabs that depend on other events, too."""
_LOADING: tuple[StyledLine, ...] = (line("…", Style.DIM),)


class _Body(Lines):
    """The lines of a tab."""

    when_resized: Callable[[], None] = lambda: None
    action_full: Callable[[], None] = lambda: None
    """Show all lines, or only the informative ones."""

    def resized(self) -> None:
        """Lay out lines for another width."""
        super().resized()
        self.when_resized()


class DetailPane(Widget):
    """Shows the details of one row.

    It docks at an edge of its parent. Nothing is read while it is hidden, or for rows that the
    cursor only passes; reading that is no longer needed is stopped.
    """

    DEFAULT_CSS = """
    DetailPane { dock: bottom; width: 100%; height: 50%; border-top: solid $panel; }
    DetailPane.-beside {
        dock: right; width: 50%; height: 100%; border-top: none; border-left: solid $panel;
    }
    DetailPane.-alone { width: 100%; height: 100%; border: none; }
    DetailPane.-hidden { display: none; }
    DetailPane > Lines { height: 1fr; }
    """
    can_focus = False

    tabs: ClassVar[tuple[Tab, ...]] = tuple(Tab)

    class Left(Message):
        """The pane was hidden: the focus returns to the list."""

    def __init__(
        self,
        store: Store,
        *,
        hidden: bool = False,
        keymap: Keymap = DEFAULT,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._store = store
        self._keymap = keymap
        self._tab_line = TabLine({tab: tab for tab in Tab}, padded=True)
        self._body = _Body(wrap=True)
        self._body.when_resized, self._body.action_full = self._fit, self._toggle_full
        self._row: Row | None = None
        self._comment = ""
        self._full = False
        self._beside: bool | None = None
        self._shown: TabRequest | None = None
        """The request whose lines are shown or being read."""
        self._read_last: TabRequest | None = None
        """The request whose lines are shown now; None if there are none, or "…"."""
        self._renewal: Timer | None = None
        self._stop = CancelFlag()
        self.set_class(hidden, "-hidden")

    def compose(self) -> ComposeResult:
        """Compose tabs above lines."""
        yield self._tab_line
        yield self._body

    # -- content ------------------------------------------------------------------------------

    @property
    def tab(self) -> Tab:
        """The current tab, even if the pane is hidden."""
        return Tab(self._tab_line.chosen)

    @property
    def body(self) -> Lines:
        """The lines, for the focus and for searching."""
        return self._body

    @property
    def is_hidden(self) -> bool:
        """Whether it is not on the screen."""
        return self.has_class("-hidden")

    @property
    def is_alone(self) -> bool:
        """Whether it fills the screen."""
        return self.has_class("-alone")

    def show(self, row: Row | None, comment: str = "") -> None:
        """Show another row; ``comment`` is the user's comment on it."""
        if (row, comment) == (self._row, self._comment):
            return
        self._row, self._comment = row, comment
        self._tab_line.show(self.tab, _title_of(row))
        self._load(_SETTLED)

    def show_tab(self, tab: Tab) -> None:
        """Show another tab, for this and all later rows."""
        if tab is not self.tab:
            self._tab_line.show(tab, self._tab_line.words)
            self._load()

    def grown(self) -> None:
        """Read again soon: the recording has more data, such as the outcome of changes."""
        if self._renewal is None and self._shown is not None and self.tab in _GROWING:
            self._renewal = self.set_timer(_RENEWED, self._renew)

    def _renew(self) -> None:
        self._renewal = None
        if self._shown is not None and self._stop.is_set:
            self._load()
        else:
            # The data being read may be outdated.
            self.grown()

    async def find(self, text: str, *, forwards: bool = True) -> bool:
        """Show the next line with `text`, after the top line, and highlight all matches."""
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

    def action_next_tab(self) -> None:
        """Show the tab to the right."""
        self.show_tab(self.tabs[(self.tabs.index(self.tab) + 1) % len(self.tabs)])

    def action_previous_tab(self) -> None:
        """Show the tab to the left."""
        self.show_tab(self.tabs[self.tabs.index(self.tab) - 1])

    def action_toggle_detail(self) -> None:
        """Show or hide the pane."""
        self.set_class(not self.is_hidden, "-hidden")
        if self.is_hidden:
            self._stop.set()
            self._shown = None
            self.remove_class("-alone")
            self.post_message(self.Left())
        else:
            self._load()

    def action_maximise_detail(self) -> None:
        """Show the pane alone, or with the list again."""
        if self.is_hidden:
            self.action_toggle_detail()
        self.toggle_class("-alone")
        if self.is_alone:
            self._body.focus()
        else:
            self.post_message(self.Left())

    def action_move_detail(self) -> None:
        """Move the pane from below to beside, or back."""
        self._beside = not self.has_class("-beside")
        self._place()

    def on_mount(self) -> None:
        """Choose the position."""
        self._place()

    def on_resize(self) -> None:
        """Choose the position again."""
        self._place()

    def _fit(self) -> None:
        wanted = self._wanted()
        if wanted is not None and wanted != self._shown:
            self._load(_SETTLED)

    def _place(self) -> None:
        wide = self.app.size.width >= _BESIDE_FROM
        self.set_class(wide if self._beside is None else self._beside, "-beside")

    @on(TabChosen)
    def _tab_chosen(self, message: TabChosen) -> None:
        message.stop()
        self.show_tab(Tab(message.name))

    def _toggle_full(self) -> None:
        if self.tab is Tab.BLAME:
            self._full = not self._full
            self._load()

    # -- reading ------------------------------------------------------------------------------

    def _wanted(self) -> TabRequest | None:
        if self._row is None or self.is_hidden:
            return None
        # YAML is wrapped when drawn; all other lines are laid out for a width.
        laid_out = self.tab in (Tab.SUMMARY, Tab.CHANGES, Tab.BLAME)
        width = self._body.scrollable_content_region.width if laid_out else 80
        if not width:
            # The pane is notified when it gets its size.
            return None
        full = self._full and self.tab is Tab.BLAME
        return TabRequest(self._row, self.tab, max(width, 20), full, self._comment)

    def _load(self, after: float = 0.0) -> None:
        """Read the wanted content, once the cursor has not moved for ``after`` seconds."""
        self._stop.set()
        self._stop = CancelFlag()
        begin(self, partial(self._read, after, self._stop), "detail", exclusive=True)

    async def _read(self, after: float, stop: CancelFlag) -> None:
        if after:
            await asyncio.sleep(after)
        before, wanted = self._shown, self._wanted()
        self._shown = wanted
        if wanted is None:
            stop.set()
            self._show_instead(())
            return

        def waits() -> None:
            # A stopped timer may already have sent this.
            if not stop.is_set:
                self._show_instead(_LOADING)

        # Content that is only refreshed stays meanwhile, at its scroll position.
        timer = self.set_timer(_PATIENCE, waits) if wanted != self._read_last else None
        try:
            lines = await self._store.run(lambda recording: detail(recording, wanted, stop))
        except NriScopeError as error:
            lines = [line(str(error), Style.BAD)]
        finally:
            # After a cancellation, the result is no longer needed.
            stop.set()
            if timer is not None:
                timer.stop()
        key = self._keymap.first("full")
        if wanted.tab is Tab.BLAME and wanted.row.event is not None and key:
            kind = "only changed lines" if wanted.full else "all lines"
            lines = [*lines, (), line(f"{key} in this pane shows {kind}", Style.DIM)]
        self._read_last = wanted
        if before == wanted and lines == self._body.source:
            return
        self._body.show(lines, keep_position=before is not None and _alike(before, wanted))

    def _show_instead(self, lines: tuple[StyledLine, ...]) -> None:
        self._read_last = None
        self._body.show(lines)


def _title_of(row: Row | None) -> str:
    if row is None:
        return ""
    event = row.event
    if event is None:
        return row.text
    return f"#{event.id} {safe(event.event)} {subject(event)}".rstrip()


def _alike(one: TabRequest, other: TabRequest) -> bool:
    """Return whether the same position in both shows the same things."""
    if one.tab is not other.tab or one.row.event is None or other.row.event is None:
        return False
    same = one.row.event.container_id == other.row.event.container_id
    return same and one.full == other.full
