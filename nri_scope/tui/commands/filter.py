# SPDX-License-Identifier: Apache-2.0
"""Restrict the views to a filter, a pod or container, or marked events, and undo that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic

from nri_scope.errors import FilterError, NriScopeError
from nri_scope.events import Container, Pod
from nri_scope.recording.query.subject_queries import container_of_event, pod_of_event
from nri_scope.recording.reading.reader import Recording

from ..actions import key_of
from ..store.view import View
from ..text.filter_text import VIEWS, narrowed
from ..textual_workarounds import begin
from ..widgets.board import Board
from ..widgets.filter_bar import FilterBar
from ..widgets.messages import LinesAvailable, begin_reading
from . import KeyCommands

_Find = Callable[[Recording, int], Pod | Container | None]

FILTER_GROUP = "filter"
NARROW_GROUP = "narrow"
_PROGRESS_S = 0.1
"""Minimum seconds between updates with the matches found so far."""


@dataclass
class Narrower(KeyCommands):
    """Commands that change the context, and update the views."""

    bar: FilterBar
    _turn: int = 0
    """Number of the current request; results of earlier requests are ignored."""
    is_beginning: bool = False
    """Whether the list still shows the previous view, about to be replaced."""

    # -- requests of keys and views -----------------------------------------------------------

    def filter_by(self, text: str) -> None:
        """Apply a filter, or report its error."""
        try:
            self.context.filter_by(text)
        except FilterError as error:
            self.frame.say(str(error), problem=True)
            return
        self.bar.remember(text)
        self.show()

    def add(self, term: str, *, out: bool) -> None:
        """Add ``term`` to the filter, or, with ``out``, its negation."""
        self.filter_by(narrowed(self.context.where_text, term, out=out))

    def toggle(self, name: str) -> None:
        """Apply the filter of a named view, or go back if it is already applied."""
        text = VIEWS[name]
        if self.context.where_text == text:
            self.back()
        else:
            self.filter_by(text)

    def only_marked(self) -> None:
        """Toggle between only marked events and all events."""
        if not self.context.only_marked and not len(self.marks):
            self.report_problem(f"no event is marked; {key_of('mark')} marks one")
            return
        self.context.only_marked = not self.context.only_marked
        self.show()

    def toggle_operations(self) -> None:
        """Toggle between a row for each operation and a row for each event."""
        self.context.grouped = not self.context.grouped
        self.show()
        self.frame.say(f"one row for each {'operation' if self.context.grouped else 'event'}")

    def narrow(self, what: Pod | Container) -> None:
        """Restrict the views to a pod or container."""
        self.context.narrow(what)
        self.show()

    def everything(self) -> None:
        """Remove all restrictions."""
        self.context.everything()
        self.show()

    def back(self) -> None:
        """Go back to the previous restriction."""
        if self.context.only_marked:
            self.only_marked()
        elif self.context.back():
            self.show()
        else:
            self.frame.say("there is nothing to go back to")

    def narrow_to_container(self) -> None:
        """Restrict the views to the container of the selected row."""
        match self.views.current:
            case Board(selected=Container() as container):
                self.narrow(container)
            case Board(selected=Pod()):
                self.report_problem(f"this is a pod; {key_of('narrow_pod')} narrows to it")
            case Board():
                self.report_problem("there is no container here")
            case _:
                self._narrow_to_subject_of_event(container_of_event)

    def narrow_to_pod(self) -> None:
        """Restrict the views to the pod of the selected row."""
        match self.views.current:
            case Board(selected=Pod() as pod):
                self.narrow(pod)
            case Board(selected=Container(pod=Pod() as pod)):
                self.narrow(pod)
            case Board(selected=Container()):
                self.report_problem("the pod of this container is unknown")
            case Board():
                self.report_problem("there is no pod here")
            case _:
                self._narrow_to_subject_of_event(pod_of_event)

    # -- implementation -----------------------------------------------------------------------

    def show(self) -> None:
        """Update the views to the current context."""
        self._turn += 1
        self.is_beginning = True
        self.frame.status.clear_message()
        # Show progress immediately: a filter without results so far must not look like "no match".
        share = 0.0 if self.context.is_narrowed else None
        self.frame.show_work(replace(self.frame.work, filtered=share))
        work = partial(self._run_filter, self._turn)
        begin(self.app, work, FILTER_GROUP, exclusive=True)

    async def _run_filter(self, turn: int) -> None:
        shown: View | None = None
        updated = 0.0

        def progress(view: View, part: float) -> None:
            nonlocal shown, updated
            now = monotonic()
            if view is shown and now - updated < _PROGRESS_S and part < 1:
                # Drawing slows down the thread that examines the recording.
                return
            updated = now
            self.frame.show_work(replace(self.frame.work, filtered=part))
            if view is shown:
                self.views.events.grow()
            else:
                shown = view
                self.views.events.show(view)
                self._view_replaced(turn)

        where, about = self.context.shown(), self.context.about
        try:
            grouped = self.context.grouped
            view = await self.store.view(where, progress, about=about, grouped=grouped)
            self.views.events.show(view)
        except NriScopeError as error:
            self.frame.show_trouble(error)
        finally:
            if turn == self._turn:
                self.frame.show_work(replace(self.frame.work, filtered=None))
            self._view_replaced(turn)
        await self.views.update()

    def _view_replaced(self, turn: int) -> None:
        if turn == self._turn and self.is_beginning:
            self.is_beginning = False
            self.app.post_message(LinesAvailable())

    def _narrow_to_subject_of_event(self, find: _Find) -> None:
        number = self.views.current.selected_event_id
        if number is None:
            self.report_problem("this row is not an event and has no pod or container")
            return
        work = partial(self._narrow_to, number, find)
        begin_reading(self.app, work, NARROW_GROUP)

    async def _narrow_to(self, number: int, find: _Find) -> None:
        found = await self.store.run(lambda recording: find(recording, number))
        pod = found or await self.store.run(lambda recording: pod_of_event(recording, number))
        if found is not None:
            self.narrow(found)
        elif pod is not None:
            key = key_of("narrow_pod")
            self.report_problem(f"this event concerns the whole pod; {key} narrows to it")
        else:
            self.report_problem("this event has no pod or container")
