# SPDX-License-Identifier: Apache-2.0
"""The views of a recording, of which one is current, and the detail pane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from nri_scope.events import Event

from .actions import Scope
from .detail.detail_pane import DetailPane
from .detail.tab_lines import Tab
from .list.event_list import EventList
from .list.row_painter import EventHeader
from .store.context import Context
from .store.store import Store
from .widgets.board import Board
from .widgets.messages import StatusText

EVENTS = "events"
"""The name of the first view."""
DETAIL_FROM = (200, 30)
"""Minimum columns or lines for showing the detail pane from the start."""


SCOPES = {
    EVENTS: Scope.EVENTS,
    "containers": Scope.CONTAINERS,
    "timeline": Scope.TIMELINE,
    "plugins": Scope.PLUGINS,
    "sessions": Scope.SESSIONS,
    "findings": Scope.FINDINGS,
}
"""Key scope of each view, in key order; ``mode_<name>`` is the action that shows it."""


class Views(Container):
    """The list of events, the boards, and the detail pane; one view is shown at a time.

    The boards do not exist before `complete`.
    """

    DEFAULT_CSS = """
    Views { height: 1fr; }
    #views { width: 1fr; height: 1fr; }
    #events { height: 1fr; }
    #nothing { display: none; height: 1fr; content-align: center middle; text-align: center; }
    EventList.-nothing { height: 0; }
    #nothing.-shown { display: block; }
    """

    def __init__(
        self,
        store: Store,
        context: Context,
        *,
        follows: Callable[[], bool],
        is_marked: Callable[[Event | None], bool],
        hide_detail: bool,
    ) -> None:
        """Create the views. ``follows`` returns whether the recording may still grow."""
        super().__init__()
        self._board_arguments = store, context
        self._is_marked = is_marked
        header = EventHeader()
        self.events = EventList(
            store,
            follows=follows(),
            header=header,
            grouped=context.grouped,
            is_marked=lambda row: is_marked(row.event) or any(map(is_marked, row.events)),
            grows=follows,
        )
        self.nothing = Static(id="nothing", markup=False)
        """Text shown instead of an empty list."""
        self.boards: Mapping[str, Board] = {}
        """The other views, by name; empty before `complete`."""
        self._completing = asyncio.Lock()
        self.detail = DetailPane(store, hidden=hide_detail)
        self.detail.left = self.focus_view
        self._switcher = ContentSwitcher(
            Vertical(header, self.events, self.nothing, id=EVENTS),
            initial=EVENTS,
            id="views",
        )
        self.switched: Callable[[], None] = lambda: None
        """Callback after a change of the current view."""

    def compose(self) -> ComposeResult:
        """Compose the views and the detail pane."""
        yield self._switcher
        yield self.detail

    async def complete(self) -> None:
        """Create the boards, unless they exist or the app is ending.

        This takes longer than the list of events needs to show its first rows.
        """
        async with self._completing:
            if not self.boards:
                boards = self._new_boards()
                for name, board in boards.items():
                    board.id, board.is_marked, board.display = name, self._is_marked, False
                await self._switcher.mount_all(boards.values())
                if not all(board.is_attached for board in boards.values()):
                    # Textual mounts nothing while the app is ending.
                    return
                self.boards = boards
                for board in boards.values():
                    # The marks may have been loaded before.
                    board.marks_changed()

    def _new_boards(self) -> dict[str, Board]:
        # Imported only once the list of events is shown.
        from .containers.container_board import ContainerBoard
        from .finding_board import FindingBoard
        from .plugins.plugin_board import PluginBoard
        from .plugins.session_board import SessionBoard
        from .timeline.timeline_board import TimelineBoard

        return {
            "containers": ContainerBoard(*self._board_arguments),
            "timeline": TimelineBoard(*self._board_arguments),
            "plugins": PluginBoard(*self._board_arguments),
            "sessions": SessionBoard(*self._board_arguments),
            "findings": FindingBoard(*self._board_arguments),
        }

    @property
    def mode(self) -> str:
        """The name of the current view."""
        return self._switcher.current or EVENTS

    @property
    def current(self) -> EventList | Board:
        """The current view."""
        return self.boards.get(self.mode, self.events)

    @property
    def scope(self) -> Scope:
        """The scope of the keys of the current view."""
        return SCOPES[self.mode]

    @on(EventHeader.Clicked)
    def _column_clicked(self, event: EventHeader.Clicked) -> None:
        self.events.select_field(event.column)

    @property
    def in_detail(self) -> bool:
        """Whether the detail pane has the focus."""
        # `Widget.has_focus` changes only after the next key may have been handled.
        screens = self.app.screen_stack
        return bool(screens) and screens[0].focused is self.detail.body

    def show(self, name: str) -> None:
        """Show and focus a view, if it exists."""
        if name != EVENTS and name not in self.boards:
            return
        if name != self.mode:
            self._switcher.current = name
            self.switched()
        self.focus_view()

    def show_event(self, number: int) -> bool:
        """Go to an event in the list of events; return False if it is not in the list."""
        if not self.events.go_to_event(number):
            return False
        self.show(EVENTS)
        view = self.events.view
        operation = view.number_of(number)
        if operation != number and not view.is_open(operation):
            words = f"event {number} is part of this operation; Enter shows its events"
            self.post_message(StatusText(words))
        return True

    def goes_on(self, number: int, *, forwards: bool) -> bool:
        """Go to an event's row; return False if it is not in the list, or, in the list of events,
        at the cursor or in the other direction, as a later event of an operation above is.
        """
        events = self.events
        if self.mode == EVENTS:
            by = events.view.position_of(number) - events.listing.cursor
            if not (by > 0 if forwards else by < 0):
                return False
        return events.go_to_event(number)

    @property
    def selected_events(self) -> Sequence[int]:
        """The selected event, or all events of the selected operation; () if there is none."""
        number = self.current.selected_event_id
        if self.mode == EVENTS:
            return self.events.selected_events
        return [] if number is None else [number]

    def focus_view(self, *, detail: bool = False) -> None:
        """Focus the current view, or, with ``detail``, the detail pane.

        Maximised details hide the view: they are restored.
        """
        if detail:
            self.focus_now(self.detail.body)
        else:
            self.detail.restore()
            current = self.current
            self.focus_now(current.body if isinstance(current, Board) else current)

    def focus_now(self, widget: Widget) -> None:
        """Focus a widget immediately, so that it receives the next key.

        `Widget.focus` would do so only after that key may have been handled.
        """
        self.app.screen_stack[0].set_focus(widget)

    def open_detail(self) -> None:
        """Show and focus the detail pane."""
        if self.detail.is_hidden:
            self.detail.action_toggle_detail()
        self.focus_view(detail=True)

    def open_tab(self, tab: Tab) -> None:
        """Show and focus a tab of the detail pane."""
        self.open_detail()
        self.detail.show_tab(tab)

    async def update(self) -> None:
        """Update the current view if it is a board."""
        if isinstance(self.current, Board):
            await self.current.update()

    def highlight(self, text: str) -> None:
        """Highlight a text in every view."""
        self.events.search_text = text
        self.detail.body.highlight = text
        for board in self.boards.values():
            board.body.highlight = text

    def redraw_marks(self) -> None:
        """Redraw the marks."""
        self.events.refresh_marks()
        for board in self.boards.values():
            board.marks_changed()
