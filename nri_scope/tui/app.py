# SPDX-License-Identifier: Apache-2.0
"""The terminal user interface: views of one recording, and what keeps them in step."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import ClassVar, Protocol

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Container as Box
from textual.containers import Vertical
from textual.filter import Monochrome, NoColor
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Input, Static

from nri_scope.errors import NriScopeError
from nri_scope.recorder.escape import safe
from nri_scope.recorder.filter import Filter
from nri_scope.tui.bindings import as_keymap, bindings
from nri_scope.tui.copying import Copier
from nri_scope.tui.finding import Finder
from nri_scope.tui.help import HelpScreen, help_lines
from nri_scope.tui.marking import GROUP as MARKS_GROUP
from nri_scope.tui.marking import Marker
from nri_scope.tui.model.actions import DEFAULT
from nri_scope.tui.model.context import Context
from nri_scope.tui.model.filtering import known_values
from nri_scope.tui.model.keys import Action, Keymap, Scope
from nri_scope.tui.model.store import Store
from nri_scope.tui.model.whom import container_of_event, pod_of_event
from nri_scope.tui.narrowing import FILTER_GROUP, Narrower
from nri_scope.tui.palette import Actions
from nri_scope.tui.states import Work, in_place_of_rows, status_words
from nri_scope.tui.theme import DEFAULT as DEFAULT_THEME
from nri_scope.tui.theme import THEMES, next_theme
from nri_scope.tui.title import TitleBar
from nri_scope.tui.views import BOARDS, EVENTS
from nri_scope.tui.widgets import messages
from nri_scope.tui.widgets.board import Board
from nri_scope.tui.widgets.detail_pane import DetailPane
from nri_scope.tui.widgets.event_header import EventHeader
from nri_scope.tui.widgets.event_list import EventList
from nri_scope.tui.widgets.filter_bar import FilterBar, Purpose
from nri_scope.tui.widgets.status_line import KeyLine, StatusLine
from nri_scope.tui.widgets.view_tabs import ViewTabs

POLL_SECONDS = 0.1
"""Between two looks at the recording, which cost little where nothing came."""
BOARD_SECONDS = 0.5
"""Between two updates of another view than the list of events."""
DETAIL_FROM = (140, 30)
"""Columns or lines of the screen from which on there is room for details from the beginning."""


_END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""What ends it as a key would: the terminal is left as it was, and a recording in good order."""


class RecorderNews(Protocol):
    """The recorder of this program, as far as the screen tells of it."""

    @property
    def latest(self) -> str:
        """What it told last."""
        ...

    def hear(self) -> None:
        """Take what it told meanwhile."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it records no more."""
        ...


class Main(Screen[None], inherit_bindings=False):
    """The one screen. Textual's own keys for screens are not ours."""


