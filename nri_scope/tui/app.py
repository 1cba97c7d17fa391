# SPDX-License-Identifier: Apache-2.0
"""The terminal user interface: views of one recording, and what keeps them in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Container as Box
from textual.containers import Vertical
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from nri_scope.errors import NriScopeError
from nri_scope.recorder.filter import Filter
from nri_scope.tui import main_screen
from nri_scope.tui.bindings import as_keymap, bindings
from nri_scope.tui.copying import Copier
from nri_scope.tui.finding import Finder
from nri_scope.tui.jobs import Jobs
from nri_scope.tui.keyed import Keyed
from nri_scope.tui.looking import Looker, RecorderNews
from nri_scope.tui.main_screen import MainScreen
from nri_scope.tui.marking import GROUP as MARKS_GROUP
from nri_scope.tui.marking import Marker
from nri_scope.tui.model.actions import DEFAULT
from nri_scope.tui.model.context import Context
from nri_scope.tui.model.keys import Keymap, Scope
from nri_scope.tui.model.store import Store
from nri_scope.tui.narrowing import Narrower
from nri_scope.tui.palette import Actions
from nri_scope.tui.replaying import Replayer
from nri_scope.tui.saving import Saver
from nri_scope.tui.states import Work, trouble_words
from nri_scope.tui.telling import Teller
from nri_scope.tui.terminal import EndSignals
from nri_scope.tui.theme import DEFAULT as DEFAULT_THEME
from nri_scope.tui.theme import THEMES
from nri_scope.tui.views import BOARDS, EVENTS
from nri_scope.tui.widgets import messages
from nri_scope.tui.widgets.board import Board
from nri_scope.tui.widgets.detail_pane import DetailPane
from nri_scope.tui.widgets.event_header import EventHeader
from nri_scope.tui.widgets.event_list import EventList
from nri_scope.tui.widgets.filter_bar import FilterBar, Purpose
from nri_scope.tui.widgets.status_line import KeyLine, StatusLine
from nri_scope.tui.widgets.view_tabs import ViewTabs
from nri_scope.tui.workers import begin

DETAIL_FROM = (200, 30)
"""Columns or lines of the screen from which on there is room for details from the beginning."""


class ScopeApp(Keyed, inherit_bindings=False):
    """One recording, looked at. ``run`` returns when the user leaves.

    What keeps the recording from being shown at all is in ``failure`` then.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.APP)
    COMMANDS: ClassVar = {Actions}
    CSS = (
        main_screen.CSS
        + """
    #body { height: 1fr; }
    #views { width: 1fr; height: 1fr; }
    #events { height: 1fr; }
    #nothing { display: none; height: 1fr; content-align: center middle; text-align: center; }
    EventList.-nothing { height: 0; }
    #nothing.-shown { display: block; }
    """
    )

    def __init__(
        self,
        path: Path,
        *,
        live: bool = False,
        where: Filter | None = None,
        keymap: Keymap = DEFAULT,
        theme: str = "",
        recorder: RecorderNews | None = None,
        badge: str = "",
        store: Store | None = None,
        warning: str = "",
    ) -> None:
        """``live``: this program records the file, and ``recorder`` tells of it.

        ``badge``: a word for the title. ``store``: the recording, where it is open already; it is
        closed in the end all the same. ``warning``: told in the beginning.
        """
        super().__init__()
        self._without_color = NoColor()
        for each in THEMES:
            self.register_theme(each)
        self.theme = theme or DEFAULT_THEME
        self.keymap = keymap
        self.set_keymap(as_keymap(keymap))
        self.path = path
        self.context = Context(where)
        self.failure: NriScopeError | None = None
        self.work = Work()
        self._live = live
        self._store = store
        self._warning = warning
        self.teller = Teller(self, badge)
        self.looker = Looker(self, recorder)
        self.finder = Finder(self)
        self.marker = Marker(self)
        self.context.also = self.marker.where
        self.narrower = Narrower(self)
        self.copier = Copier(self)
        self.jobs = Jobs(self)
        self.saver = Saver(self)
        self.replayer = Replayer(self)
        self.made: list[Path] = []
        """Files that were made meanwhile, for those who leave."""
        self.typed_in_detail = False
        self._boards: dict[str, Board] = {}
        self.detail = None

    @property
    def store(self) -> Store:
        """The open recording."""
        assert self._store is not None
        return self._store

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's; but where no colour is wanted it would turn them into shades of grey, which
        are colours to a terminal.
        """
        filters = super().get_line_filters()
        if not self.no_color:
            return filters
        kept = [each for each in filters if not isinstance(each, Monochrome | NoColor)]
        return [*kept, self._without_color]

    # -- what is on the screen ----------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """The one screen."""
        return MainScreen()

    def compose(self) -> ComposeResult:
        """The frame; what needs the recording comes once it is open."""
        self.bar = FilterBar(self.keymap, self._typed, self._bar_closed)
        yield self.teller.title_bar
        yield self.teller.tabs
        yield Box(id="body")
        yield self.bar
        yield self.status
        yield KeyLine(self.keymap)

    async def on_mount(self) -> None:
        """Open the recording and look at it for as long as the screen is there."""
        self._signals = EndSignals(self.exit)
        try:
            if self._store is None:
                self._store = await Store.open(self.path, live=self._live)
        except NriScopeError as error:
            self.failure = error
            self.exit(return_code=2)
            return
        header = EventHeader()
        self.events = EventList(
            self.store,
            follows=self.follows,
            header=header,
            is_marked=self.marker.is_marked,
            grows=lambda: self.follows,
        )
        self._boards = {
            kind.name: kind.make(self.store, self.context, self.keymap) for kind in BOARDS
        }
        for name, board in self._boards.items():
            board.id = name
            board.is_marked = self.marker.is_event_marked
        self._views = ContentSwitcher(
            Vertical(header, self.events, self.teller.nothing, id=EVENTS),
            *self._boards.values(),
            initial=EVENTS,
            id="views",
        )
        columns, lines = DETAIL_FROM
        hidden = self.size.width < columns and self.size.height < lines
        self.detail = DetailPane(self.store, hidden=hidden, keymap=self.keymap)
        await self.query_one("#body").mount(self._views, self.detail)
        self.give_focus(self.events)
        self.teller.show_facts()
        if self.context.where() is not None:
            self.bar.remember(self.context.where_text)
            self.narrower.show()
        self.looker.begin()
        begin(self, self.marker.load, MARKS_GROUP)
        if self._warning:
            self.say(self._warning, problem=True)

    @property
    def follows(self) -> bool:
        """Whether what is shown still grows."""
        return (self._live or self.store.facts.growing) and not self.work.recorder_ended

    async def on_unmount(self) -> None:
        """End what is at work, keep the last marks, and close the recording."""
        await self.jobs.close()
        await self.marker.close()
        if self._store is not None:
            await self._store.close()
        await self.marker.release()
        self._signals.restore()

    @on(EventList.Moved)
    def _list_moved(self, event: EventList.Moved) -> None:
        # What was said about a key must not go by with the next event that comes.
        self.status.hush(unless_fresh=True)
        self.teller.show_status()

    async def update_board(self) -> None:
        """Have another view than the list of events show what there is now."""
        board = self._boards.get(self.mode)
        if board is not None:
            await board.update()

    # -- which view -------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """The name of the view that is shown."""
        return self._views.current or EVENTS

    @property
    def current(self) -> EventList | Board:
        """The view that is shown."""
        return self._boards.get(self.mode, self.events)

    @property
    def in_detail(self) -> bool:
        """Whether the details have the focus."""
        return self.detail is not None and self.detail.body.has_focus

    def show_mode(self, name: str) -> None:
        """Show another view, and give it the focus."""
        if name != self.mode:
            self._views.current = name
            self.looker.hurry()
            self.teller.tabs.show(name, self.context.words())
        if self.detail is not None and self.detail.is_alone:
            self.detail.action_maximise_detail()
        self.give_focus(self.current)

    @on(ViewTabs.Chosen)
    def _view_chosen(self, event: ViewTabs.Chosen) -> None:
        self.show_mode(event.name)

    # -- details --------------------------------------------------------------------------------

    @on(messages.RowChosen)
    def _row_chosen(self, event: messages.RowChosen) -> None:
        if self.detail is not None:
            self.detail.show(event.row, self.marker.comment_of(event.row))

    @on(messages.RowOpened)
    def _row_opened(self, event: messages.RowOpened) -> None:
        if self.detail is None:
            return
        self.detail.show(event.row, self.marker.comment_of(event.row))
        if self.detail.is_hidden:
            self.detail.action_toggle_detail()
        self.give_focus(self.detail.body)

    @on(DetailPane.Left)
    def _detail_left(self) -> None:
        self.give_focus(self.current)

    # -- what the views ask for ---------------------------------------------------------------

    @on(messages.Said)
    def _said(self, event: messages.Said) -> None:
        self.say(event.text, problem=event.problem)

    @on(messages.Failed)
    def _failed(self, event: messages.Failed) -> None:
        self.show_trouble(event.error)

    @on(messages.Narrow)
    def _narrow(self, event: messages.Narrow) -> None:
        self.narrower.narrow(event.what)

    @on(messages.Back)
    def _back(self, event: messages.Back) -> None:
        self.narrower.back()

    @on(messages.SetFilter)
    def _set_filter(self, event: messages.SetFilter) -> None:
        self.narrower.filter_by(event.text)

    @on(messages.Narrowed)
    def _narrowed_by(self, event: messages.Narrowed) -> None:
        self.narrower.add(event.term, out=event.out)

    @on(EventList.SameContainer)
    def _same_container(self, event: EventList.SameContainer) -> None:
        self.narrower.go_to_same(forwards=event.forwards)

    @on(messages.OpenEvent)
    def _open_event(self, event: messages.OpenEvent) -> None:
        if self.events.go_to_event(event.event_id):
            self.show_mode(EVENTS)
        else:
            self.say("the filter hides this event", problem=True)

    def _typed(self, purpose: Purpose, text: str) -> None:
        match purpose:
            case Purpose.FILTER:
                self.narrower.filter_by(text)
            case Purpose.SEARCH:
                self.finder.begin(text, in_detail=self.typed_in_detail)
            case Purpose.COMMENT:
                self.marker.comment(text)
            case Purpose.PLUGIN:
                self.replayer.replay(text)

    def _bar_closed(self) -> None:
        if self.typed_in_detail and self.detail is not None:
            self.give_focus(self.detail.body)
        else:
            self.give_focus(self.current)

    # -- what others tell --------------------------------------------------------------------------

    @property
    def status(self) -> StatusLine:
        """The line below the views."""
        return self.teller.status

    def say(self, text: str, *, problem: bool = False) -> None:
        """Tell the user one line."""
        self.status.say(text, problem=problem)

    def show_trouble(self, error: Exception) -> None:
        """Tell what keeps the recording from being read, for as long as it does."""
        self.teller.trouble = trouble_words(error)
        self.teller.show_status()

    def work_on(
        self,
        *,
        part: float | str | None = "",
        searching: str | None = None,
        searched: float = 0.0,
        busy: str | None = None,
    ) -> None:
        """Say what goes on: a filter (how far it is; None: none is), a search ("": none is) and
        how far that is, or something else ("": nothing is).
        """
        if not isinstance(part, str):
            self.work = replace(self.work, part=part)
        if searching is not None:
            self.work = replace(self.work, searching=searching, searched=searched)
        if busy is not None:
            self.work = replace(self.work, busy=busy)
        self.teller.show_status()

    # -- actions by their names -------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        """Where the keys of the view that is shown count."""
        return next((kind.scope for kind in BOARDS if kind.name == self.mode), Scope.EVENTS)

    def available(self) -> frozenset[str]:
        """The names of all actions that something here can do."""
        parts: tuple[Widget | App[None], ...] = (self, *self.screen_stack[0].query(Widget))
        return frozenset(
            action.name
            for action in self.keymap
            if any(hasattr(part, f"action_{action.name}") for part in parts)
        )

    # -- marks --------------------------------------------------------------------------------

    def marks_changed(self) -> None:
        """Draw what shows marks anew."""
        self.events.remark()
        for board in self._boards.values():
            board.body.changed()
        row = self.events.selected_row
        if self.detail is not None and row is not None and self.mode == EVENTS:
            self.detail.show(row, self.marker.comment_of(row))
        self.teller.show_status()
        if self.marker.only:
            self.narrower.show()
