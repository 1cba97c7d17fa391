# SPDX-License-Identifier: Apache-2.0
"""Ask whether a command means the marked events or others, if these differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from nri_scope.recording.display import many

from ..store.context import Context
from ..views import Views
from ..widgets.filter_bar import Choice
from .mark import Marker

Chosen = Callable[[bool], object]
"""Called with whether the marked events are meant."""


@dataclass
class Chooser:
    """Chooses the events of a command. Asks only if events are marked, but not the same ones."""

    views: Views
    marker: Marker
    ask: Callable[[str, Mapping[str, Choice]], None]
    context: Context

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
            ("m", Choice("marked", partial(chosen, True))),
            ("s", Choice(other, partial(chosen, False))),
        ]
        self.ask(words, dict(choices if marked_first else reversed(choices)))

    def _are_all_shown(self) -> bool:
        """Return whether exactly the marked events are shown."""
        view, numbers = self.views.events.view, self.marker.numbers()
        if not view.complete or view.events > len(numbers):
            return False
        shown = view.numbers_between(0, view.length)
        return list(shown) == sorted({view.number_of(number) for number in numbers})
