# SPDX-License-Identifier: Apache-2.0
"""Go to the next or previous event with a problem or a change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from textual.app import App

from nri_scope.recording.event_search import events_with

from ..frame import Frame
from ..store.store import Store
from ..views import Views
from ..widgets.messages import begin_reading

GROUP = "jump"
_BATCH = 1_000
"""Number of events that one query returns."""
_NAMES = {"problem": "failed or slow event", "changed": "event with a change"}


@dataclass
class Jumper:
    """Commands that go to an event in the list of events, from every view."""

    app: App[Any]
    frame: Frame
    views: Views
    store: Store

    def go(self, column: str, *, forwards: bool) -> None:
        """Go to the next or previous event with a value in ``column``: problem or changed."""
        number = self.views.current.selected_event_id
        if number is None:
            number = 0 if forwards else self.store.all.looked_at + 1
        begin_reading(self.app, partial(self._go, column, number, forwards), GROUP)

    async def _go(self, column: str, number: int, forwards: bool) -> None:
        while True:
            found = await self.store.run(
                partial(events_with, column=column, after=number, most=_BATCH, forwards=forwards)
            )
            for each in found:
                # A filter may hide any number of events.
                if self.views.show_event(each):
                    return
            if len(found) < _BATCH:
                break
            number = found[-1]
        where = "later" if forwards else "earlier"
        analysis = self.store.analysis
        more = "" if analysis.passes or analysis.share is None else f"; {analysis.words}"
        self.frame.say(f"no {where} {_NAMES[column]} in this list{more}")
