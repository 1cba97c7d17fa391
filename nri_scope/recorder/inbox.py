# SPDX-License-Identifier: Apache-2.0
"""The queue between the event loop and the writer thread."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace

from nri_scope.events import Captured, SessionStart

ITEM_BYTES = 600
"""What a queued item takes beside its payloads, roughly."""
SETTLE_SECONDS = 1.0
"""After so long without an event, those that were lost are told."""
TOO_FAST = "events came faster than they could be written"


@dataclass(frozen=True, slots=True)
class Begin:
    """A session began."""

    session: int
    start: SessionStart


@dataclass(frozen=True, slots=True)
class Resumed:
    """A session goes on whose recorder was killed; what that had not written is lost."""

    session: int
    start: SessionStart
    came: int
    """Events that it was given in this session, or was told to be lost."""
    known: int
    """Of how many of them, the first ones, it has told that they are in the file or left out."""
    to_ns: int
    """When the last of them came."""
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """A session ended."""

    session: int
    reason: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A gap; ``ours`` are events of this session that did come, but were not kept."""

    session: int | None
    from_ns: int
    to_ns: int
    reason: str
    lost: int | None
    ours: int = 0


@dataclass(frozen=True, slots=True)
class Remark:
    """A note."""

    session: int | None
    at_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class PluginLine:
    """A line that a plugin printed."""

    session: int
    at_ns: int
    stream: str
    text: str


Told = Begin | Resumed | End | Missed | Remark | PluginLine
"""What is no event."""
Entry = tuple[int, Captured] | Told


class Inbox:
    """A bounded queue from one thread, which never waits, to another, which sleeps when idle.

    There is no lock: each counter has one thread that changes it, and deque's two ends are safe.
    """

    def __init__(self, limit_bytes: int, reason: str = TOO_FAST) -> None:
        self._limit = limit_bytes
        # Once full, so much has to go before anything is accepted again: one long gap instead of
        # a thousand short ones.
        self._low = limit_bytes * 3 // 4
        self._entries: deque[Entry] = deque()
        self._put_bytes = 0
        self._done_bytes = 0
        self._full = False
        self._gaps: dict[int, Missed] = {}
        self._asleep = False
        self._bell = threading.Lock()
        self._bell.acquire()
        self.lost = 0
        """Events that did not fit, all told."""
        self.bytes_on_wire = 0
        """Payloads that came, fit or not."""
        self.reason = reason
        """Why events are being lost, if they are."""

    # -- the producer's side ----------------------------------------------------------------

    def put(self, session: int, item: Captured) -> None:
        """Queue an event, or count it as lost."""
        size = len(item.request) + len(item.reply)
        self.bytes_on_wire += size
        waiting = self._put_bytes - self._done_bytes
        if self._full or waiting + size > self._limit:
            if not self._full or waiting > self._low:
                self._full = True
                self._lose(session, item)
                return
            self._full = False
        if self._gaps:
            self.flush_gaps()
        self._put_bytes += size + ITEM_BYTES
        self._entries.append((session, item))
        if self._asleep:
            self.ring()

    def tell(self, entry: Told) -> None:
        """Queue what is no event. Of these only notes and lines can be refused."""
        if isinstance(entry, Remark | PluginLine):
            if self._full or self._put_bytes - self._done_bytes > self._limit:
                return
        elif self._gaps:
            self.flush_gaps()
        self._put_bytes += ITEM_BYTES
        if type(entry) is PluginLine:
            self._put_bytes += len(entry.text)
        self._entries.append(entry)
        if self._asleep:
            self.ring()

    def flush_gaps(self) -> None:
        """Queue what is known of the events that were lost."""
        # One by one, as the writer may do the same (see `settle`).
        while self._gaps:
            try:
                _, gap = self._gaps.popitem()
            except KeyError:
                return
            self._put_bytes += ITEM_BYTES
            self._entries.append(gap)

    @property
    def events_waiting(self) -> int:
        """Events in the queue."""
        return sum(type(entry) is tuple for entry in list(self._entries))

    def shut(self) -> None:
        """Count every event from now on as lost."""
        self._limit = self._low = -1

    def _lose(self, session: int, item: Captured) -> None:
        self.lost += 1
        gap = self._gaps.get(session)
        if gap is None:
            at = item.wall_ns
            self._gaps[session] = Missed(session, at, at, self.reason, 1, 1)
        else:
            self._gaps[session] = replace(
                gap, to_ns=item.wall_ns, lost=gap.ours + 1, ours=gap.ours + 1
            )

    def ring(self) -> None:
        """Wake the writer."""
        self._asleep = False
        try:
            self._bell.release()
        except RuntimeError:
            # It was rung a moment ago.
            pass

    # -- the writer's side ------------------------------------------------------------------

    def sleep(self, timeout: float) -> None:
        """Wait until the bell is rung, or so many seconds; for ever if negative."""
        self._bell.acquire(timeout=timeout)

    def settle(self) -> None:
        """Queue what was lost some time ago, where no event came since that would have done it.

        Takes a second, in which nothing may be lost: the producer is not counting then.
        """
        if self._gaps:
            lost = self.lost
            self.sleep_while_empty(SETTLE_SECONDS)
            if not self._entries and self.lost == lost:
                self.flush_gaps()

    def sleep_while_empty(self, timeout: float) -> None:
        """The same, but only if nothing is queued."""
        # In this order: either we see what was just put, or the producer sees that we sleep.
        self._asleep = True
        if not self._entries:
            self._bell.acquire(timeout=timeout)
        self._asleep = False

    def take(self, items: int, size: int) -> list[Entry]:
        """Take the oldest entries: at most so many, and at most so many bytes of requests."""
        taken: list[Entry] = []
        while self._entries and len(taken) < items and size > 0:
            entry = self._entries.popleft()
            taken.append(entry)
            if type(entry) is tuple:
                size -= len(entry[1].request)
        return taken

    def done(self, entries: list[Entry]) -> None:
        """What was taken does not take memory any more."""
        size = ITEM_BYTES * len(entries)
        for entry in entries:
            if type(entry) is tuple:
                size += len(entry[1].request) + len(entry[1].reply)
            elif type(entry) is PluginLine:
                size += len(entry.text)
        self._done_bytes += size

    def __len__(self) -> int:
        return len(self._entries)
