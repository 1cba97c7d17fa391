# SPDX-License-Identifier: Apache-2.0
"""Count the events that an extract omits: between its events, and as holes with times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.entries import Omitted
from nri_scope.events import LEFT_OUT, Gap
from nri_scope.recording.file.sqlite_text import int64
from nri_scope.recording.reading.entries import IncludedRows
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.row_pages import pages

MAX_LISTED = 256
"""Maximum number of holes, each of which becomes a row of ``gap``; neighbours are joined."""


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

    closed: list[Hole] = field(default_factory=list)
    count: int = 0
    _open: Hole | None = None

    def leave_out(self, at_ns: int) -> None:
        """Add the next omitted event to the open hole."""
        self.count += 1
        hole = Hole(at_ns, at_ns, 1)
        if self._open is not None:
            hole.add(self._open)
        self._open = hole

    def keep(self) -> None:
        """Close the open hole, as the next event is copied or does not exist."""
        if self._open is None:
            return
        self.closed.append(self._open)
        self._open = None
        if len(self.closed) == 2 * MAX_LISTED:
            self._halve()

    def finish(self) -> None:
        """Close the last hole, and join neighbours if there are too many."""
        self.keep()
        if len(self.closed) > MAX_LISTED:
            self._halve()

    def gaps(self) -> Iterator[Gap]:
        """Yield a gap for each hole, after `finish`."""
        for hole in self.closed:
            yield Gap(0, None, hole.from_ns, hole.to_ns, LEFT_OUT, hole.count)

    def _halve(self) -> None:
        for first, second in zip(self.closed[::2], self.closed[1::2], strict=False):
            first.add(second)
        self.closed = self.closed[::2]


class OmittedEvents:
    """Reader of the events of the original that a part lacks, in one pass beside the part."""

    def __init__(self, source: Recording, part: IncludedRows) -> None:
        """Prepare the pass. Raises RecordingError."""
        self.holes = Holes()
        is_part = bool(source.rows("SELECT 1 FROM left_out LIMIT 1"))
        self._rows = _all_events(source, part) if part.kept is not None or is_part else iter(())
        self._pending: dict[int, Omitted] = {}
        """By session: the events omitted since its last copied event."""

    def advance_to(self, event: int) -> Omitted | None:
        """Read up to a copied event; return the events of its session omitted since the last copy.

        Call this for each copied event in order. Raises RecordingError.
        """
        for number, session, seq, at_ns, earlier_seq, earlier in self._rows:
            newest, count = self._pending.pop(session, Omitted(0, 0))
            if earlier:
                # The original is itself an extract.
                newest, count = earlier_seq, count + earlier
            if number == event:
                self.holes.keep()
                return Omitted(newest, int64(count)) if count else None
            self.holes.leave_out(at_ns)
            self._pending[session] = Omitted(seq, count + 1)
        return None

    def finish(self) -> None:
        """Read the events after the last copied one, up to the end of the part."""
        # No event has this number.
        self.advance_to(0)
        self.holes.finish()


def _all_events(source: Recording, part: IncludedRows) -> Iterator[tuple[int, ...]]:
    query = (
        "SELECT e.id, e.session, e.seq, e.at_ns, coalesce(l.seq, 0), coalesce(l.count, 0) "
        "FROM event AS e LEFT JOIN left_out AS l ON l.event = e.id "
        "WHERE e.id > ? ORDER BY e.id LIMIT ?"
    )
    for page in pages(source, query, until=part.until):
        for row in page:
            if (row[0] or 0) > part.until:
                return
            yield tuple(number or 0 for number in row)
