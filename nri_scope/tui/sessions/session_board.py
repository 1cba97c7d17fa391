# SPDX-License-Identifier: Apache-2.0
"""Runtimes, plugin connections and reconnects, why they ended, and gaps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import ClassVar

from textual.binding import BindingType

from nri_scope.recorder.model import Gap
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.subject_queries import event_from
from nri_scope.tui.actions import bindings
from nri_scope.tui.keymap import Scope
from nri_scope.tui.plugins.call_counts import CallCounts, call_counts_of
from nri_scope.tui.sessions.session_lines import (
    FIELDS,
    Connection,
    Entry,
    Runtime,
    connection_words,
    end_words,
    entries,
    entry_line,
    gap_words,
)
from nri_scope.tui.text.styled_line import StyledLine, line
from nri_scope.tui.widgets.messages import OpenEvent, Said
from nri_scope.tui.widgets.table_board import TableBoard


class SessionBoard(TableBoard[Entry]):
    """Sessions, with the gaps between. Enter goes to the first event of one, or behind a gap."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.SESSIONS, of_lines=False)
    FIELDS = FIELDS

    def entry_line(self, entry: Entry) -> StyledLine:
        """Return a runtime, a session or a gap."""
        return entry_line(entry, self.grid, self.now_ns, growing=self.store.facts.growing)

    def key_of(self, entry: Entry) -> Hashable:
        """Which it is."""
        match entry:
            case Runtime():
                return entry
            case Gap():
                return "gap", entry.id
            case Connection():
                return "session", entry.session.id

    async def work(self) -> None:
        """Read sessions and gaps, then count the events of each."""
        tally = self._wanted_tally()
        more = True
        while more:
            more = await self.store.run(tally.count_step)
            if tally.outdated or self._wanted_tally() is not tally:
                await self.update()
                return
            gaps = await self.store.run(lambda recording: recording.gaps())
            narrowed = tally.is_narrowed
            found = entries(tally.sessions, gaps, tally.counts, counted_only=narrowed)
            self.show_entries(found, self._empty())
            self.say_reading(self.part_of(tally.newest) if more else "")

    def _wanted_tally(self) -> CallCounts:
        return call_counts_of(self.store, self.context.shown(), self.context.about)

    def _empty(self) -> str:
        if self.context.is_narrowed:
            return "no session has an event that is shown"
        if self.store.facts.growing:
            return "no session yet: one begins when a runtime accepts the plugin connection"
        return "there is no session in this recording"

    @property
    def selected_event_id(self) -> int | None:
        """The first event of a session."""
        entry = self.entry
        return (entry.counts.first_event or None) if isinstance(entry, Connection) else None

    def words(self) -> Sequence[StyledLine]:
        """Return what a line has no room for."""
        counted = self.counted_words()
        note = line(counted) if counted else ()
        match self.entry:
            case Connection() as entry:
                end = end_words(entry, growing=self.store.facts.growing)
                return (end,), note or line(connection_words(entry))
            case Gap() as gap:
                return line(gap_words(gap)), note
        return note, ()

    def open_line(self) -> None:
        """Go there in the list of events."""
        entry = self.entry
        if isinstance(entry, Gap):
            self.begin("after", partial(self._open_after, entry.from_ns))
        elif isinstance(entry, Connection):
            number = entry.counts.first_event
            if number:
                self.post_message(OpenEvent(number))
            else:
                self.post_message(Said("this session has no event"))

    async def _open_after(self, at_ns: int) -> None:
        where, about = self.context.shown(), self.context.about

        def find(recording: Recording) -> int | None:
            return event_from(recording, at_ns, where, about)

        number = await self.store.run(find)
        if number is None:
            self.post_message(Said("no event that is shown came after this gap"))
        else:
            self.post_message(OpenEvent(number))
