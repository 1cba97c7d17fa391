# SPDX-License-Identifier: Apache-2.0
"""What is shown of a recording: filters, one pod or container, marked events, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_scope.errors import FilterError, NriScopeError
from nri_scope.recorder.model import Container, Event, Pod
from nri_scope.tui import taking
from nri_scope.tui.model.filtering import VIEWS, narrowed
from nri_scope.tui.model.view import View

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp

FILTER_GROUP = "filter"
_GROUP = "narrow"


class Narrower:
    """Changes the app's context, and has the views show what it is then."""

    def __init__(self, app: ScopeApp) -> None:
        self._app = app
        self._turn = 0
        """Counts what is to be shown: what a turn that is over still says does not count."""

    # -- what keys and views ask for ----------------------------------------------------------

    def filter_by(self, text: str) -> None:
        """Show what passes this filter; what is wrong with it is told."""
        try:
            self._app.context.filter_by(text)
        except FilterError as error:
            self._app.say(str(error), problem=True)
            return
        self._app.bar.remember(text)
        self.show()

    def add(self, term: str, *, out: bool) -> None:
        """Of what is shown only what passes ``term`` too, or does not (``out``)."""
        self.filter_by(narrowed(self._app.context.where_text, term, out=out))

    def toggle(self, name: str) -> None:
        """A named view, or what was shown before it."""
        text = VIEWS[name]
        if self._app.context.where_text == text:
            self.back()
        else:
            self.filter_by(text)

    def only_marked(self) -> None:
        """Only marked events, or all again."""
        self._app.marker.only = not self._app.marker.only
        self._app.show_mode("events")
        self.show()

    def narrow(self, what: Pod | Container) -> None:
        """Only this pod or container."""
        self._app.context.narrow(what)
        self.show()

    def everything(self) -> None:
        """No filter, no pod and no container."""
        self._app.marker.only = False
        self._app.context.everything()
        self.show()

    def back(self) -> None:
        """What was shown before."""
        if self._app.marker.only:
            self.only_marked()
        elif self._app.context.back():
            self.show()
        else:
            self._app.say("there is nothing to go back to")

    def narrow_to_selected(self, find: taking.Find, kind: str) -> None:
        """Only what ``find`` says that the selected event is about; ``kind`` is the word for it."""
        number = self._app.current.selected_event_id
        if number is None:
            self._app.say("no event is selected", problem=True)
            return
        self._app.run_worker(self._narrow_to(number, find, kind), group=_GROUP, exclusive=True)

    def go_to_same(self, *, forwards: bool) -> None:
        """To the next or previous event of the selected one's container."""
        row = self._app.events.selected_row
        if row is None or row.event is None or not row.event.container_id:
            self._app.say("this event is about no container", problem=True)
            return
        self._app.run_worker(self._go_to_same(row.event, forwards), group=_GROUP, exclusive=True)

    # -- how ----------------------------------------------------------------------------------

    def show(self) -> None:
        """Show what the context is now."""
        self._turn += 1
        self._app.status.hush()
        context = self._app.context
        everything = context.where() is None and context.about is None
        # It says so at once: that nothing was found yet must not look like "no match".
        self._app.work_on(part=None if everything and not self._app.marker.only else 0.0)
        work = self._look_through(self._turn)
        self._app.run_worker(work, group=FILTER_GROUP, exclusive=True)

    async def _look_through(self, turn: int) -> None:
        app = self._app
        shown: View | None = None

        def progress(view: View, part: float) -> None:
            nonlocal shown
            app.work_on(part=part)
            if view is shown:
                app.events.grow()
            else:
                shown = view
                app.events.show(view)

        where, about = app.marker.where(app.context.where()), app.context.about
        try:
            app.events.show(await app.store.view(where, progress, about=about))
        except NriScopeError as error:
            app.show_trouble(error)
        finally:
            if turn == self._turn:
                app.work_on(part=None)
        await app.update_board()

    async def _narrow_to(self, number: int, find: taking.Find, kind: str) -> None:
        try:
            found = await self._app.store.run(lambda recording: find(recording, number))
        except NriScopeError as error:
            self._app.show_trouble(error)
            return
        if found is None:
            self._app.say(f"this event is about no {kind}", problem=True)
        else:
            self.narrow(found)

    async def _go_to_same(self, event: Event, forwards: bool) -> None:
        try:
            numbers = await self._app.store.run(
                lambda recording: taking.others_of_container(recording, event, forwards=forwards)
            )
        except NriScopeError as error:
            self._app.show_trouble(error)
            return
        if not any(self._app.events.go_to_event(number) for number in numbers):
            where = "later" if forwards else "earlier"
            self._app.say(f"no {where} event of this container is shown here")
