# SPDX-License-Identifier: Apache-2.0
"""Poll the recording, and update the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic, process_time
from typing import Any, Protocol

from textual.app import App

from nri_scope.errors import NriScopeError
from nri_scope.recording.query.subject_queries import completion_values
from nri_scope.text.escape import safe

from .frame import Frame
from .store.store import Store
from .terminal import is_gone
from .textual_workarounds import begin
from .views import Views
from .widgets.filter_bar import FilterBar
from .widgets.messages import begin_reading

POLL_SECONDS = 0.1
"""Seconds between polls; a poll without new events is cheap."""
MAX_POLL_SECONDS = 0.5
"""Maximum seconds between polls, if drawing many new events exceeds `SHARE`."""
SHARE = 0.08
"""Maximum share of one processor for polling and drawing, to spare the node."""
BOARD_SECONDS = 0.5
"""Minimum seconds between updates of a view other than the list of events."""


class OwnRecorderStatus(Protocol):
    """Status of this program's recorder."""

    @property
    def status_text(self) -> str:
        """The newest message of the recorder."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the recorder has ended."""
        ...

    @property
    def interruption(self) -> str:
        """Why no events arrive at present; "" if they do."""
        ...


@dataclass
class Poller:
    """Updates the screen when the recording changes."""

    app: App[Any]
    frame: Frame
    views: Views
    store: Store
    bar: FilterBar
    recorder: OwnRecorderStatus | None
    """This program's recorder; None if it records nothing."""
    regrouped: Callable[[], object] = lambda: None
    """Callback after all operations have become others."""
    _updated: float = 0.0

    def begin(self) -> None:
        """Start polling, until the app ends."""
        begin(self.app, self._poll, "polling")
        self.read_values()

    def read_values(self) -> None:
        """Read the values for completion of filters in the background."""
        begin_reading(self.app, self._read_values, "values")

    def hurry(self) -> None:
        """Update the current view with the next poll."""
        self._updated = 0.0

    async def _poll(self) -> None:
        worked = process_time()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            # The processor time includes drawing after the previous poll.
            before, worked = worked, process_time()
            interval = (worked - before) / SHARE
            await asyncio.sleep(min(interval, MAX_POLL_SECONDS) - POLL_SECONDS)
            if not self.app.is_headless and is_gone():
                # Not every terminal sends SIGHUP when it disappears; Textual would then read end of
                # file in a busy loop.
                self.app.exit()
                return
            await self._update()

    async def _update(self) -> None:
        if self.recorder is not None:
            text, ended = self.recorder.status_text, self.recorder.ended
            interruption, work = self.recorder.interruption, self.frame.work
            if interruption != work.interruption:
                self.frame.say(safe(interruption or "connected again"), problem=bool(interruption))
            if ended and not work.recorder_ended:
                self.store.end_recording()
            shown = replace(work, recorder=text, recorder_ended=ended, interruption=interruption)
            if shown != work:
                self.frame.show_work(shown)
        try:
            growth = await self.store.refresh()
            if growth:
                await self.views.events.read_ahead()
        except NriScopeError as error:
            self.frame.show_trouble(error)
            return
        self.frame.trouble = ""
        if growth.regrouped:
            self.regrouped()
        if growth:
            self.views.events.grow(between=growth.between)
            self.views.detail.recording_grown()
        now = monotonic()
        if now - self._updated > BOARD_SECONDS:
            self._updated = now
            await self.views.update()
        self.frame.show_facts()

    async def _read_values(self) -> None:
        self.bar.values = await self.store.run(completion_values)
