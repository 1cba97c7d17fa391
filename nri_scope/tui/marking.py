# SPDX-License-Identifier: Apache-2.0
"""Marks and comments: what ``m``, ``M``, ``*`` and ``d`` do."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from nri_scope.errors import NriScopeError
from nri_scope.recorder.filter import Filter
from nri_scope.recorder.filter.text import fold
from nri_scope.recorder.model import Container, Event
from nri_scope.tui.model.marks import MAX_MARKS, Marks
from nri_scope.tui.model.rows import Row
from nri_scope.tui.model.whom import container_of_event
from nri_scope.tui.widgets.tree import Tree

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp

GROUP = "marks"


class Marker:
    """The marks of the recording that the app shows."""

    def __init__(self, app: ScopeApp) -> None:
        self._app = app
        self.marks = Marks(app.path)
        self.only = False
        """Whether only marked events are shown."""
        self._told = ""
        self._commented: int | None = None
        self._saving = asyncio.Lock()

    async def load(self) -> None:
        """Find the marks of before."""
        await asyncio.to_thread(self.marks.load)
        self._tell()
        if len(self.marks):
            self._app.marks_changed()

    async def close(self) -> None:
        """Keep what was marked last: whoever leaves at once must not lose it."""
        await asyncio.to_thread(self.marks.save)

    def is_marked(self, row: Row) -> bool:
        """Whether a row's event is marked."""
        return self.marks.of(row.event) is not None

    def is_event_marked(self, event: Event) -> bool:
        """Whether an event is marked."""
        return self.marks.of(event) is not None

    def comment_of(self, row: Row | None) -> str:
        """What was written about a row's event."""
        mark = self.marks.of(row.event) if row is not None else None
        return mark.comment if mark is not None else ""

    def commented(self, text: str) -> list[int]:
        """Numbers of the events with ``text`` in their comment, in upper or lower case."""
        needle = fold(text)
        return [mark.event for mark in self.marks.all() if needle in fold(mark.comment)]

    def where(self, where: Filter | None) -> Filter | None:
        """The filter, and where only marked events are shown that too."""
        return self.marks.filter(where) if self.only else where

    async def marked(self) -> list[Event]:
        """The marked events of this recording, in order. Raises RecordingError."""
        if not len(self.marks):
            return []
        where = self.marks.filter()
        return await self._app.store.run(lambda recording: list(recording.events(where=where)))

    def what_is_taken(self) -> str:
        """Of the marked and the shown events those that are taken where several are."""
        if len(self.marks):
            key = self._app.keymap.first("view_marked")
            return f"takes the {len(self.marks):,} marked ({key} shows them)"
        return f"takes all {self._app.events.view.events:,} shown"

    def why_lost(self) -> str:
        """Why what is marked now is forgotten by leaving; "" where it is kept."""
        if self.marks.notice or not os.access(self.marks.path.parent, os.W_OK | os.X_OK):
            return "lost when you leave: nothing can be kept beside this recording"
        return ""

    # -- what keys do -------------------------------------------------------------------------

    def toggle(self) -> None:
        """Mark the selected event, or unmark it."""
        self._start(None)

    def begin_comment(self) -> int | None:
        """Remember which event is to be commented; None where none is selected."""
        self._commented = self._selected()
        return self._commented

    def comment(self, text: str) -> None:
        """Mark the event that was remembered, with a comment."""
        self._start(text)

    def compare(self) -> None:
        """Compare two marked events, or one and the selected; of more those of one container, or
        one of each of two.
        """
        self._app.run_worker(self._compare(), group=GROUP)

    def _selected(self) -> int | None:
        number = self._app.current.selected_event_id
        if number is None:
            self._app.say("no event is selected", problem=True)
        return number

    def _start(self, comment: str | None) -> None:
        number = self._selected() if comment is None else self._commented
        if number is not None:
            self._app.run_worker(self._mark(number, comment), group=GROUP)

    async def _mark(self, number: int, comment: str | None) -> None:
        try:
            event = await self._app.store.run(lambda recording: recording.event(number))
        except NriScopeError as error:
            self._app.show_trouble(error)
            return
        if event is None:
            self._app.say(f"event {number} was removed meanwhile", problem=True)
            return
        known = self.marks.of(event) is not None
        if comment is not None:
            marked = self.marks.comment(event, comment)
        else:
            marked = self.marks.toggle(event)
        if not marked and (comment is not None or not known):
            self._app.say(f"more than {MAX_MARKS:,} marks are not kept", problem=True)
            return
        self._app.marks_changed()
        which = f"event {number}{self._newest_of(number)}"
        self._app.say(f"{which} is {'marked' if marked else 'not marked any more'}")
        async with self._saving:
            await asyncio.to_thread(self.marks.save)
        if not self._tell() and self.marks.notice:
            self._app.say(f"event {number}: marks are lost when you leave", problem=True)

    def _newest_of(self, number: int) -> str:
        """Why it is this event, where the cursor was on no event."""
        current = self._app.current
        if not isinstance(current, Tree) or current.node is None or current.node.event:
            return ""
        if current.selected_event_id != number:
            return ""
        return f", the newest of this {'container' if current.node.container else 'pod'},"

    def _tell(self) -> bool:
        """Say in full why marks are not kept, unless that was said before."""
        is_new = self.marks.notice != self._told
        self._told = self.marks.notice
        if is_new and self.marks.notice:
            self._app.say(self.marks.notice, problem=True)
        return is_new

    def _pair(self, marked: list[Event], about: Container | None) -> list[Event]:
        """Of more than two those that are meant; all where nothing tells which."""
        if len(marked) <= 2:
            return marked
        own = [event for event in marked if about is not None and event.container_id == about.id]
        if len(own) == 2 and own[0].container_id:
            return own
        newest = {event.container_id: event for event in marked if event.container_id}
        return list(newest.values()) if len(newest) == 2 else marked

    async def _compare(self) -> None:
        selected = self._app.current.selected_event_id
        about: Container | None = None
        try:
            if selected is not None:
                at = selected
                about = await self._app.store.run(lambda one: container_of_event(one, at))
            found = await self.marked()
            if len(found) == 1 and selected not in (None, found[0].id):
                number = selected or 0
                other = await self._app.store.run(lambda recording: recording.event(number))
                found += [other] if other is not None else []
        except NriScopeError as error:
            self._app.show_trouble(error)
            return
        found = self._pair(found, about)
        if len(found) != 2:
            key = self._app.keymap.first("mark")
            have = f"{len(found):,} events are marked" if len(found) > 2 else "too few are marked"
            what = "compare takes two events, or those of two containers"
            self._app.say(f"{have}: {what}; {key} marks and unmarks", problem=True)
            return
        # With the differ, which takes long to import: not before the first screen.
        from nri_scope.tui.widgets.compare import CompareScreen

        a, b = found
        await self._app.push_screen(CompareScreen(self._app.store, a, b, self._app.keymap))
