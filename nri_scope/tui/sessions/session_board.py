# SPDX-License-Identifier: Apache-2.0
"""Runtimes, plugin connections and reconnects, why they ended, and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.binding import BindingType

from nri_scope.errors import NriScopeError
from nri_scope.recorder.model import Gap
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.subject_queries import event_from
from nri_scope.tui.actions import bindings
from nri_scope.tui.keymap import Scope
from nri_scope.tui.plugins.call_counts import Tally, tally_of
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
from nri_scope.tui.text.styled_line import Line, line
from nri_scope.tui.text.table_grid import Grid
from nri_scope.tui.widgets.board import Board, BoardLines
from nri_scope.tui.widgets.lines import Lines
from nri_scope.tui.widgets.messages import Failed, OpenEvent, Said


class SessionLines(BoardLines, inherit_bindings=False):
    """The lines of the sessions."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.SESSIONS)


class Sessions(Board):
    """Sessions, with the gaps between. Enter goes to the first event of one, or behind a gap."""

    FOOT_LINES: ClassVar[int] = 2

    def make_body(self) -> SessionLines:
        """With a cursor."""
        return SessionLines(cursor=True)

    def on_mount(self) -> None:
        """Nothing is known yet."""
        self.entries: tuple[Entry, ...] = ()
        self.grid = Grid.of(FIELDS, 80)

    @property
    def line_count(self) -> int:
        """One of each."""
        return len(self.entries)

    def line_at(self, index: int) -> Line | None:
        """All of them are known."""
        return entry_line(
            self.entries[index], self.grid, self.now_ns, growing=self.store.facts.growing
        )

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
            self._show(entries(tally.sessions, gaps, tally.counts, counted_only=narrowed))
            self.say_reading(self.part_of(tally.newest) if more else "")

    def _wanted_tally(self) -> Tally:
        return tally_of(self.store, self.context.shown(), self.context.about)

    def _show(self, found: tuple[Entry, ...]) -> None:
        at = self.entry
        self.entries = found
        growing = self.store.facts.growing
        self.body.empty = (
            "no session has an event that is shown"
            if self.context.is_narrowed
            else "no session yet: one begins when a runtime accepts the plugin connection"
            if growing
            else "there is no session in this recording"
        )
        self.body.changed()
        if at is not None and at != self.entry:
            keys = [_key(entry) for entry in found]
            if _key(at) in keys:
                self.body.go_to(keys.index(_key(at)))
        self.refresh_words()

    def resized(self) -> None:
        """Other columns."""
        self.grid = Grid.of(FIELDS, self.room)
        self.head.show((self.grid.head(),))

    @property
    def entry(self) -> Entry | None:
        """What the cursor is on."""
        return self.entries[self.body.cursor] if self.body.cursor < len(self.entries) else None

    @property
    def selected_event_id(self) -> int | None:
        """The first event of a session."""
        entry = self.entry
        return (entry.counts.first_event or None) if isinstance(entry, Connection) else None

    def words(self) -> Sequence[Line]:
        """What a line has no room for."""
        counted = self.counted_words()
        note = line(counted) if counted else ()
        match self.entry:
            case Connection() as entry:
                end = end_words(entry, growing=self.store.facts.growing)
                return (end,), note or line(connection_words(entry))
            case Gap() as gap:
                return line(gap_words(gap)), note
        return note, ()

    def on_lines_opened(self, message: Lines.Opened) -> None:
        """Enter: go there in the list of events."""
        message.stop()
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

        try:
            number = await self.store.run(find)
        except NriScopeError as error:
            self.post_message(Failed(error))
            return
        if number is None:
            self.post_message(Said("no event that is shown came after this gap"))
        else:
            self.post_message(OpenEvent(number))


def _key(entry: Entry) -> tuple[str, object]:
    match entry:
        case Runtime():
            return "runtime", entry
        case Gap():
            return "gap", entry.id
        case Connection():
            return "session", entry.session.id
