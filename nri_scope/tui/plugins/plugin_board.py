# SPDX-License-Identifier: Apache-2.0
"""The chain of plugins in call order: calls, times against the deadline, errors, changes."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from nri_scope.recorder.filter.tree import quote
from nri_scope.tui.actions import bindings
from nri_scope.tui.keymap import Scope
from nri_scope.tui.plugins.call_counts import CallCounts, call_counts_of
from nri_scope.tui.plugins.chain import FIELDS, Place, place_line, place_words, places
from nri_scope.tui.text.styled_line import StyledLine, line
from nri_scope.tui.widgets.messages import SetFilter
from nri_scope.tui.widgets.table_board import TableBoard

_REST = 10
"""So many times as long as it took to sort all times, they are not sorted again."""


class PluginBoard(TableBoard[Place]):
    """The chain. Enter shows the events of a plugin connection, or what a plugin changed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.PLUGINS, of_lines=False)
    FIELDS = FIELDS

    def on_mount(self) -> None:
        """Nothing is known yet. `TableBoard.on_mount` is called, too."""
        self._tally: CallCounts | None = None
        self._counted = -1
        self._again_at = 0.0

    def entry_line(self, entry: Place) -> StyledLine:
        """Return a place."""
        return place_line(entry, self.grid)

    def key_of(self, entry: Place) -> Hashable:
        """Which place it is."""
        return entry.what, entry.name, entry.between

    async def work(self) -> None:
        """Count what is new; the times are sorted anew, though not all the time."""
        tally = self._wanted_tally()
        if tally is not self._tally:
            self._tally, self._counted, self._again_at = tally, -1, 0.0
            self.refresh_words()
        if await self._count(tally):
            return
        known = tally.newest + len(tally.sessions)
        if known == self._counted:
            return
        if time.monotonic() < self._again_at:
            self.set_timer(max(0.1, self._again_at - time.monotonic()), self.update)
            return
        began = time.monotonic()
        found = await self.store.run(lambda _: places(tally))
        now = time.monotonic()
        self._again_at = now + _REST * (now - began)
        self._counted = known
        self.show_entries(found, self._empty())

    def _wanted_tally(self) -> CallCounts:
        return call_counts_of(self.store, self.context.shown(), self.context.about)

    async def _count(self, tally: CallCounts) -> bool:
        """Read on; True where it has to be done anew."""
        while await self.store.run(tally.step):
            if self._wanted_tally() is not tally:
                await self.update()
                return True
            self.say_reading(self.part_of(min(tally.newest, tally.in_rounds or tally.newest)))
        if tally.outdated:
            await self.update()
        elif not self.store.facts.growing:
            tally.finish()
        return tally.outdated

    def _empty(self) -> str:
        if self._tally is not None and self._tally.is_narrowed:
            return "none of the events that are shown came to a plugin"
        if self.store.facts.growing:
            return "no plugin connection yet: the first one comes when the runtime configures it"
        return "there is no plugin connection in this recording"

    @property
    def selected_event_id(self) -> int | None:
        """The first event of the newest session of a connection."""
        return (self.entry.first_event or None) if self.entry is not None else None

    def words(self) -> Sequence[StyledLine]:
        """Return what the place is; and what is not shown here."""
        note = line(self.counted_words())
        return (line(place_words(self.entry)), note) if self.entry is not None else (note,)

    def open_line(self) -> None:
        """Show the events of a connection, or what a plugin changed."""
        place = self.entry
        if place is not None and (place.first_event or place.changes):
            field = "plugin" if place.first_event else "owner"
            self.post_message(SetFilter(f"{field}:{quote(place.name)}"))
