# SPDX-License-Identifier: Apache-2.0
"""What keys do wherever they are pressed. Here only who does it; the rest is with that one."""

from __future__ import annotations

from abc import abstractmethod

from textual.app import App
from textual.command import CommandPalette
from textual.widget import Widget
from textual.widgets import Input

from nri_scope.recorder.escape import safe
from nri_scope.tui.copying import Copier
from nri_scope.tui.finding import Finder
from nri_scope.tui.help import help_lines
from nri_scope.tui.jobs import Jobs
from nri_scope.tui.looking import Looker
from nri_scope.tui.marking import Marker
from nri_scope.tui.model.context import Context
from nri_scope.tui.model.keys import Keymap, Scope
from nri_scope.tui.narrowing import FILTER_GROUP, Narrower
from nri_scope.tui.saving import Saver
from nri_scope.tui.states import Work
from nri_scope.tui.theme import next_theme
from nri_scope.tui.views import EVENTS
from nri_scope.tui.widgets.board import Board
from nri_scope.tui.widgets.detail_pane import DetailPane
from nri_scope.tui.widgets.event_list import EventList
from nri_scope.tui.widgets.filter_bar import FilterBar, Purpose
from nri_scope.tui.widgets.reading import ReadingScreen
from nri_scope.tui.widgets.status_line import StatusLine


class Acting(App[None], inherit_bindings=False):
    """An app with the actions of the table that count everywhere."""

    keymap: Keymap
    context: Context
    work: Work
    events: EventList
    detail: DetailPane | None
    """The details; None until the recording is open."""
    bar: FilterBar
    typed_in_detail: bool
    """Whether the details had the focus before the line for text was opened."""
    finder: Finder
    marker: Marker
    narrower: Narrower
    copier: Copier
    looker: Looker
    jobs: Jobs
    saver: Saver

    # -- of the app -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def status(self) -> StatusLine:
        """The line below the views."""

    @property
    @abstractmethod
    def mode(self) -> str:
        """The name of the view that is shown."""

    @property
    @abstractmethod
    def current(self) -> EventList | Board:
        """The view that is shown."""

    @property
    @abstractmethod
    def scope(self) -> Scope:
        """Where the keys of that view count."""

    @property
    @abstractmethod
    def in_detail(self) -> bool:
        """Whether the details have the focus."""

    @abstractmethod
    def show_mode(self, name: str) -> None:
        """Show another view."""

    @abstractmethod
    def available(self) -> frozenset[str]:
        """The names of all actions that something here can do."""

    @abstractmethod
    def say(self, text: str, *, problem: bool = False) -> None:
        """Tell the user one line."""

    def give_focus(self, what: Widget) -> None:
        """The next key is for it, or for its lines."""
        lines = what.body if isinstance(what, Board) else what
        # `Widget.focus` would do it later, when that key may have been taken already.
        self.screen_stack[0].set_focus(lines)

    # -- what is shown ------------------------------------------------------------------------

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

    def action_focus_other(self) -> None:
        """To the details, and back."""
        if self.detail is None or self.in_detail:
            self.give_focus(self.current)
        elif self.detail.is_hidden:
            self.detail.action_toggle_detail()
            self.give_focus(self.detail.body)
        else:
            self.give_focus(self.detail.body)

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

    # -- the app, filters and searches ----------------------------------------------------------

    async def action_quit(self) -> None:
        """Leave."""
        self.exit()

    async def action_command_palette(self) -> None:  # type: ignore[override]
        """Show all actions. The next key is for its line, which Textual does not wait for."""
        palette = CommandPalette()
        await self.push_screen(palette)
        palette.set_focus(palette.query_one(Input))

    async def action_help(self) -> None:
        """Show the keys."""
        scopes = (Scope.DETAIL if self.in_detail else self.scope, Scope.APP, Scope.FILTER)
        lines = help_lines(self.keymap, scopes, self.available())
        await self.push_screen(ReadingScreen("keys", lines, wrap=True))

    def action_filter(self) -> None:
        """Type a filter."""
        self.typed_in_detail = False
        # Whatever came since.
        self.looker.learn_values()
        self.bar.open(Purpose.FILTER, self.context.where_text)

    def action_search(self) -> None:
        """Type what to search for."""
        self.typed_in_detail = self.in_detail
        self.bar.open(Purpose.SEARCH)

    def action_search_next(self) -> None:
        """Next match."""
        self.finder.go_on(forwards=True)

    def action_search_previous(self) -> None:
        """Previous match."""
        self.finder.go_on(forwards=False)

    def action_clear_filter(self) -> None:
        """Show everything."""
        self.finder.forget()
        self.narrower.everything()

    def action_view_errors(self) -> None:
        """Only errors, and back."""
        self.narrower.toggle("errors")

    def action_view_changed(self) -> None:
        """Only changes, and back."""
        self.narrower.toggle("changed")

    def action_view_marked(self) -> None:
        """Only marked events, and back."""
        self.narrower.only_marked()

    def action_view_slow(self) -> None:
        """Only slow answers, and back."""
        self.narrower.toggle("slow")

    async def action_back(self) -> None:
        """What was shown before."""
        self.narrower.back()

    def action_stop(self) -> None:
        """Stop what is at work: a search, something that is saved, a filter."""
        if self.work.searching:
            self.finder.stop()
            self.say("search stopped")
        elif self.jobs.busy:
            self.jobs.stop()
        elif self.work.part is not None:
            self.workers.cancel_group(self, FILTER_GROUP)
            self.narrower.back()
        elif self.in_detail:
            self.give_focus(self.current)
        else:
            self.finder.rest()
            self.status.hush()

    def action_narrow_container(self) -> None:
        """Only the container of the selected event."""
        self.narrower.narrow_to_container()

    def action_narrow_pod(self) -> None:
        """Only the pod of the selected event."""
        self.narrower.narrow_to_pod()

    # -- marks --------------------------------------------------------------------------------

    def action_mark(self) -> None:
        """Mark the selected event, or unmark it."""
        self.marker.toggle()

    def action_comment(self) -> None:
        """Write something about the selected event."""
        text = self.marker.begin_comment()
        if text is not None:
            self.typed_in_detail = self.in_detail
            self.bar.open(Purpose.COMMENT, text, note=self.marker.where_kept())

    def action_compare(self) -> None:
        """Compare two marked events."""
        self.marker.compare()

    # -- taking away --------------------------------------------------------------------------

    def copy_to_clipboard(self, text: str) -> None:
        """Give text to the terminal's clipboard, without what another terminal would obey.

        All that is copied comes by here, what Textual copies from a line of input included.
        """
        super().copy_to_clipboard(safe(text, newlines=True))

    def action_copy(self) -> None:
        """Copy the selected event as YAML."""
        self.copier.copy()

    def action_save_text(self) -> None:
        """Save the selected event as YAML."""
        self.copier.save()

    def action_copy_command(self) -> None:
        """Copy the command line that shows the same."""
        self.copier.copy_command()

    def action_save_recording(self) -> None:
        """Save the shown events as a recording."""
        self.saver.save_recording()

    def action_export_bundle(self) -> None:
        """Export the shown events as a redacted bundle."""
        self.saver.export_bundle()

    def action_replay_shown(self) -> None:
        """Type what to replay the shown events to."""
        self.typed_in_detail = self.in_detail
        self.bar.open(Purpose.PLUGIN, note=self.marker.what_is_taken())

    def action_theme(self) -> None:
        """Next theme."""
        self.theme = next_theme(self.theme)
        self.events.restyle()
        self.say(f"theme: {self.theme}")
