# SPDX-License-Identifier: Apache-2.0
"""The chain of plugins in call order: calls, times against the deadline, errors, changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from nri_scope.recorder.filter.tree import quote
from nri_scope.tui.actions import bindings
from nri_scope.tui.keymap import Scope
from nri_scope.tui.plugins.call_counts import Tally, tally_of
from nri_scope.tui.plugins.chain import FIELDS, Place, place_line, place_words, places
from nri_scope.tui.text.styled_line import Line, line
from nri_scope.tui.text.table_grid import Grid
from nri_scope.tui.widgets.board import Board, BoardLines
from nri_scope.tui.widgets.lines import Lines
from nri_scope.tui.widgets.messages import SetFilter

_REST = 10
"""So many times as long as it took to sort all times, they are not sorted again."""


class ChainLines(BoardLines, inherit_bindings=False):
    """The places of the chain."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.PLUGINS)


class Chain(Board):
    """The chain. Enter shows the events of a plugin connection, or what a plugin changed."""

    FOOT_LINES: ClassVar[int] = 2

    def make_body(self) -> ChainLines:
        """With a cursor."""
        return ChainLines(cursor=True)

    def on_mount(self) -> None:
        """Nothing is known yet."""
        self.places: tuple[Place, ...] = ()
        self.grid = Grid.of(FIELDS, 80)
        self._tally: Tally | None = None
        self._counted = -1
        self._again_at = 0.0

    @property
    def line_count(self) -> int:
        """One of each."""
        return len(self.places)

    def line_at(self, index: int) -> Line | None:
        """All of them are known."""
        return place_line(self.places[index], self.grid)

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
        self.places = await self.store.run(lambda _: places(tally))
        now = time.monotonic()
        self._again_at = now + _REST * (now - began)
        self._counted = known
        self._say_empty()
        self.body.changed()
        self.refresh_words()

    def _wanted_tally(self) -> Tally:
        return tally_of(self.store, self.context.shown(), self.context.about)

    async def _count(self, tally: Tally) -> bool:
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

    def _say_empty(self) -> None:
        if self._tally is not None and self._tally.is_narrowed:
            self.body.empty = "none of the events that are shown came to a plugin"
            return
        growing = self.store.facts.growing
        self.body.empty = (
            "no plugin connection yet: the first one comes when the runtime configures it"
            if growing
            else "there is no plugin connection in this recording"
        )

    def resized(self) -> None:
        """Other columns."""
        self.grid = Grid.of(FIELDS, self.room)
        self.head.show((self.grid.head(),))

    @property
    def place(self) -> Place | None:
        """What the cursor is on."""
        return self.places[self.body.cursor] if self.body.cursor < len(self.places) else None

    @property
    def selected_event_id(self) -> int | None:
        """The first event of the newest session of a connection."""
        return (self.place.first_event or None) if self.place is not None else None

    def words(self) -> Sequence[Line]:
        """What the place is; and what is not shown here."""
        place = self.place
        note = line(self.counted_words())
        return (line(place_words(place)), note) if place is not None else (note,)

    def on_lines_opened(self, message: Lines.Opened) -> None:
        """Enter: the events of a connection, or what a plugin changed."""
        message.stop()
        place = self.place
        if place is None:
            return
        if place.first_event:
            self.post_message(SetFilter(f"plugin:{quote(place.name)}"))
        elif place.changes:
            self.post_message(SetFilter(f"owner:{quote(place.name)}"))
