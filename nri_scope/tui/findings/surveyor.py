# SPDX-License-Identifier: Apache-2.0
"""Keep the findings, and the changes and problems of all events, up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from textual.app import App

from nri_scope.errors import NriScopeError
from nri_scope.survey.process import SurveyProcess, SurveyState

from ..store.store import Store
from ..textual_workarounds import begin

SHOW_S = 2.0
"""Seconds until the views show results of an unfinished pass; doubled with each update, as views
and filters then read the recording again."""
PAUSE_FACTOR = 10
"""Pause before the next pass over a growing recording, as a multiple of the last one's time."""
_LEAST_PAUSE_S = 1.0


@dataclass
class Surveyor:
    """Surveys the recording, again after it has grown."""

    app: App[Any]
    store: Store
    on_analysis: Callable[[], None]
    """Callback after a change of `Store.analysis`."""
    on_events: Callable[[bool], None]
    """Callback after changes and problems of events have changed; True: the pass has ended."""
    _process: SurveyProcess | None = None
    _state: SurveyState = field(default_factory=SurveyState)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        """Start the survey in the background."""
        begin(self.app, self._work, "survey")

    def close(self) -> None:
        """End the survey."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _receive(self, state: SurveyState) -> None:
        self._state = state
        self._news.set()

    async def _work(self) -> None:
        try:
            self._process = SurveyProcess(self.store.path, self._receive)
        except NriScopeError as error:
            self._show(share=0.0, problem=str(error))
            return
        self._show(share=0.0)
        complete = True
        while complete:
            began = monotonic()
            self._process.run()
            complete = await self._follow_pass()
            await asyncio.sleep(max(_LEAST_PAUSE_S, PAUSE_FACTOR * (monotonic() - began)))
            while complete and self.store.all.looked_at <= self._state.until:
                await asyncio.sleep(_LEAST_PAUSE_S)

    async def _follow_pass(self) -> bool:
        """Show the results of one pass; return False if it did not read all events."""
        wait_s, shown_s = SHOW_S, monotonic()
        while True:
            await self._news.wait()
            self._news.clear()
            state = self._state
            # The file of an earlier pass is complete, so it is used until the next one is, too.
            is_due = not self.store.analysis.passes and monotonic() > shown_s + wait_s
            if state.file is not None and (state.is_over or is_due):
                wait_s, shown_s = 2 * wait_s, monotonic()
                try:
                    await self.store.attach(state.file)
                except NriScopeError as error:
                    self._show(problem=str(error))
                    return False
                self.on_events(state.is_over)
            if not state.is_over:
                self._show(share=state.share)
                continue
            if state.file is None:
                self._show(problem=state.problem)
            else:
                passes = self.store.analysis.passes + 1
                self._show(passes=passes, findings=state.findings, problem=state.problem)
            return not state.problem

    def _show(self, **changes: Any) -> None:
        self.store.analysis = replace(self.store.analysis, **changes)
        self.on_analysis()
