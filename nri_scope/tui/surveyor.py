# SPDX-License-Identifier: Apache-2.0
"""Keep the findings, and the changes and problems of all events, up to date.

The survey runs in a process of its own; this module never reads the recording.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from textual.app import App

from nri_scope.errors import NriScopeError
from nri_scope.survey.process import SurveyProcess, SurveyState

from .store.store import Store
from .textual_workarounds import begin

SHOW_S = 2.0
"""Seconds until the views show results of an unfinished pass; doubled with each update, as views
and filters then read the recording again."""
PAUSE_FACTOR = 10
"""Minimum time until the whole recording is analysed again, as a multiple of the time that it took.
"""
_MOST_S = 0.25
"""Processor time for the events of a pass after the first one, while new events arrive."""
_MOST_WHILE_QUIET_S = 1.0
"""Processor time for the events of a pass while none arrive."""
_QUIET_S = 1.0
"""Seconds without growth after which the rest of the recording is analysed without pauses."""
_GROWTH_FACTOR = 15
"""Minimum pause before new events are analysed, as a multiple of the time that the last ones took:
with `_MOST_S`, this limits the share of a processor to spare the node, like `polling.SHARE`.
"""
_LEAST_PAUSE_S = 1.0
_RETRY_S = 5.0
"""Pause before events are analysed again whose round was still open."""
_COUNT_S = 50e-6
"""Minimum pause, for each event, before changes and problems are counted again: ten times the time
that this takes."""


@dataclass
class Surveyor:
    """Surveys the recording, and its new events after it has grown."""

    app: App[Any]
    store: Store
    on_analysis: Callable[[], None]
    """Callback after a change of `Store.analysis`."""
    on_events: Callable[[int | None, bool], None]
    """Callback after changes and problems of events have changed: those after an event, or all
    (None); True: the results are complete."""
    _process: SurveyProcess | None = None
    _state: SurveyState = field(default_factory=SurveyState)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    file: Path | None = None
    """The attached file."""
    _until: int = 0
    """Event up to which the views show results."""
    _counted_until: int = 0
    """Event up to which the results were counted."""
    _next_count_s: float = 0.0
    _next_restart_s: float = 0.0
    _grown: tuple[int, bool] = (0, False)
    _grown_s: float = 0.0
    """When the recording was last seen to grow, to the extent `_grown`."""

    def begin(self, after: asyncio.Event) -> None:
        """Start the survey in the background once ``after`` is set."""
        self._show(share=0.0)
        begin(self.app, partial(self._work, after), "survey")

    def close(self) -> None:
        """End the survey."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _receive(self, state: SurveyState) -> None:
        self._state = state
        self._news.set()

    async def _work(self, after: asyncio.Event) -> None:
        await after.wait()
        try:
            self._process = SurveyProcess(self.store.path, self._receive)
        except NriScopeError as error:
            self._show(share=0.0, problem=str(error))
            return
        try:
            while await self._survey():
                pass
        except NriScopeError as error:
            self._show(problem=str(error))

    async def _survey(self) -> bool:
        """Analyse new events, and wait for more; return False if some cannot be read."""
        assert self._process is not None
        file, known, began = self.file, self._extent, monotonic()
        most_s: float | None = _MOST_WHILE_QUIET_S if self._is_quiet() else _MOST_S
        if not self.store.analysis.passes:
            most_s = None
        self._process.run(may_restart=began >= self._next_restart_s, most_s=most_s)
        if not await self._follow_pass():
            return False
        now, pause_s = monotonic(), 0.0
        if file == self.file:
            pause_s = _GROWTH_FACTOR * (now - began)
        elif file is not None:
            self._next_restart_s = now + PAUSE_FACTOR * (now - began)
        waited_s = 0.0
        while waited_s < max(_LEAST_PAUSE_S, pause_s) or (
            self._extent == known
            and (self.store.all.looked_at <= self._until or waited_s < _RETRY_S)
        ):
            if self._state.has_more and self._is_quiet():
                break
            await asyncio.sleep(_LEAST_PAUSE_S)
            waited_s += _LEAST_PAUSE_S
            self._show_behind()
            await self._count()
        return True

    def _is_quiet(self) -> bool:
        """Return whether the recording has not grown for some time."""
        if self._extent != self._grown:
            self._grown, self._grown_s = self._extent, monotonic()
        return monotonic() - self._grown_s >= _QUIET_S

    @property
    def _extent(self) -> tuple[int, bool]:
        return self.store.all.looked_at, self.store.facts.growing

    async def _follow_pass(self) -> bool:
        """Show the results for the new events; return False if some cannot be read."""
        wait_s, shown_s = SHOW_S, monotonic()
        while True:
            await self._news.wait()
            self._news.clear()
            state = self._state
            # A former file is complete, so it is used until the next one is, too.
            is_due = not self.store.analysis.passes and monotonic() > shown_s + wait_s
            if state.file is not None and (state.is_over or is_due):
                wait_s, shown_s = 2 * wait_s, monotonic()
                await self._show_events(state)
            if not state.is_over:
                self._show(share=state.share)
                continue
            if state.file is None:
                self._show(problem=state.problem)
            else:
                passes = self.store.analysis.passes + 1
                self._show(passes=passes, findings=state.findings, problem=state.problem)
            return not state.problem

    async def _show_events(self, state: SurveyState) -> None:
        """Show the results for events."""
        assert state.file is not None
        before, self._until = self._until, state.until
        self._show_behind()
        if state.file != self.file or not self.store.analysis.passes:
            await self._attach(state.file)
            self.on_events(None, state.is_over)
        elif before != self._until:
            self.on_events(before, state.is_over)
            await self._count()

    async def _count(self) -> None:
        """Let the views count the new results, at most a tenth of the time."""
        is_due = self._counted_until < self._until and monotonic() >= self._next_count_s
        if self.file is not None and is_due:
            await self._attach(self.file)

    async def _attach(self, file: Path) -> None:
        self.file, self._counted_until = file, self._until
        self._next_count_s = monotonic() + max(SHOW_S, _COUNT_S * self.store.all.looked_at)
        await self.store.attach(file)

    def _show_behind(self) -> None:
        # A ring may have removed events before they were analysed.
        behind = min(max(0, self.store.all.looked_at - self._until), self.store.all.events)
        if behind != self.store.analysis.behind:
            self._show(behind=behind)

    def _show(self, **changes: Any) -> None:
        self.store.analysis = replace(self.store.analysis, **changes)
        self.on_analysis()
