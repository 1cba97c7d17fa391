# SPDX-License-Identifier: Apache-2.0
"""The app: composes the terminal interface, and handles keys and messages from views."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Input

from nri_scope.errors import NriScopeError
from nri_scope.filter import Filter, TimeSpan
from nri_scope.filter.moments import Moment
from nri_scope.recording.marks.user_marks import UserMarks
from nri_scope.recording.query.event_search import first_problem
from nri_scope.recording.query.event_times import sender_facts
from nri_scope.survey.foreground import ATTRIBUTED
from nri_scope.text.escape import safe
from nri_scope.text.quantities import clock

from .actions import Scope, bindings, key_of
from .commands.copy import Copier
from .commands.filter import FILTER_GROUP, Narrower
from .commands.job import Jobs
from .commands.jump import Jumper
from .commands.mark import GROUP as MARKS_GROUP
from .commands.mark import Chooser, Marker
from .commands.save import Saver
from .commands.search import SearchCommands
from .detail.tab_lines import Tab
from .frame import Frame
from .key_order import KeyOrderApp, PaletteActions
from .list.event_list import EventList
from .polling import OwnRecorderStatus, Poller
from .store.context import Context
from .store.rows import ListRow
from .store.store import Store
from .surveyor import Surveyor
from .terminal import EndSignals, TerminalDriver
from .textual_workarounds import begin
from .theme import DEFAULT as DEFAULT_THEME
from .theme import next_theme, themes_of
from .views import DETAIL_FROM, SCOPES, Views
from .widgets import messages, screens
from .widgets.board import Board
from .widgets.filter_bar import AnswerChoice, FilterBar, FormField, Purpose
from .widgets.screens import KeyHelp, MainScreen, help_lines

_FIRST_ROWS_S = 1.0
"""Seconds until the start continues even if no rows could be read."""
_NOTE_MAX = 400
"""Maximum columns of the note of a bundle in the status line."""
_PAUSE_S = 0.05
"""Seconds for the terminal to show the first rows, before the start continues."""


class ScopeApp(KeyOrderApp, inherit_bindings=False):
    """Terminal interface to one recording. ``run`` returns when the user quits.

    If the recording cannot be opened, ``failure`` is the reason.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.APP)
    COMMANDS: ClassVar = {PaletteActions}
    CSS = screens.CSS + "#body { height: 1fr; }"

    def __init__(
        self,
        path: Path,
        *,
        live: bool = False,
        where: Filter | None = None,
        theme: str = "",
        colors: str = "truecolor",
        recorder: OwnRecorderStatus | None = None,
        store: Store | None = None,
        surveyed: bool = True,
        source: str = "",
        other: Path | None = None,
    ) -> None:
        """Create the app. ``live``: this program records the file; ``recorder`` is its recorder.

        ``colors``: the terminal's colours, see `theme.color_system`; with too few for ``theme``,
        ``ansi`` is used. ``store``: the recording if already open; the app closes it in any case.
        ``surveyed``: whether to survey the recording in the background. ``source``: name of what a
        temporary recording was made from, which the title shows; "" if it is not temporary.
        ``other``: a recording whose differences are shown first.
        """
        super().__init__()
        self._themes = themes_of(colors)
        for each in self._themes.values():
            self.register_theme(each)
        self.theme = theme if theme in self._themes else "ansi" if theme else DEFAULT_THEME
        self.path = path
        self.failure: NriScopeError | None = None
        self.made: list[Path] = []
        """Files created by commands, to be listed on exit."""
        self._live = live
        self._surveyed = surveyed
        self._other = other
        self._store = store
        self._recorder = recorder
        self._marks = UserMarks(path, is_temporary=bool(source))
        self.context = Context(where, marked=self._marks.filter)
        self.frame = Frame(self.context, source)
        self._has_commands = False
        """Whether the commands have been created."""
        self._opened_in_detail = False
        """Whether the detail pane had the focus before the input was opened."""
        self._has_rows = asyncio.Event()
        """Set once the first rows have been drawn, or there are none."""
        self._has_started = asyncio.Event()
        """Set at the end of the start, when all views have been created."""
        self.started: Callable[[], object] = lambda: None
        """Callback at the end of the start."""
        self.opens_on_problem = False
        """Whether the cursor begins at the first problem, unless the user moves it before."""
        self._signals: EndSignals | None = None

    @property
    def store(self) -> Store:
        """The open recording."""
        assert self._store is not None
        return self._store

    # -- its parts ----------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """Return the main screen."""
        return MainScreen()

    def compose(self) -> ComposeResult:
        """Compose the frame; the views are mounted once the recording is open."""
        self.bar = FilterBar(self._typed, self._bar_closed)
        yield self.frame.title_bar
        yield self.frame.tabs
        yield Container(id="body")
        yield self.bar
        yield self.frame.status
        yield self.frame.keys

    def on_load(self) -> None:
        """Install the signal handlers, before Textual takes over the terminal."""
        self._signals = EndSignals(self._end)

    def _end(self) -> None:
        self.is_ending = True
        self.exit()

    async def on_mount(self) -> None:
        """Open the recording, mount the views and start polling."""
        if self.is_ending:
            return
        try:
            if self._store is None:
                self._store = await Store.open(self.path, live=self._live)
            self.context.bind(self._span)
            self.bar.span = self._span
        except NriScopeError as error:
            self.failure = error
            self.exit(return_code=2)
            return
        columns, lines = DETAIL_FROM
        self.views = Views(
            self.store,
            self.context,
            follows=self.follows,
            is_marked=self._marks.has,
            hide_detail=self.size.width < columns and self.size.height < lines,
        )
        self.views.events.drawn = self._has_rows.set
        await self.query_one("#body").mount(self.views)
        self._make_commands()
        self.views.switched = self._switched
        self.views.detail.arranged = self._focus_moved
        self.watch(self.screen, "focused", self._focus_moved, init=False)
        self.views.focus_view()
        self.frame.show(self.store, self.views, self._marks)
        if self.context.where() is not None:
            self.bar.remember(self.context.where_text)
            self.narrower.show()
        self.poller.begin()
        if self._surveyed:
            self.surveyor.begin(self._has_started)
        if self._other is not None:
            self._compare()
        begin(self, self._complete_start, "start")

    async def _complete_start(self) -> None:
        """Do what would delay the first rows."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_rows.wait(), _FIRST_ROWS_S)
        await asyncio.sleep(_PAUSE_S)
        await self.views.complete()
        if self.opens_on_problem:
            # The poller reports errors of the file.
            with suppress(NriScopeError):
                await self._show_first_problem()
        self._has_started.set()
        self.started()

    async def _show_first_problem(self) -> None:
        """Move the cursor to the first problem, unless it has moved; show the note of a bundle."""
        problem, events = await self.store.run(first_problem), self.views.events
        if problem and self.views.current is events and not events.listing.cursor:
            events.go_to_event(problem)
        for name, text in await self.store.run(sender_facts):
            if name == "note":
                self.frame.say(f"note of the sender: {safe(text, _NOTE_MAX)}")

    def _make_commands(self) -> None:
        frame, views, store = self.frame, self.views, self.store
        self.poller = Poller(self, frame, views, store, self.bar, self._recorder)
        self.poller.regrouped = lambda: self.narrower.show()
        self.surveyor = Surveyor(self, store, frame.show_facts, self._changes_found)
        parts = self, frame, views, store, self.context, self._marks, self.path
        self.narrower, self.searcher = Narrower(*parts, self.bar), SearchCommands(*parts)
        marker = self.marker = Marker(*parts, self._marks_changed, self._ask)
        jobs = self.jobs = Jobs(*parts, self.made)
        jumper = self.jumper = Jumper(*parts)
        chooser = Chooser(*parts, marker, self._ask)
        copier = Copier(*parts, marker, chooser)
        saver = Saver(*parts, marker, jobs, chooser, self._fill)
        narrower, searcher, detail = self.narrower, self.searcher, views.detail
        show = {name: partial(views.show, name) for name in SCOPES}
        self.bar.commands = {**show, "quit": self.exit}
        actions: dict[str, Callable[[], object]] = {
            **{f"mode_{name}": action for name, action in show.items()},
            "blame": partial(views.open_tab, Tab.BLAME),
            "toggle_detail": detail.action_toggle_detail,
            "maximise_detail": detail.action_maximise_detail,
            "move_detail": detail.action_move_detail,
            "next_tab": detail.action_next_tab,
            "previous_tab": detail.action_previous_tab,
            "search_next": partial(searcher.go_on, forwards=True),
            "search_previous": partial(searcher.go_on, forwards=False),
            "view_errors": partial(narrower.toggle, "errors"),
            "view_changed": partial(narrower.toggle, "changed"),
            "view_slow": partial(narrower.toggle, "slow"),
            "view_marked": narrower.only_marked,
            "next_problem": partial(jumper.go, "problem", forwards=True),
            "previous_problem": partial(jumper.go, "problem", forwards=False),
            "next_change": partial(jumper.go, "changed", forwards=True),
            "previous_change": partial(jumper.go, "changed", forwards=False),
            "back": narrower.back,
            "narrow_container": narrower.narrow_to_container,
            "narrow_pod": narrower.narrow_to_pod,
            "mark": marker.toggle,
            "clear_marks": marker.clear,
            "compare": self._compare,
            "copy": copier.copy,
            "export": saver.export,
        }
        for name, action in actions.items():
            # Textual looks up the actions of keys as attributes of the app.
            setattr(self, f"action_{name}", action)
        self._has_commands = True
        begin(self, marker.load, MARKS_GROUP)

    def _compare(self) -> None:
        """Compare the other recording if there is one and no event is marked, or else events."""
        if self._other is None or len(self._marks):
            self.marker.compare()
            return
        # Imported late, because importing the differ takes long.
        from .detail.comparison import CompareScreen, of_recordings

        def closed(_: None) -> None:
            self.frame.say(f"events of A; {key_of('compare')} shows the differences again")

        self.push_screen(CompareScreen(of_recordings(self.path, self._other)), closed)

    def _span(self) -> TimeSpan | None:
        return self.store.facts.span

    def follows(self) -> bool:
        """Return whether the recording may still grow."""
        return self.store.facts.growing

    async def on_unmount(self) -> None:
        """Stop background work, save marks, and close the recording."""
        if self._has_commands:
            self.surveyor.close()
            await self.jobs.close()
            await self.marker.close()
        if self._store is not None:
            await self._store.close()
        if self._signals is not None:
            self._signals.restore()

    def _changes_found(self, after: int | None, is_over: bool) -> None:
        """Show other changes and problems of the events after one, or of all events (None).

        They may match other filters. ``is_over``: whether all events were analysed.
        """
        self.views.events.grow(events=True)
        self.views.detail.recording_grown()
        if after is not None:
            self.store.outdate(after)
            return
        self.poller.hurry()
        where = self.context.where()
        is_filtering = self.frame.work.filtered is not None
        if where is not None and where.fields & ATTRIBUTED and (is_over or not is_filtering):
            self.narrower.show()

    # -- requests of the views ----------------------------------------------------------------

    @on(EventList.Moved)
    def _list_moved(self) -> None:
        # A message must not disappear because a new event arrived.
        self.frame.status.clear_message(unless_fresh=True)
        self.frame.show_status()

    def _focus_moved(self) -> None:
        # The focus also moves when the app is ending, and has no screen.
        if self.screen_stack:
            self.frame.show_keys(in_input=isinstance(self.focused, Input))

    def _switched(self) -> None:
        self.poller.hurry()
        self.frame.show_facts()

    @on(messages.TabChosen)
    def _view_chosen(self, event: messages.TabChosen) -> None:
        self.views.show(event.name)

    @on(messages.RowChosen)
    def _row_chosen(self, event: messages.RowChosen) -> None:
        if event.row is None:
            # There are no rows.
            self._has_rows.set()
        self._show_detail(event.row)
        self._focus_moved()

    @on(messages.RowOpened)
    def _row_opened(self, event: messages.RowOpened) -> None:
        self._show_detail(event.row)
        self.views.open_detail()

    def _show_detail(self, row: ListRow | None) -> None:
        comment = self._marks.comment_of(row.event) if row is not None else ""
        self.views.detail.show(row, comment)

    @on(messages.StatusText)
    def _status_text(self, event: messages.StatusText) -> None:
        self.frame.say(event.text, problem=event.problem)

    @on(messages.Failed)
    def _failed(self, event: messages.Failed) -> None:
        self.frame.show_trouble(event.error)

    @on(messages.SetFilter)
    def _set_filter(self, event: messages.SetFilter) -> None:
        self.narrower.filter_by(event.text)

    @on(messages.AddToFilter)
    def _add_to_filter(self, event: messages.AddToFilter) -> None:
        self.narrower.add(event.term, out=event.out)

    @on(messages.ToggleOperations)
    def _toggle_operations(self) -> None:
        self.narrower.toggle_operations()

    @on(messages.OpenEvent)
    def _open_event(self, event: messages.OpenEvent) -> None:
        if not self.views.show_event(event.event_id):
            self.frame.say("the filter hides this event", problem=True)

    @on(messages.OpenTime)
    def _open_time(self, event: messages.OpenTime) -> None:
        self.jumper.open_from(Moment(event.at_ns, event.at_ns), clock(event.at_ns))

    def _marks_changed(self) -> None:
        views, row = self.views, self.views.events.selected_row
        views.redraw_marks()
        if row is not None and views.current is views.events:
            self._show_detail(row)
        self.frame.show_status()
        if self.context.only_marked:
            self.narrower.show()

    # -- the filter bar ------------------------------------------------------------------------

    def _open_bar(self, purpose: Purpose, text: str = "", note: str = "") -> None:
        self._opened_in_detail = self.views.in_detail
        self.bar.open(purpose, text, note=note)

    def _ask(self, words: str, choices: Mapping[str, AnswerChoice]) -> None:
        self._opened_in_detail = self.views.in_detail
        self.bar.ask(words, choices)

    def _fill(
        self, words: str, fields: Sequence[FormField], filled: Callable[[Sequence[str]], object]
    ) -> None:
        self._opened_in_detail = self.views.in_detail
        self.bar.fill(words, fields, filled)

    def _typed(self, purpose: Purpose, text: str) -> None:
        match purpose:
            case Purpose.FILTER:
                # The user wants to see the list of matches.
                self._opened_in_detail = False
                self.narrower.filter_by(text)
            case Purpose.SEARCH:
                self.searcher.begin(text, in_detail=self._opened_in_detail)
            case Purpose.GO_TO:
                command = self.bar.command(text)
                if command is None:
                    self.jumper.go_to(text)
                    return
                self._opened_in_detail = False
                command()
            case Purpose.COMMENT:
                self.marker.comment(text)

    def _bar_closed(self) -> None:
        self.views.focus_view(detail=self._opened_in_detail)

    def action_filter(self) -> None:
        """Open the filter bar for a filter."""
        self.poller.read_values()
        self._open_bar(Purpose.FILTER, self.context.where_text, self.context.limits())

    def action_search(self) -> None:
        """Open the filter bar for a search."""
        self._open_bar(Purpose.SEARCH)

    def action_go_to(self) -> None:
        """Open the filter bar for an event's number, a time or a view."""
        self._open_bar(Purpose.GO_TO)

    def action_comment(self) -> None:
        """Open the filter bar for a comment on the selected event."""
        text = self.marker.begin_comment()
        if text is not None:
            self._open_bar(Purpose.COMMENT, text, self._marks.where_kept())

    def copy_to_clipboard(self, text: str) -> None:
        """Copy text to the terminal's clipboard, with control sequences escaped.

        Textual calls this, too, for text copied from an input.
        """
        super().copy_to_clipboard(safe(text, newlines=True))

    # -- other actions ------------------------------------------------------------------------

    def action_focus_other(self) -> None:
        """Move the focus between the view and the detail pane."""
        if self.views.in_detail:
            self.views.focus_view()
        else:
            self.views.open_detail()

    async def action_quit(self) -> None:
        """Quit."""
        self.exit()

    async def action_help(self) -> None:
        """Show the help."""
        here = Scope.DETAIL if self.views.in_detail else self.views.scope
        lines = help_lines((here, Scope.APP, Scope.FILTER), self.available())
        if isinstance(board := self.views.current, Board):
            lines += board.legend()
        await self.push_screen(KeyHelp("keys", lines, wrap=True))

    def action_clear_filter(self) -> None:
        """Remove filter, restriction and search."""
        self.searcher.forget()
        self.narrower.everything()

    def action_stop(self) -> None:
        """Stop a search, a job or a filter; otherwise leave the detail pane or end highlighting."""
        if self.stop_selecting():
            self.frame.say("search stopped")
        elif self.jobs.busy:
            self.jobs.stop()
        elif self.frame.work.filtered is not None:
            self.workers.cancel_group(self, FILTER_GROUP)
            self.narrower.back()
        elif self.views.in_detail:
            self.views.focus_view()
        else:
            self.searcher.rest()
            self.frame.status.clear_message()

    def action_suspend(self) -> None:
        """Stop this program, as ^Z does elsewhere, until the shell continues it."""
        if not (isinstance(self._driver, TerminalDriver) and self._driver.suspend()):
            self.frame.say("cannot suspend: not started from a shell with job control")
            return
        self.redraw()

    def action_theme(self) -> None:
        """Switch to the next theme."""
        self.theme = next_theme(self.theme, self._themes)
        self.views.events.restyle()
        self.frame.say(f"theme: {self.theme}")
