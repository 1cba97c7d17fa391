# SPDX-License-Identifier: Apache-2.0
"""Go to an event by its number or time, or to the next one with a problem or a change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from nri_scope.errors import UsageError
from nri_scope.filter.moments import Moment, event_or_moment
from nri_scope.recording.query.event_pages import first_event_at
from nri_scope.recording.query.event_search import events_with
from nri_scope.recording.query.event_times import span_words
from nri_scope.recording.query.lookup import event_range
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.escape import safe

from ..store.markers import RowKey
from ..views import EVENTS
from ..widgets.messages import begin_reading
from . import KeyCommands

GROUP = "jump"
_BATCH = 1_000
"""Number of events that one query returns."""
_MAX_COLUMNS = 40
"""Maximum columns of a typed text."""
_NAMES = {"problem": "failed or slow event", "changed": "event with a change"}


@dataclass
class Jumper(KeyCommands):
    """Commands that go to an event in the list of events, from every view."""

    def go(self, column: str, *, forwards: bool) -> None:
        """Go to the next or previous event with a value in ``column``: problem or changed.

        Without a selected event, start at the cursor of the list of events.
        """
        number = self.views.current.selected_event_id
        if number is None:
            key = self.views.events.listing.selected or RowKey.of_event(0)
            # The key of a row between events has the number of the following event.
            number = key.event - (forwards and not key.is_event)
        begin_reading(self.app, partial(self._go, column, number, forwards), GROUP)

    def go_to(self, text: str) -> None:
        """Go to the event with a number, or at a time or later, in the list of events.

        In the timeline, a time moves its cursor.
        """
        if not text.strip():
            return
        try:
            place = event_or_moment(text, self.store.facts.span)
        except UsageError as error:
            self.frame.say(str(error), problem=True)
            return
        # Imported late, like all boards.
        from ..timeline.timeline_board import TimelineBoard

        words, timeline = safe(text.strip(), _MAX_COLUMNS), self.views.current
        if isinstance(place, int) or not isinstance(timeline, TimelineBoard):
            self.open_from(place, words)
        elif not timeline.go_to(place.at_ns):
            self.report_problem(f"{words} is outside the timeline; {self._range_words}")

    def open_from(self, place: int | Moment, words: str) -> None:
        """Go to the event with a number, or at a time or later, in the list of events.

        ``words``: the time, for messages.
        """
        begin_reading(self.app, partial(self._open_from, place, words), GROUP)

    async def _open_from(self, place: int | Moment, text: str) -> None:
        first, newest = await self.store.run(event_range)
        if isinstance(place, int) and not first <= place <= newest:
            known_events = f"events {first} to {newest}" if newest else "no events"
            self.report_problem(f"there is no event {place}; the recording has {known_events}")
            return
        number = await self.store.run(partial(_number_of, place=place))
        view = self.views.events.view
        shown = view.event_from(number) if number is not None else None
        if number is None:
            self.report_problem(f"there is no event at {text} or later; {self._range_words}")
        elif shown is None:
            more = "" if view.complete else " so far"
            self.report_problem(f"this list has no event from event {number} on{more}")
        else:
            self.views.show_event(shown)
            if shown != number:
                self.frame.say(f"event {number} is not in this list; event {shown} is the next one")

    @property
    def _range_words(self) -> str:
        return span_words(self.store.facts.span)

    async def _go(self, column: str, number: int, forwards: bool) -> None:
        while True:
            events = await self.store.run(
                partial(events_with, column=column, after=number, most=_BATCH, forwards=forwards)
            )
            for event in events:
                # A filter may hide any number of events.
                if self.views.goes_on(event, forwards=forwards):
                    self.views.show(EVENTS)
                    return
            if len(events) < _BATCH:
                break
            number = events[-1]
        where = "later" if forwards else "earlier"
        missing = self.store.analysis.missing
        more = missing and f"; {missing}"
        self.frame.say(f"no {where} {_NAMES[column]} in this list{more}")


def _number_of(recording: Recording, *, place: int | Moment) -> int | None:
    """Return the number of the event, or of the first one at a time or later; None if later than
    all.
    """
    first, newest = event_range(recording)
    if isinstance(place, Moment):
        place = first_event_at(recording, place.at_ns, first, newest)
    return place if place <= newest else None
