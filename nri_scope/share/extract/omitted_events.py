# SPDX-License-Identifier: Apache-2.0
"""Find the events of the original that are not copied to the new recording."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nri_scope.recording.reader import Recording
from nri_scope.recording.sqlite_errors import recording_has_table
from nri_scope.recording.sqlite_text import int64

from .row_pages import pages

MAX_LISTED = 256
"""Maximum number of holes, each of which becomes a row of ``gap``; neighbours are joined."""
_INSERT = "INSERT INTO left_out (event, seq, count) VALUES (?, ?, ?)"


@dataclass(slots=True)
class Hole:
    """Consecutive omitted events. A hole joined from two may span copied events."""

    from_ns: int
    """Wall clock time of the first omitted event."""
    to_ns: int
    count: int

    def add(self, other: Hole) -> None:
        """Extend this hole by another one."""
        self.from_ns = min(self.from_ns, other.from_ns)
        self.to_ns = max(self.to_ns, other.to_ns)
        self.count += other.count


@dataclass(slots=True)
class Holes:
    """The omitted events, summarized as at most `MAX_LISTED` holes."""

    found: list[Hole] = field(default_factory=list)
    count: int = 0
    _open: Hole | None = None

    def leave_out(self, at_ns: int) -> None:
        """Add the next omitted event to the open hole."""
        self.count += 1
        if self._open is None:
            self._open = Hole(at_ns, at_ns, 1)
        else:
            self._open.add(Hole(at_ns, at_ns, 1))

    def keep(self) -> None:
        """Close the open hole, as the next event is copied or does not exist."""
        if self._open is None:
            return
        self.found.append(self._open)
        self._open = None
        if len(self.found) == 2 * MAX_LISTED:
            self._halve()

    def finish(self) -> None:
        """Close the last hole, and join neighbours if there are too many."""
        self.keep()
        if len(self.found) > MAX_LISTED:
            self._halve()

    def _halve(self) -> None:
        for first, second in zip(self.found[::2], self.found[1::2], strict=False):
            first.add(second)
        self.found = self.found[::2]


def find_holes(
    source: Recording,
    connection: sqlite3.Connection,
    kept: Sequence[int] | None,
    until: int,
    on_progress: Callable[[float], None],
) -> Holes:
    """Fill the table ``left_out`` of the new recording; return the holes.

    ``kept`` are the ascending numbers of copied events; None: all. Raises RecordingError and
    sqlite3.Error.
    """
    holes = Holes()
    is_part = recording_has_table(source, "left_out") and bool(
        source.rows("SELECT 1 FROM left_out LIMIT 1")
    )
    if kept is None and not is_part:
        return holes
    place = 0
    pending: dict[int, tuple[int, int]] = {}
    """By session: the number of omitted events since its last copied event, and the position of the
    newest omitted event."""
    for page in _pages(source, until, is_part=is_part):
        made: list[tuple[int, int, int]] = []
        for event, session, seq, at_ns, before_seq, before in page:
            count, newest = pending.pop(session, (0, 0))
            if before:
                # The original is itself an extract.
                count, newest = count + before, before_seq
            if kept is None or (place < len(kept) and kept[place] == event):
                place += 1
                holes.keep()
                if count:
                    made.append((event, newest, int64(count)))
            else:
                holes.leave_out(at_ns)
                pending[session] = (count + 1, seq)
        connection.executemany(_INSERT, made)
        if page:
            on_progress(page[-1][0] / max(until, 1))
    holes.finish()
    return holes


def _pages(source: Recording, until: int, *, is_part: bool) -> Iterator[list[tuple[int, ...]]]:
    before = "coalesce(l.seq, 0), coalesce(l.count, 0)" if is_part else "0, 0"
    joined = "LEFT JOIN left_out AS l ON l.event = e.id" if is_part else ""
    query = (
        f"SELECT e.id, e.session, e.seq, e.at_ns, {before} FROM event AS e {joined} "
        "WHERE e.id <= ? AND e.id > ? ORDER BY e.id LIMIT ?"
    )
    for page in pages(source, query, until, until=until):
        yield [tuple(number or 0 for number in row) for row in page]
