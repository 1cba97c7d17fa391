# SPDX-License-Identifier: Apache-2.0
"""A recording as a log: once, or again and again while it is written."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from itertools import chain

from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Event, Gap
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.ring import REASON
from nri_scope.recorder.source import explained
from nri_scope.recorder.timeline import Item, Timeline

_SETTLED_NS = 1_000_000_000
"""An event is in the file a good deal sooner than this."""


class Log:
    """Reads what is new each time: events that pass, and what happened between them.

    Gaps are shown whatever ``where`` says: what was lost could have passed.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        where: Filter | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        last: int | None = None,
    ) -> None:
        """``since_ns`` is included, ``until_ns`` is not; ``last`` counts for the first reading."""
        self._recording = recording
        self._where = where
        self._since_ns = since_ns
        self._until_ns = until_ns
        self._last = last
        self._timeline = Timeline()
        self._after_id = 0
        self._seen_ns: int | None = None
        """Up to then everything has been read; None before the first reading."""
        self._state: tuple[int, int] | None = None

    def has_news(self) -> bool:
        """Whether anything was written since this was asked last; costs microseconds."""
        connection = self._recording.connection
        try:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise explained(self._recording.path, error) from error
        # Each connection counts for itself, and the recording may have opened another one.
        state = (id(connection), int(version))
        news = state != self._state
        self._state = state
        return news

    def read(self) -> Iterator[Item]:
        """What is new, oldest first. Raises RecordingError."""
        now_ns = time.time_ns()
        newest = self._recording.last_id()
        gaps = self._gaps()
        events: Iterable[Event] = self._recording.events(
            where=self._where,
            since_ns=self._since_ns,
            until_ns=None if self._until_ns is None else self._until_ns - 1,
            after_id=self._after_id,
            last=self._last,
        )
        if self._last is not None:
            self._last = None
            events, gaps = _from_first(iter(events), gaps)
        for item in self._timeline.merge(events, self._recording.sessions(), gaps, self._until_ns):
            if isinstance(item, Event):
                self._after_id = item.id
            yield item
        self._after_id = max(self._after_id, newest)
        self._seen_ns = now_ns - _SETTLED_NS

    def _gaps(self) -> list[Gap]:
        since_ns = self._since_ns or 0
        return [
            gap
            for gap in self._recording.gaps()
            if gap.to_ns >= since_ns
            and (self._until_ns is None or gap.from_ns < self._until_ns)
            # What the ring removed in the meantime has been shown.
            and (self._seen_ns is None or gap.reason != REASON or gap.to_ns > self._seen_ns)
        ]


def _from_first(events: Iterator[Event], gaps: list[Gap]) -> tuple[Iterable[Event], list[Gap]]:
    """``events``, and those of ``gaps`` that are not over when the first of them happens."""
    first = next(events, None)
    if first is None:
        return (), []
    return chain((first,), events), [gap for gap in gaps if gap.to_ns >= first.at_ns]
