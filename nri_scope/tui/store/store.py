# SPDX-License-Identifier: Apache-2.0
"""A recording for the terminal interface, read in threads, with rows by position.

The event loop never reads the file. Event numbers, gaps and sessions are stored on the event loop,
to be available while drawing; threads only answer queries.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from nri_scope.events import Container, Pod, Session
from nri_scope.filter import Filter
from nri_scope.recording.query import event_search
from nri_scope.recording.query.event_pages import (
    Damage,
    MatchingEvents,
    NumberRuns,
    Question,
    matching,
)
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.finding import CommandStyle
from nri_scope.survey.foreground import ATTRIBUTED

from .event_grouping import EventGrouping
from .event_numbers import Grouped, GroupedEvents, NumberList, NumberRanges, RowEvents
from .markers import DamageMarker
from .reader_thread import LateReader, ReaderThread
from .recording_overview import (
    Analysis,
    EventDiscovery,
    Growth,
    RecordingNews,
    RecordingOverview,
    WalkEnded,
    facts_of,
)
from .rows import ListRow, RowPage
from .view import View

T = TypeVar("T")
Progress = Callable[[View, float], None]
"""Callback on the event loop, with the growing view and the share of the recording examined (0 to
1)."""
_AT_ONCE = 50_000
"""Maximum number of events to examine before the recording is shown; more are examined later."""
_GROUPED_AT_ONCE_S = 0.1
"""Maximum seconds to group events into operations before the recording is shown."""
_MIN_EVENT_BYTES = 16
"""Minimum size of an event in a file."""
_FilterStep: TypeAlias = "tuple[MatchingEvents | Damage, GroupedEvents | None, array[int] | None]"
"""Result of one step of a filter; for rows of operations, how events were grouped, and the first
event of each operation with a match."""


class Store:
    """An open recording, used on one event loop, on which views and facts change.

    Coroutines raise NriScopeError for errors of the file. Cancelling one soon ends its work in the
    thread.
    """

    def __init__(
        self,
        path: Path,
        pages: ReaderThread,
        discovery: EventDiscovery,
        news: RecordingNews,
        *,
        live: bool,
    ) -> None:
        """Create the store; use `open` instead."""
        self.path = path
        self.analysis = Analysis()
        """What a survey has found; replaced as a whole."""
        self.commands = CommandStyle.FILE
        """Commands that its reader has for the recording."""
        self._recorder_runs = True if live else None
        """Whether this program's recorder runs; None if another program records."""
        self._pages = pages
        self._others = LateReader(path)
        self._discovery = discovery
        """Used by the thread of ``pages`` only."""
        self._refreshing: asyncio.Task[Growth] | None = None
        self._walking: asyncio.Task[None] | None = None
        self._walked = False
        self._walk_found_events = False
        """Whether the walk has found events since the last refresh."""
        self._stopped: DamageMarker | None = None
        self._look, self._between, self._coverage = news.look, news.between, news.coverage
        self._runs = NumberRanges(max(1, news.look.oldest))
        self._views: WeakKeyDictionary[View, NumberList] = WeakKeyDictionary()
        """The filtered views, with their numbers."""
        self._outdated: WeakKeyDictionary[View, int] = WeakKeyDictionary()
        """Filtered views in which the events after one must be examined again."""
        self.all = View(self._runs)
        """The view of all events."""
        self.grouping = EventGrouping(self._runs)
        """The operations of all events."""
        self._grouping_all: asyncio.Task[None] | None = None
        self._shared: dict[object, object] = {}
        self.facts: RecordingOverview
        """Facts as of the last `refresh`."""
        self._assume()
        self._settle_all()

    @classmethod
    async def open(
        cls, path: Path, *, live: bool = False, commands: CommandStyle = CommandStyle.FILE
    ) -> Self:
        """Open a recording. ``live``: this program records it. ``commands``: see `Store`."""
        pages = ReaderThread(path)
        try:
            await pages.start()
            discovery = EventDiscovery()
            store = cls(path, pages, discovery, await pages.soon(discovery.first), live=live)
            store.commands = commands
            store._walking = asyncio.create_task(pages.steps(discovery.walk, store._walk_on))
            # Otherwise, the newest events are shown during the walk.
            if len(store._runs) <= _AT_ONCE:
                await store._walking
                if store._grouping_all is not None:
                    await asyncio.wait([store._grouping_all], timeout=_GROUPED_AT_ONCE_S)
                store._walk_found_events = False
        except BaseException:
            await pages.close()
            raise
        return store

    async def close(self) -> None:
        """End the threads and close the file, cancelling unfinished work."""
        tasks = (self._walking, self._grouping_all, self._refreshing)
        own = {task for task in tasks if task is not None}
        for task in own:
            task.cancel()
        await self._pages.close()
        await self._others.close()
        if own:
            await asyncio.wait(own)

    @property
    def sessions(self) -> Sequence[Session]:
        """The sessions as of the last `refresh`, oldest first."""
        return self._look.sessions

    # -- queries ----------------------------------------------------------------------------

    async def rows(self, view: View, start: int, count: int) -> Sequence[ListRow]:
        """Read ``count`` rows from ``start``; fewer if the view ends.

        Runs before all other work, the newest request first. Returns no rows if the request was
        dropped for newer ones.
        """
        entries = view.entries(start, count)
        if not entries:
            return ()
        page = RowPage(
            entries,
            {entry: view.events_of(entry) for entry in entries if isinstance(entry, int)},
            {entry for entry in entries if isinstance(entry, int) and view.is_open(entry)},
            view.event_before(start),
            self._look.first_ns,
            {session.id: session for session in self._look.sessions},
        )
        return await self._pages.urgent(page.read) or ()

    async def view(
        self,
        where: Filter | None = None,
        on_progress: Progress | None = None,
        *,
        about: Pod | Container | None = None,
        grouped: bool = False,
    ) -> View:
        """Return the view of rows that pass a filter, of one pod or container if ``about`` is set.

        ``grouped``: a row for each operation, of which at least one event passes. Returns after all
        events have been examined. Before that, ``on_progress`` receives the growing view, which can
        already be shown. Every view contains the gaps before a match; only the unfiltered view
        contains sessions.
        """
        if where is None and about is None:
            return self.grouping.view if grouped else self.all
        if grouped:
            await self.grouping.completed.wait()
        until = self.grouping.until(self._newest) if grouped else self._newest
        first = max(0, self._look.oldest - 1)
        operations = self.grouping.operations
        # Without them, rows are events, of which a filter selects single ones.
        groups = operations if grouped and operations.has_others else None
        ids = NumberList()
        view = View(ids, where=where, about=about, looked_at=first, groups=groups)
        view.stopped = self._stopped
        self._views[view] = ids
        question = Question(where, about)

        def steps(recording: Recording) -> Iterator[_FilterStep]:
            for found in matching(recording, question, first, until):
                grouped = None if groups is None else groups.grouped
                rows: array[int] | None = None
                if grouped is not None and isinstance(found, MatchingEvents):
                    # In the thread, as this takes 1 µs for each match.
                    rows = grouped.firsts_of(found.numbers)
                yield found, grouped, rows

        def add(step: _FilterStep) -> None:
            found, grouped, rows = step
            # The oldest events may have been removed meanwhile.
            is_valid = groups is not None and grouped is groups.grouped
            self._add(view, ids, found, rows if is_valid else None)
            if on_progress is not None and view.looked_at < until:
                on_progress(view, (view.looked_at - first) / (until - first))

        await self._pages.steps(steps, add)
        view.complete = True
        self._add(view, ids, MatchingEvents(array("q"), until))
        if on_progress is not None:
            on_progress(view, 1.0)
        return view

    async def find(
        self,
        view: View,
        text: str,
        start: int,
        forwards: bool = True,
        on_progress: Callable[[float], None] | None = None,
    ) -> int | None:
        """Return the position of the first row from ``start`` (inclusive) that contains ``text``.

        Searches names, ids, changes and texts of markers, ignoring case; returns None if there is
        no match up to the end. ``on_progress`` receives the share searched (0 to 1).
        """
        if not 0 <= start < view.length or not text:
            return None
        key = view.key_at(start)
        # Markers are few: search them here.
        hits = view.markers_with(text, key, forwards=forwards)

        def steps(recording: Recording) -> Iterator[event_search.SearchStep]:
            if rows is not None:
                return event_search.among_some(
                    recording, text, rows.rows, rows.of, forwards=forwards
                )
            return event_search.among_all(recording, text, first, last, forwards=forwards)

        def collect(step: event_search.SearchStep) -> None:
            if step.found is not None:
                hits.append(view.key_of(step.found))
            if on_progress is not None:
                on_progress(step.share)

        rows: RowEvents | None = None
        first, last = key.event, self._newest if forwards else max(1, self._look.oldest)
        if not view.is_everything:
            rows = view.row_events(*((start, view.length) if forwards else (0, start + 1)))
        elif not forwards and key.is_event == 1:
            first = view.events_of(key.event)[-1]
        await self._pages.steps(steps, collect)
        if not hits:
            return None
        return view.before(min(hits) if forwards else max(hits))

    async def run(self, work: Callable[[Recording], T]) -> T:
        """Run other reading work (details, blame, a tree) in order, in a second thread.

        Raises RecordingError after `close`.
        """
        return await self._others.soon(work)

    def shared(self, kind: type[T]) -> T:
        """Return the object of a class that all views of this recording share."""
        return cast(T, self._shared.setdefault(kind, kind()))

    async def attach(self, path: Path) -> None:
        """Read changes and problems of events from an attribution file, too (`Recording.attach`).

        Filters and searches see the new values from then on; views with a filter must be created
        anew. After the file has grown, call `outdate`, and this again for the counts of all events.
        """
        await self._pages.soon(lambda recording: recording.attach(path))
        await self._others.attach(path)

    def outdate(self, after: int) -> None:
        """Let the next `refresh` apply filters on changes and problems again to events after one.

        Call it if the attached file contains other values of these events than before.
        """
        for view in self._views:
            if view.where is not None and view.where.fields & ATTRIBUTED:
                self._outdate(view, view.number_of(after + 1) - 1)

    def _outdate(self, view: View, after: int) -> None:
        self._outdated[view] = min(after, self._outdated.get(view, after))

    # -- growth -----------------------------------------------------------------------------

    def end_recording(self) -> None:
        """Note that this program's recorder has ended, so that the recording grows no longer."""
        self._recorder_runs = False
        self._settle_all()

    async def refresh(self) -> Growth:
        """Read new data and update all views. Cheap if there is none.

        Raises RecordingError, also if the file was deleted, moved or replaced.
        """
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())
        # Shielded: a cancellation of the caller must not lose the result.
        return await asyncio.shield(self._refreshing)

    async def _refresh(self) -> Growth:
        views = [view for view in self._views if view.complete and view.stopped is None]
        outdated = {each: self._outdated.pop(each) for each in views if each in self._outdated}
        questions = [
            (Question(each.where, each.about), outdated.get(each, each.looked_at)) for each in views
        ]
        news: RecordingNews | None = None

        def read(recording: Recording) -> tuple[RecordingNews | None, list[Grouped]]:
            found = self._discovery.news(recording, questions)
            return found, self.grouping.group_new(recording, self._discovery.last)

        try:
            news, grouped = await self._pages.soon(read)
        finally:
            for view, after in outdated.items() if news is None else ():
                self._outdate(view, after)
        moved, self._walk_found_events = self._walk_found_events, False
        if news is None:
            if grouped:
                self.grouping.add(grouped)
                self._settle_all(regrouped=True)
            return Growth(moved=moved or bool(grouped), regrouped=self.grouping.take_regrouped())
        removed, revision, between = self._trim(news), self.all.revision, self._between
        before = len(self._runs)
        self._look, self._between, self._coverage = news.look, news.between, news.coverage
        self._assume()
        moved_assumed = self._runs.add_runs(news.runs)
        if news.damage is not None:
            self._stop(news.damage)
        moved_groups = self.grouping.add(grouped)
        for view, found in zip(views, news.matches, strict=True):
            if view in outdated:
                self._views[view].cut(outdated[view])
            self._add(view, self._views[view], found, moved=view in outdated)
        self._settle_all(moved=removed or moved_assumed, regrouped=moved_groups)
        return Growth(
            regrouped=self.grouping.take_regrouped(),
            events=max(0, len(self._runs) - before),
            removed=removed,
            between=between != self._between,
            moved=moved or bool(outdated) or (not removed and self.all.revision != revision),
        )

    # -- results of the thread -----------------------------------------------------------

    @property
    def _newest(self) -> int:
        """Number of the newest event that can be read."""
        return self._runs.last if self._walked else max(self._look.newest, self._runs.last)

    def _assume(self) -> None:
        """Until all events have been read, assume that their numbers have no holes."""
        newest, oldest = self._look.newest, self._look.oldest
        # In a forged file, numbers are arbitrary: the file size bounds the assumption.
        if not self._walked and newest - oldest < self._look.size // _MIN_EVENT_BYTES:
            self._runs.assume(newest)

    def _walk_on(self, step: NumberRuns | Damage | WalkEnded) -> None:
        self._walk_found_events = True
        match step:
            case NumberRuns(runs):
                moved = self._runs.add_runs(runs)
            case Damage():
                moved = True
                self._stop(step)
            case WalkEnded():
                moved = self._runs.settle()
                self._walked = self.all.complete = True
                self._grouping_all = asyncio.create_task(self._group_all())
        self._settle_all(moved=moved)

    async def _group_all(self) -> None:
        await self.grouping.group_all(self._pages, self._group_on)
        self._walk_found_events = True

    def _group_on(self, grouped: Grouped) -> None:
        self._walk_found_events = True
        self._settle_all(regrouped=self.grouping.operations.add(grouped))

    def _trim(self, news: RecordingNews) -> bool:
        """Drop rows that were removed from the recording; return whether events were dropped."""
        oldest = news.look.oldest
        if oldest <= self._look.oldest:
            return False
        removed = self._runs.trim(oldest)
        first = self.grouping.operations.trim(oldest)
        for view, ids in self._views.items():
            # The rest of an operation has another first event now.
            had_first = view.groups is not None and first is not None and ids.has(first[0])
            if ids.trim(oldest):
                if had_first and first is not None:
                    ids.add(first[1])
                view.settle(self._between, moved=True)
        return removed

    def _stop(self, damage: Damage) -> None:
        self._stopped = DamageMarker.behind(damage.after, damage.words)
        self._runs.settle()
        for view in (self.all, self.grouping.view, *self._views):
            view.stopped = view.stopped or self._stopped

    def _add(
        self,
        view: View,
        ids: NumberList,
        matches: MatchingEvents | Damage,
        rows: array[int] | None = None,
        *,
        moved: bool = False,
    ) -> None:
        """Add matches to a view.

        ``rows``: the first events of their operations, if known. ``moved``: whether existing rows
        have moved.
        """
        if isinstance(matches, Damage):
            view.stopped = DamageMarker.behind(matches.after, matches.words)
            view.looked_at = matches.after
        else:
            if rows is None and view.groups is not None:
                rows = view.groups.grouped.firsts_of(matches.numbers)
            moved |= ids.extend(matches.numbers if rows is None else rows)
            view.looked_at = max(view.looked_at, matches.looked_at)
        view.settle(self._between, moved=moved)

    @property
    def grouping_words(self) -> str:
        """Why not all events are grouped into operations, or how many are; "" if all are."""
        return self.grouping.words(self._look.oldest, self._newest)

    def _settle_all(self, *, moved: bool = False, regrouped: bool = False) -> None:
        """Update all views and facts.

        ``moved``, ``regrouped``: rows of the view of all events, or operations, have moved.
        """
        for each, has_moved in ((self.all, moved), (self.grouping.view, moved or regrouped)):
            each.looked_at = self._newest
            each.settle(self._between, moved=has_moved)
        for view in self._views:
            view.settle(self._between)
        damage = self._stopped.words if self._stopped is not None else ""
        facts = facts_of(
            self.path,
            self._look,
            events=len(self._runs),
            damage=damage,
            recorder_runs=self._recorder_runs,
        )
        self.facts = replace(facts, coverage=self._coverage)
