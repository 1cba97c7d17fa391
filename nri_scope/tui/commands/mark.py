# SPDX-License-Identifier: Apache-2.0
"""Mark, comment and compare events: the commands of the keys ``m``, ``M``, ``U`` and ``d``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from textual.worker import Worker

from nri_scope.errors import NriScopeError
from nri_scope.events import MAX_MARKS, Container, Event, Pod, UserMark
from nri_scope.recording.marks.user_marks import LOST
from nri_scope.recording.query.subject_queries import container_of_event
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.escape import safe
from nri_scope.text.quantities import many

from ..actions import key_of
from ..textual_workarounds import begin
from ..widgets.filter_bar import AnswerChoice
from ..widgets.messages import begin_reading
from . import KeyCommands

GROUP = "marks"
_MAX_COLUMNS = 40
_NO_EVENT = "no event here to mark; `diff FILE A B` compares containers by name"
"""Follows the name of a pod or container: only Synchronize lists it, or its events are hidden."""
_MarkFunction = Callable[[int, Event | None, str | None], object]
"""Function that marks an event (None if it was removed) by number, with an optional comment."""


@dataclass
class Marker(KeyCommands):
    """Commands that mark and compare events."""

    changed: Callable[[], None]
    """Callback after a change of marks or comments."""
    ask: Callable[[str, Mapping[str, AnswerChoice]], None]
    """`FilterBar.ask`."""
    _reported_notice: str = ""
    _commented: tuple[int, Event | None] | None = None
    _queued: list[tuple[int, str | None]] = field(default_factory=list)
    """Numbers and comments of events that must be read before they are marked."""
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load(self) -> None:
        """Load the saved marks."""
        try:
            await asyncio.to_thread(self.marks.load)
        finally:
            self._loaded.set()
        self._report_notice()
        if len(self.marks):
            self.changed()

    async def close(self) -> None:
        """Process queued marks, and save all marks."""
        async with self._saving:
            with suppress(NriScopeError):
                await self._mark_queued(self._set)
            await asyncio.to_thread(self.marks.save)

    async def all(self) -> list[UserMark]:
        """Return all marks, including queued ones. Raises RecordingError."""
        await self._loaded.wait()
        async with self._saving:
            await self._mark_queued(self._mark)
        return self.marks.all()

    async def marked(self) -> list[Event]:
        """Return the marked events of this recording, in order. Raises RecordingError."""
        if not await self.all():
            return []
        where = self.marks.filter()
        return await self.store.run(lambda recording: list(recording.events(where=where)))

    async def count(self) -> int:
        """Return the number of marks, once the saved ones are loaded, and queued ones are made."""
        with suppress(NriScopeError):
            await self.all()
        return len(self.marks)

    def numbers(self) -> list[int]:
        """Return the numbers of the marked events, ascending, without queued ones."""
        return [mark.event for mark in self.marks.all()]

    # -- actions of keys ----------------------------------------------------------------------

    def toggle(self) -> None:
        """Mark the selected event, or unmark it."""
        number = self._selected()
        if number is None:
            return
        marked = [number for number in self.views.selected_events if number in self.numbers()]
        for each in marked or [number]:
            self._begin_marking(each, self._loaded_event(each), None)

    def begin_comment(self) -> str | None:
        """Store the selected event as the one to be commented; return its existing comment.

        Returns None if no event is selected.
        """
        number = self._selected()
        self._commented = None if number is None else (number, self._loaded_event(number))
        if number is None:
            return None
        # By number, as boards do not provide the event itself.
        return next((mark.comment for mark in self.marks.all() if mark.event == number), "")

    def comment(self, text: str) -> None:
        """Mark the event of `begin_comment`, with a comment."""
        if self._commented is not None:
            self._begin_marking(*self._commented, text)

    def clear(self) -> None:
        """Remove all marks; ask first if comments would be lost."""
        marks = self.marks.all()
        comments = sum(bool(mark.comment) for mark in marks)
        if not marks:
            self.frame.say("no event is marked", problem=True)
        elif comments:
            words = f"remove {many(len(marks), 'mark')} and {many(comments, 'comment')}?"
            self.ask(words, {"y": AnswerChoice("remove all", self._clear)})
        else:
            self._clear()

    def _clear(self) -> None:
        count = len(self.marks)
        self._queued.clear()
        self.marks.clear()
        self.changed()
        self.frame.say(f"removed {many(count, 'mark')}")
        begin(self.app, self._mark_and_save, GROUP)

    def compare(self) -> None:
        """Compare two marked events, or the only marked event and the selected one.

        If more are marked, compare the two of the selected container, or the newest events of
        exactly two containers.
        """
        begin_reading(self.app, self._compare, "compare")

    def _selected(self) -> int | None:
        number = self.views.current.selected_event_id
        if number is None:
            selected = getattr(self.views.current, "selected", None)
            words = "no event is selected"
            if isinstance(selected, Pod | Container):
                words = f"{safe(selected.name, _MAX_COLUMNS)}: {_NO_EVENT}"
            self.frame.say(words, problem=True)
        return number

    def _loaded_event(self, number: int) -> Event | None:
        """Return the event if its row has already been read."""
        row = self.views.events.selected_row if self.views.current is self.views.events else None
        return row.event if row is not None and row.event_id == number else None

    def _begin_marking(self, number: int, event: Event | None, comment: str | None) -> None:
        # Mark immediately if possible, in case the user quits now.
        if event is not None:
            self._mark(number, event, comment)
        else:
            self._queued.append((number, comment))
        # Pass the function, not a coroutine, which would never be awaited if the app is ending.
        _: Worker[None] = self.app.run_worker(self._mark_and_save, group=GROUP)

    async def _mark_and_save(self) -> None:
        async with self._saving:
            try:
                await self._mark_queued(self._mark)
            except NriScopeError as error:
                self.frame.show_trouble(error)
            await asyncio.to_thread(self.marks.save)
        if not self._report_notice() and not self.marks.is_kept:
            self.frame.say(LOST, problem=True)

    async def _mark_queued(self, mark: _MarkFunction) -> None:
        """Read and mark the queued events. On NriScopeError, discard them."""
        while self._queued:
            number, comment = self._queued[0]
            try:
                # In a separate thread: those of the store may be busy.
                event = await asyncio.to_thread(self._read, number)
            except NriScopeError:
                self._queued.clear()
                raise
            del self._queued[0]
            mark(number, event, comment)

    def _read(self, number: int) -> Event | None:
        with Recording.open(self.path) as recording:
            return recording.event(number)

    def _set(self, number: int, event: Event | None, comment: str | None) -> bool:
        """Set or toggle the mark; return whether the event is marked now."""
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
        which = f"event {number}{self._choice_note(number)}"
        self.frame.say(f"{which} is {'marked' if marked else 'no longer marked'}")

    def _choice_note(self, number: int) -> str:
        """Explain the choice of the event if the cursor is not on an event; else return ""."""
        # Imported late, like all boards.
        from ..containers.container_board import ContainerBoard

        current = self.views.current
        if not isinstance(current, ContainerBoard) or current.node is None or current.node.event:
            return ""
        if current.selected_event_id != number:
            return ""
        return f", the newest of this {'container' if current.node.container else 'pod'},"

    def _report_notice(self) -> bool:
        """Report a new notice about saving marks; return whether the notice has changed."""
        is_new = self.marks.notice != self._reported_notice
        self._reported_notice = self.marks.notice
        if is_new and self.marks.notice:
            self.frame.say(self.marks.notice, problem=True)
        return is_new

    def _pair(self, marked: list[Event], about: Container | None) -> list[Event]:
        """Choose two events to compare; return all if the choice is ambiguous."""
        if len(marked) <= 2:
            return marked
        own = [event for event in marked if about is not None and event.container_id == about.id]
        if len(own) == 2 and own[0].container_id:
            return own
        newest = {event.container_id: event for event in marked if event.container_id}
        return list(newest.values()) if len(newest) == 2 else marked

    async def _as_seen_last(self, event: Event) -> Event:
        """Return the event at the last connection, if the list has rows for operations."""
        numbers = self.views.events.view.events_of(event.id)
        if len(numbers) == 1:
            return event
        return await self.store.run(lambda recording: _last_alike(recording, event, numbers))

    async def _compare(self) -> None:
        selected = self.views.current.selected_event_id
        about: Container | None = None
        events = await self.marked()
        # Other marks, for example of pods, must not be in the way.
        events = [event for event in events if event.container_id] or events
        if selected is not None:
            at = selected
            about = await self.store.run(lambda recording: container_of_event(recording, at))
            if len(events) == 1 and events[0].id != at:
                other = await self.store.run(lambda recording: recording.event(at))
                events += [other] if other is not None else []
        marked = len(events)
        events = self._pair(events, about)
        if len(events) != 2:
            key = key_of("mark")
            have = f"{len(events):,} events are marked" if len(events) > 2 else "too few marks"
            rule = "compare needs two events, or the events of two containers"
            self.frame.say(f"{have}: {rule}; {key} marks and unmarks", problem=True)
            return
        bare = [str(event.id) for event in events if not event.container_id]
        if bare:
            words = f"compare needs events of containers, unlike {' and '.join(bare)}"
            self.frame.say(words, problem=True)
            return
        a, b = [await self._as_seen_last(event) for event in events]
        # Imported late, because importing the differ takes long.
        from ..detail.comparison import CompareScreen, of_events

        which = f": {a.id} and {b.id} of {marked:,} marked events" if marked > 2 else ""
        await self.app.push_screen(CompareScreen(of_events(self.store, a, b), f"compare{which}"))


def _last_alike(recording: Recording, event: Event, numbers: Sequence[int]) -> Event:
    """Return the last of these events with the same name as ``event``, which is one of them."""
    return [each for each in recording.events(among=numbers) if each.event == event.event][-1]


Chosen = Callable[[bool], object]
"""Called with whether the marked events are meant."""


@dataclass
class Chooser(KeyCommands):
    """Chooses the events of a command. Asks only if events are marked, but not the same ones."""

    marker: Marker
    ask: Callable[[str, Mapping[str, AnswerChoice]], None]

    async def marked_or_shown(self, chosen: Chosen) -> None:
        """Choose the marked events or all shown ones, which are the default if some are hidden."""
        count = await self.marker.count()
        if not count or self._are_all_shown():
            chosen(bool(count))
            return
        view = self.views.events.view
        shown = f"{view.events:,} shown{'' if view.complete else ' so far'}"
        words = f"{many(count, 'marked event')}, or {shown}?"
        self._ask(words, "shown", chosen, marked_first=not self.context.is_narrowed)

    async def marked_or_selected(self, chosen: Chosen) -> None:
        """Choose the marked events or the selected one."""
        count, selected = await self.marker.count(), self.views.current.selected_event_id
        if not count or selected is None:
            chosen(bool(count))
            return
        if self.marker.numbers() == [selected] or self._are_all_shown():
            chosen(True)
            return
        words = f"{many(count, 'marked event')}, or the selected event {selected}?"
        self._ask(words, "selected", chosen)

    def _ask(self, words: str, other: str, chosen: Chosen, *, marked_first: bool = True) -> None:
        choices = [
            ("m", AnswerChoice("marked", partial(chosen, True))),
            ("s", AnswerChoice(other, partial(chosen, False))),
        ]
        self.ask(words, dict(choices if marked_first else reversed(choices)))

    def _are_all_shown(self) -> bool:
        """Return whether exactly the marked events are shown."""
        view, numbers = self.views.events.view, self.marker.numbers()
        if not view.complete or view.events > len(numbers):
            return False
        shown = view.numbers_between(0, view.length)
        return list(shown) == sorted({view.number_of(number) for number in numbers})
