# SPDX-License-Identifier: Apache-2.0
"""The terminal user interface: views of one recording, and what keeps them in step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar, Protocol

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Container as Box
from textual.containers import Vertical
from textual.filter import Monochrome, NoColor
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from nri_scope.errors import FilterError, NriScopeError
from nri_scope.recorder.escape import safe
from nri_scope.recorder.filter import Filter
from nri_scope.tui import taking
from nri_scope.tui.bindings import as_keymap, bindings
from nri_scope.tui.help import HelpScreen, help_lines
from nri_scope.tui.model.actions import DEFAULT
from nri_scope.tui.model.context import Context
from nri_scope.tui.model.filtering import VIEWS, known_values, narrowed
from nri_scope.tui.model.keys import Action, Keymap, Scope
from nri_scope.tui.model.rows import Row
from nri_scope.tui.model.store import Store
from nri_scope.tui.model.view import View
from nri_scope.tui.palette import Actions
from nri_scope.tui.states import Work, in_place_of_rows, status_words
from nri_scope.tui.theme import DEFAULT as DEFAULT_THEME
from nri_scope.tui.theme import THEMES, next_theme
from nri_scope.tui.title import TitleBar
from nri_scope.tui.widgets import messages
from nri_scope.tui.widgets.event_list import EventHeader, EventList
from nri_scope.tui.widgets.filter_bar import FilterBar, Purpose
from nri_scope.tui.widgets.status_line import KeyLine, StatusLine

POLL_SECONDS = 0.1
"""Between two looks at the recording, which cost little where nothing came."""


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
    #events.-nothing EventList { display: none; }
    #events.-nothing #nothing { display: block; }
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
        store: Store | None = None,
    ) -> None:
        """``live``: this program records the file, and ``recorder`` tells of it.

        ``store``: the recording, where it is open already; it is closed in the end all the same.
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
        self._store = store
        self._trouble = ""

    @property
    def store(self) -> Store:
        """The open recording."""
        assert self._store is not None
        return self._store

    # -- what is on the screen ----------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """The one screen."""
        return Main(id="main")

    def compose(self) -> ComposeResult:
        """The frame; what needs the recording comes once it is open."""
        yield TitleBar()
        yield Box(id="body")
        yield FilterBar(self.keymap)
        yield StatusLine()
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
        events = EventList(self.store, follows=self._follows(), header=header)
        await self.query_one("#body").mount(
            ContentSwitcher(
                Vertical(header, events, Static(id="nothing", markup=False), id="events"),
                initial="events",
                id="views",
            )
        )
        events.focus()
        self._show_facts()
        if self.context.where() is not None:
            self._show_context()
        self.run_worker(self._look_again(), group="looking", exit_on_error=True)
        self.run_worker(self._learn_values(), group="values", exclusive=True)

    def _follows(self) -> bool:
        return self._live or self.store.facts.growing

    async def on_unmount(self) -> None:
        """Close the recording."""
        if self._store is not None:
            await self._store.close()

    @property
    def events(self) -> EventList:
        """The list of events."""
        return self.query_one(EventList)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Show what came meanwhile."""
        self._hear_recorder()
        try:
            growth = await self.store.refresh()
        except NriScopeError as error:
            self._show_trouble(error)
            return
        self._trouble = ""
        if growth:
            self.events.grow(between=growth.between)
        self._show_facts()

    async def _learn_values(self) -> None:
        try:
            self.query_one(FilterBar).values = await self.store.run(known_values)
        except NriScopeError as error:
            self._show_trouble(error)

    def _hear_recorder(self) -> None:
        if self._recorder is not None:
            self._recorder.hear()
            self.work = Work(
                self.work.part,
                self.work.searching,
                self._recorder.latest,
                self._recorder.ended,
            )

    def _show_facts(self) -> None:
        self.query_one(TitleBar).show(self.store.facts)
        self._show_status()

    def _show_status(self) -> None:
        events = self.events
        lines = in_place_of_rows(
            self.store.facts, events.view, self._narrowed(), self.work, self.keymap
        )
        nothing = self.query_one("#nothing", Static)
        if lines:
            nothing.update("\n\n".join(safe(each) for each in lines if each))
        self.query_one("#events").set_class(bool(lines), "-nothing")
        status = self.query_one(StatusLine)
        status.words = status_words(
            events.view,
            events.listing.cursor,
            events.listing.words if self._follows() else "",
            self._narrowed(),
            self.work,
        )
        if self._trouble:
            status.say(self._trouble, problem=True)

    def _show_trouble(self, error: Exception) -> None:
        self._trouble = str(error)
        self._show_status()

    def _narrowed(self) -> str:
        """What is shown alone, in words."""
        parts = [self.context.words(), safe(self.context.where_text, 60)]
        return " · ".join(part for part in parts if part)

    @on(EventList.Moved)
    def _list_moved(self, event: EventList.Moved) -> None:
        self.query_one(StatusLine).hush()
        self._show_status()

    # -- what the views ask for ---------------------------------------------------------------

    @on(messages.Said)
    def _said(self, event: messages.Said) -> None:
        self.say(event.text, problem=event.problem)

    @on(messages.Failed)
    def _failed(self, event: messages.Failed) -> None:
        self._show_trouble(event.error)

    @on(messages.Narrow)
    def _narrow(self, event: messages.Narrow) -> None:
        self.context.narrow(event.what)
        self._show_context()

    @on(messages.Back)
    def _back(self, event: messages.Back) -> None:
        self._go_back()

    @on(messages.SetFilter)
    def _set_filter(self, event: messages.SetFilter) -> None:
        self.set_filter(event.text)

    @on(messages.Narrowed)
    def _narrowed_by(self, event: messages.Narrowed) -> None:
        self.set_filter(narrowed(self.context.where_text, event.term, out=event.out))

    @on(messages.OpenEvent)
    def _open_event(self, event: messages.OpenEvent) -> None:
        if not self.events.go_to_event(event.event_id):
            self.say("the filter hides this event", problem=True)

    @on(FilterBar.Accepted)
    def _typed(self, event: FilterBar.Accepted) -> None:
        match event.purpose:
            case Purpose.FILTER:
                self.set_filter(event.text)
            case Purpose.SEARCH:
                self.search(event.text)
            case Purpose.COMMENT:
                pass

    @on(FilterBar.Closed)
    def _bar_closed(self) -> None:
        self.events.focus()

    def say(self, text: str, *, problem: bool = False) -> None:
        """Tell the user one line."""
        self.query_one(StatusLine).say(text, problem=problem)

    # -- filters ------------------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Show what passes this filter."""
        try:
            self.context.filter_by(text)
        except FilterError as error:
            self.say(str(error), problem=True)
            return
        self.query_one(FilterBar).remember(text)
        self._show_context()

    def _show_context(self) -> None:
        self.run_worker(self._look_through(), group="filter", exclusive=True)

    async def _look_through(self) -> None:
        shown: View | None = None

        def progress(view: View, part: float) -> None:
            nonlocal shown
            self._at_work(part)
            if view is shown:
                self.events.grow()
            else:
                shown = view
                self.events.show(view)

        self.query_one(StatusLine).hush()
        try:
            if self.context.where() is not None or self.context.about is not None:
                self._at_work(0.0)
            view = await self.store.view(self.context.where(), progress, about=self.context.about)
            self._at_work(None)
            self.events.show(view)
        except NriScopeError as error:
            self._show_trouble(error)
        finally:
            self._at_work(None)

    def _at_work(self, part: float | None) -> None:
        self.work = Work(part, self.work.searching, self.work.recorder, self.work.recorder_ended)

    def _toggle_view(self, name: str) -> None:
        text = VIEWS[name]
        if self.context.where_text == text:
            self._go_back()
        else:
            self.set_filter(text)

    # -- search -------------------------------------------------------------------------------

    def search(self, text: str) -> None:
        """Go to the next row that has ``text``, and highlight it wherever it is."""
        self.events.search_text = text
        self.events.restyle()
        if text:
            self._find(forwards=True, here=True)

    def _find(self, *, forwards: bool, here: bool = False) -> None:
        if not self.events.search_text:
            self.say(f"nothing to search for yet: {self.keymap.first('search')}", problem=True)
            return
        self.run_worker(self._find_next(forwards, here), group="search", exclusive=True)

    async def _find_next(self, forwards: bool, here: bool) -> None:
        events = self.events
        text, view, cursor = events.search_text, events.view, events.listing.cursor
        step = 0 if here else 1 if forwards else -1
        self._searching(text)
        try:
            found = await self.store.find(view, text, cursor + step, forwards)
            again = found is None and view.length > 0
            if again:
                found = await self.store.find(
                    view, text, 0 if forwards else view.length - 1, forwards
                )
        except NriScopeError as error:
            self._show_trouble(error)
            return
        finally:
            self._searching("")
        if view is not events.view:
            return
        if found is None:
            self.say(f"not found: {safe(text, 40)}", problem=True)
            return
        events.go_to(found)
        if again:
            self.call_after_refresh(
                self.say,
                "searched on from the beginning" if forwards else "searched on from the end",
            )

    def _searching(self, text: str) -> None:
        self.work = Work(self.work.part, text, self.work.recorder, self.work.recorder_ended)
        self._show_status()

    # -- actions ------------------------------------------------------------------------------

    def offered(self) -> list[Action]:
        """The actions that the palette offers now."""
        return [
            action
            for action in self.keymap.of(Scope.APP, Scope.EVENTS)
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
        target = self if hasattr(self, f"action_{action.name}") else self.events
        await self.run_action(action.name, target)

    async def action_quit(self) -> None:
        """Leave."""
        self.exit()

    def action_help(self) -> None:
        """Show the keys."""
        scopes = (Scope.EVENTS, Scope.APP, Scope.FILTER)
        self.push_screen(HelpScreen(help_lines(self.keymap, scopes, self.available())))

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(FilterBar).open(Purpose.FILTER, self.context.where_text)

    def action_search(self) -> None:
        """Type what to search for."""
        self.query_one(FilterBar).open(Purpose.SEARCH)

    def action_search_next(self) -> None:
        """Next match."""
        self._find(forwards=True)

    def action_search_previous(self) -> None:
        """Previous match."""
        self._find(forwards=False)

    def action_clear_filter(self) -> None:
        """Show everything."""
        self.events.search_text = ""
        self.context.everything()
        self._show_context()

    def action_view_errors(self) -> None:
        """Only errors, and back."""
        self._toggle_view("errors")

    def action_view_changed(self) -> None:
        """Only changes, and back."""
        self._toggle_view("changed")

    def action_view_slow(self) -> None:
        """Only slow answers, and back."""
        self._toggle_view("slow")

    async def action_back(self) -> None:
        """What was shown before."""
        self._go_back()

    def _go_back(self) -> None:
        if self.context.back():
            self._show_context()
        else:
            self.say("there is nothing to go back to")

    def action_stop(self) -> None:
        """Stop a filter or a search that is at work."""
        if self.work.searching:
            self.workers.cancel_group(self, "search")
            self.say("search stopped")
        elif self.work.part is not None:
            self.workers.cancel_group(self, "filter")
            self._go_back()
        else:
            self.events.search_text = ""
            self.events.restyle()
            self.query_one(StatusLine).hush()

    def action_narrow_container(self) -> None:
        """Only the container of the selected event."""
        self._narrow_to(taking.container_of, "container")

    def action_narrow_pod(self) -> None:
        """Only the pod of the selected event."""
        self._narrow_to(taking.pod_of, "pod")

    def _narrow_to(self, find: taking.Find, what: str) -> None:
        row = self.events.selected_row
        if row is None or row.event is None:
            self.say("no event is selected", problem=True)
            return
        self.run_worker(self._narrow_now(row, find, what), group="narrow", exclusive=True)

    async def _narrow_now(self, row: Row, find: taking.Find, what: str) -> None:
        event = row.event
        assert event is not None
        try:
            found = await self.store.run(lambda recording: find(recording, event))
        except NriScopeError as error:
            self._show_trouble(error)
            return
        if found is None:
            self.say(f"this event is about no {what}", problem=True)
            return
        self.context.narrow(found)
        self._show_context()

    @on(EventList.SameContainer)
    def _same_container(self, event: EventList.SameContainer) -> None:
        row = self.events.selected_row
        if row is None or row.event is None or not row.event.container_id:
            self.say("this event is about no container", problem=True)
            return
        self.run_worker(self._go_to_same(row, event.forwards), group="narrow", exclusive=True)

    async def _go_to_same(self, row: Row, forwards: bool) -> None:
        event = row.event
        assert event is not None
        try:
            numbers = await self.store.run(
                lambda recording: taking.others_of_container(recording, event, forwards=forwards)
            )
        except NriScopeError as error:
            self._show_trouble(error)
            return
        for number in numbers:
            if self.events.go_to_event(number):
                return
        where = "later" if forwards else "earlier"
        self.say(f"no {where} event of this container is shown here")

    def action_copy(self) -> None:
        """Copy the selected event as YAML."""
        self._take(save=False)

    def action_save_text(self) -> None:
        """Save the selected event as YAML."""
        self._take(save=True)

    def _take(self, *, save: bool) -> None:
        number = self.events.selected_event_id
        if number is None:
            self.say("no event is selected", problem=True)
            return
        self.run_worker(self._take_now([number], save=save), group="taking", exclusive=True)

    async def _take_now(self, numbers: list[int], *, save: bool) -> None:
        try:
            text = await self.store.run(lambda recording: taking.as_yaml(recording, numbers))
            if save:
                path = await asyncio.to_thread(taking.save, text, numbers)
                self.say(f"saved to {path} (only you can read it)")
                return
        except NriScopeError as error:
            self.say(str(error), problem=True)
            return
        self._copy(text, "event " + ", ".join(map(str, numbers)))

    def action_copy_command(self) -> None:
        """Copy the command line that shows the same."""
        self._copy(taking.command_line(self.path, self.context.filter()), "the command line")

    def _copy(self, text: str, what: str) -> None:
        if len(text.encode()) > taking.CLIPBOARD_MAX:
            key = self.keymap.first("save_text")
            self.say(
                f"too long for the terminal's clipboard; {key} saves it to a file", problem=True
            )
            return
        self.copy_to_clipboard(text)
        self.say(f"copied {what}, if your terminal allows it (OSC 52)")

    def action_theme(self) -> None:
        """Next theme."""
        self.theme = next_theme(self.theme)
        self.events.restyle()
        self.say(f"theme: {self.theme}")
