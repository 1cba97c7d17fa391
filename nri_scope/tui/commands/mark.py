# SPDX-License-Identifier: Apache-2.0
"""Marks and comments: the actions of ``m``, ``M``, ``*`` and ``d``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual.app import App
from textual.worker import Worker

from nri_scope.errors import NriScopeError
from nri_scope.events import MAX_MARKS, Container, Event, Mark
from nri_scope.recording.display import many
from nri_scope.recording.marks.user_marks import LOST, Marks
from nri_scope.recording.reader import Recording
from nri_scope.recording.subject_queries import container_of_event

from ..actions import Keymap
from ..containers.container_board import ContainerBoard
from ..frame import Frame
from ..store.store import Store
from ..views import Views
from ..widgets.messages import begin_reading

GROUP = "marks"
_Marking = Callable[[int, Event | None, str | None], object]
"""Marks the event with a number (None if it was removed), with an optional comment."""


@dataclass
class Marker:
    """Marks events of the shown recording, and compares them."""

    app: App[Any]
    frame: Frame
    views: Views
    store: Store
    keymap: Keymap
    marks: Marks
    path: Path
    changed: Callable[[], None]
    """Called when marks or comments have changed."""
    _told: str = ""
    _commented: tuple[int, Event | None] | None = None
    _waiting: list[tuple[int, str | None]] = field(default_factory=list)
    """Events to be read before they are marked, each with its comment, if any."""
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load(self) -> None:
        """Load the saved marks."""
        try:
            await asyncio.to_thread(self.marks.load)
        finally:
            self._loaded.set()
        self._tell()
        if len(self.marks):
            self.changed()

    async def close(self) -> None:
        """Save the last marks, even if the user quits at once."""
        async with self._saving:
            with suppress(NriScopeError):
                await self._read_waiting(self._set)
            await asyncio.to_thread(self.marks.save)

    async def release(self) -> None:
        """Close the recording, which only this object still has open."""
        await asyncio.to_thread(self.marks.close)

    async def all(self) -> list[Mark]:
        """Return all marks, saved and new ones. Raises RecordingError."""
        await self._loaded.wait()
        async with self._saving:
            await self._read_waiting(self._mark)
        return self.marks.all()

    async def marked(self) -> list[Event]:
        """Return the marked events of this recording, in order. Raises RecordingError."""
        if not await self.all():
            return []
        where = self.marks.filter()
        return await self.store.run(lambda recording: list(recording.events(where=where)))

    def selection_note(self) -> str:
        """Describe the events on which keys for several act: the marked or the shown ones."""
        if len(self.marks):
            key = self.keymap.first("view_marked")
            return f"replays {many(len(self.marks), 'marked event')} ({key} shows them)"
        return f"replays {many(self.views.events.view.events, 'shown event')}"

    # -- actions of keys ----------------------------------------------------------------------

    def toggle(self) -> None:
        """Mark the selected event, or unmark it."""
        number = self._selected()
        if number is not None:
            self._start(number, self._at_hand(number), None)

    def begin_comment(self) -> str | None:
        """Remember the event to be commented; return its existing comment, or None if no event is
        selected.
        """
        number = self._selected()
        self._commented = None if number is None else (number, self._at_hand(number))
        if number is None:
            return None
        # Views other than the list only provide the number.
        return next((mark.comment for mark in self.marks.all() if mark.event == number), "")

    def comment(self, text: str) -> None:
        """Mark the remembered event, with a comment."""
        if self._commented is not None:
            self._start(*self._commented, text)

    def compare(self) -> None:
        """Compare two marked events, or a marked and the selected one; of more than two those of
        one container, or one of each of two containers.
        """
        begin_reading(self.app, self._compare, "compare")

    def _selected(self) -> int | None:
        number = self.views.current.selected_event_id
        if number is None:
            self.frame.say("no event is selected", problem=True)
        return number

    def _at_hand(self, number: int) -> Event | None:
        """Return the event if it need not be read."""
        row = self.views.events.selected_row if self.views.current is self.views.events else None
        return row.event if row is not None and row.event_id == number else None

    def _start(self, number: int, event: Event | None, comment: str | None) -> None:
        # At once if possible, so that the mark exists even if the user quits now.
        if event is not None:
            self._mark(number, event, comment)
        else:
            self._waiting.append((number, comment))
        # Passed as a function: if the app is ending, it is never started.
        _: Worker[None] = self.app.run_worker(self._keep, group=GROUP)

    async def _keep(self) -> None:
        async with self._saving:
            try:
                await self._read_waiting(self._mark)
            except NriScopeError as error:
                self.frame.show_trouble(error)
            await asyncio.to_thread(self.marks.save)
        if not self._tell() and not self.marks.is_kept:
            self.frame.say(LOST, problem=True)

    async def _read_waiting(self, mark: _Marking) -> None:
        """Read and mark the waiting events. On NriScopeError, discard them."""
        while self._waiting:
            number, comment = self._waiting[0]
            try:
                # Not in the threads of the store, which may be busy.
                event = await asyncio.to_thread(self._read, number)
            except NriScopeError:
                self._waiting.clear()
                raise
            del self._waiting[0]
            mark(number, event, comment)

    def _read(self, number: int) -> Event | None:
        with Recording.open(self.path) as recording:
            return recording.event(number)

    def _set(self, number: int, event: Event | None, comment: str | None) -> bool:
        """Set or remove the mark; return whether the event is marked now."""
        if event is None:
            return False
        if comment is None:
            return self.marks.toggle(event)
        return self.marks.comment(event, comment)

    def _mark(self, number: int, event: Event | None, comment: str | None) -> None:
        known = self.marks.of(event) is not None
        marked = self._set(number, event, comment)
        if event is None:
            self.frame.say(f"event {number} has been removed from the recording", problem=True)
            return
        if not marked and (comment is not None or not known):
            self.frame.say(f"at most {MAX_MARKS:,} events can be marked", problem=True)
            return
        self.changed()
        which = f"event {number}{self._newest_of(number)}"
        self.frame.say(f"{which} is {'marked' if marked else 'no longer marked'}")

    def _newest_of(self, number: int) -> str:
        """Return why this event was chosen, if the cursor was not on an event."""
        current = self.views.current
        if not isinstance(current, ContainerBoard) or current.node is None or current.node.event:
            return ""
        if current.selected_event_id != number:
            return ""
        return f", the newest of this {'container' if current.node.container else 'pod'},"

    def _tell(self) -> bool:
        """Report in full why marks cannot be saved, unless already reported; return whether new."""
        is_new = self.marks.notice != self._told
        self._told = self.marks.notice
        if is_new and self.marks.notice:
            self.frame.say(self.marks.notice, problem=True)
        return is_new

    def _pair(self, marked: list[Event], about: Container | None) -> list[Event]:
        """Choose two of more events; return all if the choice is ambiguous."""
        if len(marked) <= 2:
            return marked
        own = [event for event in marked if about is not None and event.container_id == about.id]
        if len(own) == 2 and own[0].container_id:
            return own
        newest = {event.container_id: event for event in marked if event.container_id}
        return list(newest.values()) if len(newest) == 2 else marked

    async def _compare(self) -> None:
        selected = self.views.current.selected_event_id
        about: Container | None = None
        found = await self.marked()
        if selected is not None:
            at = selected
            about = await self.store.run(lambda recording: container_of_event(recording, at))
            if len(found) == 1 and found[0].id != at:
                other = await self.store.run(lambda recording: recording.event(at))
                found += [other] if other is not None else []
        found = self._pair(found, about)
        if len(found) != 2:
            key = self.keymap.first("mark")
            have = f"{len(found):,} events are marked" if len(found) > 2 else "too few marks"
            what = "compare needs two events, or the events of two containers"
            self.frame.say(f"{have}: {what}; {key} marks and unmarks", problem=True)
            return
        if told := _events_without_container(found):
            self.frame.say(f"compare needs events of containers: {told}", problem=True)
            return
        # The differ takes long to import: not before the first screen.
        from ..detail.comparison import CompareScreen

        a, b = found
        await self.app.push_screen(CompareScreen(self.store, a, b, self.keymap))


def _events_without_container(pair: list[Event]) -> str:
    """Return in words which of the two events have no container; "" if both have one."""
    bare = [event for event in pair if not event.container_id]
    if not bare:
        return ""
    which = " and ".join(str(event.id) for event in bare)
    if len(bare) == 1:
        has = "concerns a pod" if bare[0].pod_id else "has no container"
        return f"event {which} {has}"
    have = "concern pods" if all(event.pod_id for event in bare) else "have no container"
    return f"events {which} {have}"