class ScopeApp(App[None], inherit_bindings=False):
    """One recording, looked at. ``run`` returns when the user leaves.

    What keeps the recording from being shown at all is in ``failure`` then.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.APP)
    COMMANDS: ClassVar = {Actions}
    CSS = """
    #body { height: 1fr; }
    #views { width: 1fr; height: 1fr; }
    #events { height: 1fr; }
    #nothing { display: none; height: 1fr; content-align: center middle; text-align: center; }
    EventList.-nothing { display: none; }
    #nothing.-shown { display: block; }
    """

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
    ) -> None:
        """``live``: this program records the file, and ``recorder`` tells of it.

        ``badge``: a word for the title. ``store``: the recording, where it is open already; it is
        closed in the end all the same.
        """
        super().__init__()
        if self.no_color:
            # Textual would turn colours into shades of grey, which are colours to a terminal.
            kept = [each for each in self._filters if not isinstance(each, Monochrome)]
            self._filters = [*kept, NoColor()]
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
        self._recorder = recorder
        self._badge = badge
        self._store = store
        self._trouble = ""
        self._finder = Finder(self)
        self.marker = Marker(self)
        self._narrower = Narrower(self)
        self._copier = Copier(self)
        self._searched_in_detail = False
        self._boards: dict[str, Board] = {}
        self._updated = 0.0
        self.detail: DetailPane | None = None
        """The details; None until the recording is open."""

    @property
    def store(self) -> Store:
        """The open recording."""
        assert self._store is not None
        return self._store

    async def on_event(self, event: events.Event) -> None:
        """Keys do what they do before the next one is looked at.

        Textual sends a key to the widget with the focus first, and by the time that it comes back
        the next ones are under way: what somebody types fast after the key that opens a line would
        not go into that line.
        """
        is_key = isinstance(event, events.Key) and not event.is_forwarded
        if is_key and not isinstance(self.focused, Input):
            assert isinstance(event, events.Key)
            if await self._check_bindings(event.key):
                return
        await super().on_event(event)

    # -- what is on the screen ----------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """The one screen."""
        return Main(id="main")

    def compose(self) -> ComposeResult:
        """The frame; what needs the recording comes once it is open."""
        self._title_bar = TitleBar(self._badge)
        self.bar = FilterBar(self.keymap)
        self.status = StatusLine()
        self._nothing = Static(id="nothing", markup=False)
        self._tabs = ViewTabs(
            [
                (name, name.capitalize(), self.keymap.first(f"mode_{name}"))
                for name in (EVENTS, *(kind.name for kind in BOARDS))
            ]
        )
        yield self._title_bar
        yield self._tabs
        yield Box(id="body")
        yield self.bar
        yield self.status
        yield KeyLine(self.keymap)

    async def on_mount(self) -> None:
        """Open the recording and look at it for as long as the screen is there."""
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
            follows=self._follows(),
            header=header,
            is_marked=self.marker.is_marked,
        )
        self._boards = {
            kind.name: kind.make(self.store, self.context, self.keymap) for kind in BOARDS
        }
        for name, board in self._boards.items():
            board.id = name
        self._views = ContentSwitcher(
            Vertical(header, self.events, self._nothing, id=EVENTS),
            *self._boards.values(),
            initial=EVENTS,
            id="views",
        )
        columns, lines = DETAIL_FROM
        hidden = self.size.width < columns and self.size.height < lines
        self.detail = DetailPane(self.store, hidden=hidden, keymap=self.keymap)
        await self.query_one("#body").mount(self._views, self.detail)
        self.events.focus()
        self._show_facts()
        if self.context.where() is not None:
            self._narrower.show()
        for number in _END_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self.exit)
        self.run_worker(self._look_again(), group="looking", exit_on_error=True)
        self.run_worker(self._learn_values(), group="values", exclusive=True)
        self.run_worker(self.marker.load(), group=MARKS_GROUP)

    def _follows(self) -> bool:
        return (self._live or self.store.facts.growing) and not self.work.recorder_ended

    async def on_unmount(self) -> None:
        """Close the recording."""
        for number in _END_SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
        if self._store is not None:
            await self._store.close()

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Show what came meanwhile."""
        self._hear_recorder()
        try:
            growth = await self.store.refresh()
            if growth:
                await self.events.read_ahead()
        except NriScopeError as error:
            self.show_trouble(error)
            return
        self._trouble = ""
        if growth:
            self.events.grow(between=growth.between)
            if self.detail is not None:
                self.detail.grown()
        now = monotonic()
        if now - self._updated > BOARD_SECONDS:
            self._updated = now
            await self.update_board()
        self._show_facts()

    async def update_board(self) -> None:
        """Have another view than the list of events show what there is now."""
        board = self._boards.get(self.mode)
        if board is not None:
            await board.update()

    async def _learn_values(self) -> None:
        try:
            self.bar.values = await self.store.run(known_values)
        except NriScopeError as error:
            self.show_trouble(error)

    def _hear_recorder(self) -> None:
        if self._recorder is not None:
            self._recorder.hear()
            self.work = replace(
                self.work, recorder=self._recorder.latest, recorder_ended=self._recorder.ended
            )

    def _show_facts(self) -> None:
        self._title_bar.show(self.store.facts)
        self._tabs.show(self.mode, self.context.words())
        self._show_status()

    def _show_status(self) -> None:
        if not self.status.is_attached:
            # It is being left.
            return
        events = self.events
        lines = in_place_of_rows(
            self.store.facts, events.view, self._narrowed(), self.work, self.keymap
        )
        if lines:
            self._nothing.update("\n\n".join(safe(each) for each in lines if each))
        self.events.set_class(bool(lines), "-nothing")
        self._nothing.set_class(bool(lines), "-shown")
        self.status.words = status_words(
            events.view,
            events.listing.cursor if self.mode == EVENTS else None,
            events.listing.words if self._follows() and self.mode == EVENTS else "",
            self._narrowed(),
            self.work,
        )
        if self._trouble:
            self.status.say(self._trouble, problem=True)

    def show_trouble(self, error: Exception) -> None:
        """Tell what keeps the recording from being read, for as long as it does."""
        self._trouble = str(error)
        self._show_status()

    def _narrowed(self) -> str:
        """What is shown alone, in words."""
        marked = "marked" if self.marker.only else ""
        parts = [self.context.words(), marked, safe(self.context.where_text, 60)]
        return " · ".join(part for part in parts if part)

    @on(EventList.Moved)
    def _list_moved(self, event: EventList.Moved) -> None:
        self.status.hush()
        self._show_status()

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
            self._updated = 0.0
            self._tabs.show(name, self.context.words())
        if self.detail is not None and self.detail.is_alone:
            self.detail.action_maximise_detail()
        self.current.focus()

    @on(ViewTabs.Chosen)
    def _view_chosen(self, event: ViewTabs.Chosen) -> None:
        self.show_mode(event.name)

    def action_mode_events(self) -> None:
        """Show the events."""
        self.show_mode(EVENTS)

    def action_mode_containers(self) -> None:
        """Show pods and containers."""
        self.show_mode("containers")

    def action_mode_timeline(self) -> None:
        """Show the timeline."""
        self.show_mode("timeline")

    def action_mode_plugins(self) -> None:
        """Show the chain of plugins."""
        self.show_mode("plugins")

    def action_mode_sessions(self) -> None:
        """Show the sessions."""
        self.show_mode("sessions")

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
        self.detail.body.focus()

    @on(DetailPane.Left)
    def _detail_left(self) -> None:
        self.current.focus()

    def action_focus_other(self) -> None:
        """To the details, and back."""
        if self.detail is None or self.in_detail:
            self.current.focus()
        elif self.detail.is_hidden:
            self.detail.action_toggle_detail()
            self.detail.body.focus()
        else:
            self.detail.body.focus()

    def action_toggle_detail(self) -> None:
        """Show or hide the details."""
        if self.detail is not None:
            self.detail.action_toggle_detail()

    def action_maximise_detail(self) -> None:
        """The details alone, and back."""
        if self.detail is not None:
            self.detail.action_maximise_detail()

    def action_move_detail(self) -> None:
        """The details below or beside."""
        if self.detail is not None:
            self.detail.action_move_detail()

    def action_next_tab(self) -> None:
        """Next tab of the details."""
        if self.detail is not None:
            self.detail.action_next_tab()

    def action_previous_tab(self) -> None:
        """Previous tab of the details."""
        if self.detail is not None:
            self.detail.action_previous_tab()

    # -- what the views ask for ---------------------------------------------------------------

    @on(messages.Said)
    def _said(self, event: messages.Said) -> None:
        self.say(event.text, problem=event.problem)

    @on(messages.Failed)
    def _failed(self, event: messages.Failed) -> None:
        self.show_trouble(event.error)

    @on(messages.Narrow)
    def _narrow(self, event: messages.Narrow) -> None:
        self._narrower.narrow(event.what)

    @on(messages.Back)
    def _back(self, event: messages.Back) -> None:
        self._narrower.back()

    @on(messages.SetFilter)
    def _set_filter(self, event: messages.SetFilter) -> None:
        self._narrower.filter_by(event.text)

    @on(messages.Narrowed)
    def _narrowed_by(self, event: messages.Narrowed) -> None:
        self._narrower.add(event.term, out=event.out)

    @on(EventList.SameContainer)
    def _same_container(self, event: EventList.SameContainer) -> None:
        self._narrower.go_to_same(forwards=event.forwards)

    @on(messages.OpenEvent)
    def _open_event(self, event: messages.OpenEvent) -> None:
        if self.events.go_to_event(event.event_id):
            self.show_mode(EVENTS)
        else:
            self.say("the filter hides this event", problem=True)

    @on(FilterBar.Accepted)
    def _typed(self, event: FilterBar.Accepted) -> None:
        match event.purpose:
            case Purpose.FILTER:
                self._narrower.filter_by(event.text)
            case Purpose.SEARCH:
                self._finder.begin(event.text, in_detail=self._searched_in_detail)
            case Purpose.COMMENT:
                self.marker.comment(event.text)

    @on(FilterBar.Closed)
    def _bar_closed(self) -> None:
        if self._searched_in_detail and self.detail is not None:
            self.detail.body.focus()
        else:
            self.current.focus()

    def say(self, text: str, *, problem: bool = False) -> None:
        """Tell the user one line."""
        self.status.say(text, problem=problem)

    # -- work that is going on ----------------------------------------------------------------

    def work_on(self, *, part: float | str | None = "", searching: str | None = None) -> None:
        """Say what goes on: a filter (how far it is; None: none is), or a search ("": none is)."""
        if not isinstance(part, str):
            self.work = replace(self.work, part=part)
        if searching is not None:
            self.work = replace(self.work, searching=searching)
        self._show_status()

    # -- actions ------------------------------------------------------------------------------

    @property
    def _scope(self) -> Scope:
        """Where the keys of the view that is shown count."""
        return next((kind.scope for kind in BOARDS if kind.name == self.mode), Scope.EVENTS)

    def offered(self) -> list[Action]:
        """The actions that the palette offers now."""
        return [
            action
            for action in self.keymap.of(Scope.APP, self._scope)
            if action.in_palette and action.name in self.available()
        ]

    def available(self) -> frozenset[str]:
        """The names of all actions that something here can do."""
        parts: tuple[Widget | App[None], ...] = (self, *self.screen_stack[0].query(Widget))
        return frozenset(
            action.name
            for action in self.keymap
            if any(hasattr(part, f"action_{action.name}") for part in parts)
        )

    async def do(self, action: Action) -> None:
        """Do what a key would."""
        current = self.current
        focused = current.body if isinstance(current, Board) else current
        target = self if hasattr(self, f"action_{action.name}") else focused
        await self.run_action(action.name, target)

    async def action_quit(self) -> None:
        """Leave."""
        self.exit()

    def action_help(self) -> None:
        """Show the keys."""
        scopes = (Scope.DETAIL if self.in_detail else self._scope, Scope.APP, Scope.FILTER)
        self.push_screen(HelpScreen(help_lines(self.keymap, scopes, self.available())))

    def action_filter(self) -> None:
        """Type a filter."""
        self._searched_in_detail = False
        # Whatever came since.
        self.run_worker(self._learn_values(), group="values", exclusive=True)
        self.bar.open(Purpose.FILTER, self.context.where_text)

    def action_search(self) -> None:
        """Type what to search for."""
        self._searched_in_detail = self.in_detail
        self.bar.open(Purpose.SEARCH)

    def action_search_next(self) -> None:
        """Next match."""
        self._finder.go_on(forwards=True)

    def action_search_previous(self) -> None:
        """Previous match."""
        self._finder.go_on(forwards=False)

    def action_clear_filter(self) -> None:
        """Show everything."""
        self._finder.forget()
        self._narrower.everything()

    def action_view_errors(self) -> None:
        """Only errors, and back."""
        self._narrower.toggle("errors")

    def action_view_changed(self) -> None:
        """Only changes, and back."""
        self._narrower.toggle("changed")

    def action_view_marked(self) -> None:
        """Only marked events, and back."""
        self._narrower.only_marked()

    def action_view_slow(self) -> None:
        """Only slow answers, and back."""
        self._narrower.toggle("slow")

    async def action_back(self) -> None:
        """What was shown before."""
        self._narrower.back()

    def action_stop(self) -> None:
        """Stop a filter or a search that is at work."""
        if self.work.searching:
            self._finder.stop()
            self.say("search stopped")
        elif self.work.part is not None:
            self.workers.cancel_group(self, FILTER_GROUP)
            self._narrower.back()
        elif self.in_detail:
            self.current.focus()
        else:
            self._finder.forget()
            self.status.hush()

    def action_narrow_container(self) -> None:
        """Only the container of the selected event."""
        self._narrower.narrow_to_selected(container_of_event, "container")

    def action_narrow_pod(self) -> None:
        """Only the pod of the selected event."""
        self._narrower.narrow_to_selected(pod_of_event, "pod")

    # -- marks --------------------------------------------------------------------------------

    def marks_changed(self) -> None:
        """Draw what shows marks anew."""
        self.events.remark()
        row = self.events.selected_row
        if self.detail is not None and row is not None and self.mode == EVENTS:
            self.detail.show(row, self.marker.comment_of(row))
        if self.marker.only:
            self._narrower.show()

    def action_mark(self) -> None:
        """Mark the selected event, or unmark it."""
        self.marker.toggle()

    def action_comment(self) -> None:
        """Write something about the selected event."""
        if self.marker.begin_comment() is not None:
            self._searched_in_detail = self.in_detail
            self.bar.open(Purpose.COMMENT, self.marker.comment_of(self.events.selected_row))

    def action_compare(self) -> None:
        """Compare two marked events."""
        self.marker.compare()

    # -- taking away --------------------------------------------------------------------------

    def action_copy(self) -> None:
        """Copy the selected event as YAML."""
        self._copier.copy()

    def action_save_text(self) -> None:
        """Save the selected event as YAML."""
        self._copier.save()

    def action_copy_command(self) -> None:
        """Copy the command line that shows the same."""
        self._copier.copy_command()

    def action_theme(self) -> None:
        """Next theme."""
        self.theme = next_theme(self.theme)
        self.events.restyle()
        self.say(f"theme: {self.theme}")
