# SPDX-License-Identifier: Apache-2.0
"""The grouping of a recording's events into operations: of all events, then of new ones."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from nri_scope.errors import RecordingError
from nri_scope.events import ASIDE, SET_UP, SetUps
from nri_scope.recording.query.event_pages import of_methods, validations
from nri_scope.recording.query.log_rows import sessions_overlap
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.escape import safe

from .event_numbers import Grouped, NumberRanges, Operations
from .reader_thread import ReaderThread
from .view import View

if TYPE_CHECKING:
    # Imported late, because importing the differ takes long.
    from nri_scope.differ.operations import Grouping

_STEP = 1_000
"""Number of events of several connections in one step, which takes about 10 ms."""
_MAX_ID = (1 << 63) - 1
_LONG_STEP = 20_000
"""Number of events of a single connection in one step."""
_STEPS = 20
"""Maximum steps of grouping per refresh."""


class Grouper:
    """Reader that groups a recording's events, also while it grows. Not thread-safe."""

    def __init__(self) -> None:
        self.newest = 0
        """Number of the newest grouped event."""
        self._set_ups = SetUps()
        """Those of a single connection."""
        self._grouping: Grouping | None = None
        """None while no two connections have existed at the same time."""

    def steps(self, recording: Recording, until: int = _MAX_ID) -> Iterator[Grouped]:
        """Group all new events up to ``until``, in steps of milliseconds. Raises RecordingError."""
        is_restart = False
        if self._grouping is not None:
            self._grouping.update(recording)
        elif sessions_overlap(session for session in recording.sessions() if session.is_connection):
            is_restart = self.newest > 0
            self.newest = 0
            from nri_scope.differ.operations import Grouping

            self._grouping = Grouping(recording)
        while (grouped := self._step(recording, until)).newest > self.newest:
            self.newest = grouped.newest
            yield grouped._replace(is_restart=is_restart)
            is_restart = False

    def _step(self, recording: Recording, until: int) -> Grouped:
        rest, firsts = array("q"), array("q")
        joins: list[int] = []
        newest = self.newest
        if self._grouping is None:
            newest, pairs = validations(recording, newest, until, _LONG_STEP, sorted(ASIDE))
            for number, session in of_methods(recording, self.newest, newest, sorted(SET_UP)):
                first = self._set_ups.first_of(number, session)
                if first != number:
                    pairs.append((number, first))
                    joins.append(first)
            for number, first in sorted(pairs):
                rest.append(number)
                firsts.append(first)
            return Grouped(rest, firsts, newest, joins)
        for event in islice(recording.events(after_id=newest), _STEP):
            if event.id > until:
                break
            first, newest = self._grouping.first_of(event), event.id
            if first != newest:
                joins += [first] if event.method in SET_UP else []
                rest.append(newest)
                firsts.append(first)
        return Grouped(rest, firsts, newest, joins)


class EventGrouping:
    """The operations of a recording's events, and how far they are known."""

    def __init__(self, runs: NumberRanges) -> None:
        """Create it for these events, which are grouped from the call of `group_all` on."""
        self.operations = Operations(runs)
        self.view = View(self.operations, groups=self.operations)
        """The view of all operations."""
        self.failure = ""
        """Why not all events could be grouped into operations; "" if they could."""
        self.completed = asyncio.Event()
        """Set while all known events are grouped, or cannot be."""
        self._runs = runs
        self._grouper: Grouper | None = None
        """Used by the thread of recordings only; None until all events have been read."""
        self._is_regrouped = False
        self._has_first = False
        """Whether the first events are grouped, so that new ones may follow."""

    async def group_all(self, pages: ReaderThread, on_grouped: Callable[[Grouped], None]) -> None:
        """Group all events into operations, or set why that is impossible."""
        self._grouper = grouper = Grouper()
        try:
            while (until := self._runs.last) > grouper.newest:
                before = grouper.newest
                await pages.steps(partial(grouper.steps, until=until), on_grouped)
                if grouper.newest == before:
                    break
        except RecordingError as error:
            self.failure = error.problem
        self._has_first = True
        self._complete(is_over=True)

    def group_new(self, recording: Recording, last: int) -> list[Grouped]:
        """Return the groups of new events up to `last`; not yet all of them if there are many."""
        grouper = self._grouper
        if grouper is None or not self._has_first or self.failure or grouper.newest >= last:
            return []
        try:
            # If all events must be grouped anew, this goes on in the next refresh.
            return list(islice(grouper.steps(recording, last), _STEPS))
        except RecordingError as error:
            self.failure = error.problem
            return []

    def add(self, grouped: Sequence[Grouped]) -> bool:
        """Add the operations of new events; return whether existing rows have moved."""
        had_others = self.operations.has_others
        moved = [self.operations.add(each) for each in grouped]
        self._is_regrouped |= any(each.is_restart for each in grouped)
        self._is_regrouped |= had_others != self.operations.has_others
        self._complete(is_over=self.operations.newest >= self._runs.last or bool(self.failure))
        return any(moved)

    def take_regrouped(self) -> bool:
        """Return whether since the last call all operations became others, or the first one had
        several events, so that views of them must be created anew.
        """
        regrouped, self._is_regrouped = self._is_regrouped, False
        return regrouped

    def _complete(self, *, is_over: bool) -> None:
        self.view.complete = is_over
        if is_over:
            self.completed.set()
        else:
            self.completed.clear()

    def until(self, newest: int) -> int:
        """Return the number of the last event of `newest` and before that can be grouped now."""
        return newest if self.failure else min(newest, self.operations.newest)

    def words(self, oldest: int, newest: int) -> str:
        """Return why these events are not all grouped, or how many are; "" if all are."""
        if self.failure:
            return f"not all events are grouped: {safe(self.failure)}"
        share = max(0, self.operations.newest - oldest) / max(1, newest - oldest)
        is_over = self.view.complete or share >= 1
        return "" if is_over else f"grouping events into operations: {share:.0%}"
