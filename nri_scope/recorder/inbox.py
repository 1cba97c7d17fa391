# SPDX-License-Identifier: Apache-2.0
"""The queue between the event loop and the writer thread."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace

from nri_scope.events import CapturedCall, SessionStart

ITEM_BYTES = 600
"""Approximate memory of a queued item in addition to its payloads."""
SETTLE_SECONDS = 1.0
"""Seconds without an event after which lost ones are reported."""
TOO_FAST = "events came faster than they could be written"


@dataclass(frozen=True, slots=True)
class Begin:
    """A session began."""

    session: int
    start: SessionStart


@dataclass(frozen=True, slots=True)
class Resume:
    """A session continues after its recorder was killed, which lost the unwritten events."""

    session: int
    start: SessionStart
    received: int
    """Number of its events given to the killed recorder, or reported to it as lost."""
    confirmed: int
    """How many of them, from the first on, that recorder reported as written or filtered out."""
    to_ns: int
    """Time of the last of them."""
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """A session ended."""

    session: int
    reason: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class GapEntry:
    """A gap; ``dropped`` counts received events of this session that were not kept."""

    session: int | None
    from_ns: int
    to_ns: int
    reason: str
    lost: int | None
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class NoteEntry:
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


ControlEntry = Begin | Resume | End | GapEntry | NoteEntry | PluginLine
"""Queue entries other than events."""
Entry = tuple[int, CapturedCall] | ControlEntry


class Inbox:
    """A bounded queue from a thread that never waits to another, which sleeps when idle.

    There is no lock: each counter is changed by one thread only, and both ends of a deque are safe.
    """

    def __init__(self, limit_bytes: int, reason: str = TOO_FAST) -> None:
        self._limit = limit_bytes
        # Once full, the queue must shrink to this size before events are accepted again: one long
        # gap instead of a thousand short ones.
        self._low = limit_bytes * 3 // 4
        self._entries: deque[Entry] = deque()
        self._put_bytes = 0
        self._done_bytes = 0
        self._full = False
        self._gaps: dict[int, GapEntry] = {}
        self._asleep = False
        self._bell = threading.Lock()
        self._bell.acquire()
        self.lost = 0
        """Total number of events that did not fit."""
        self.bytes_on_wire = 0
        """Payload bytes received, queued or not."""
        self.reason = reason
        """The reason why events are being lost, if they are."""

    # -- the producer's side ----------------------------------------------------------------

    def put(self, session: int, item: CapturedCall) -> None:
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

    def put_control(self, entry: ControlEntry) -> None:
        """Queue an entry other than an event. Only notes and lines of plugins can be refused."""
        if isinstance(entry, NoteEntry | PluginLine):
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
        """Queue the gaps of events that were lost."""
        # One by one, as the writer may do the same concurrently (see `settle`).
        while self._gaps:
            try:
                _, gap = self._gaps.popitem()
            except KeyError:
                return
            self._put_bytes += ITEM_BYTES
            self._entries.append(gap)

    @property
    def events_waiting(self) -> int:
        """Number of events in the queue."""
        return sum(type(entry) is tuple for entry in list(self._entries))

    def shut(self) -> None:
        """Count every event from now on as lost."""
        self._limit = self._low = -1

    def _lose(self, session: int, item: CapturedCall) -> None:
        self.lost += 1
        gap = self._gaps.get(session)
        if gap is None:
            at = item.wall_ns
            self._gaps[session] = GapEntry(session, at, at, self.reason, 1, 1)
        else:
            self._gaps[session] = replace(
                gap, to_ns=item.wall_ns, lost=gap.dropped + 1, dropped=gap.dropped + 1
            )

    def ring(self) -> None:
        """Wake the writer."""
        self._asleep = False
        try:
            self._bell.release()
        except RuntimeError:
            # It has just been released.
            pass

    # -- the writer's side ------------------------------------------------------------------

    def sleep(self, timeout: float) -> None:
        """Wait until the bell is rung, or for this many seconds; forever if negative."""
        self._bell.acquire(timeout=timeout)

    def settle(self) -> None:
        """Queue older gaps that no later event has queued.

        Waits for a second. If an event is lost meanwhile, the producer is still counting: nothing
        is queued.
        """
        if self._gaps:
            lost = self.lost
            self.sleep_while_empty(SETTLE_SECONDS)
            if not self._entries and self.lost == lost:
                self.flush_gaps()

    def sleep_while_empty(self, timeout: float) -> None:
        """Wait as `sleep`, but only while the queue is empty."""
        # In this order: either this thread sees a new entry, or the producer sees it asleep.
        self._asleep = True
        if not self._entries:
            self._bell.acquire(timeout=timeout)
        self._asleep = False

    def take(self, items: int, size: int) -> list[Entry]:
        """Take the oldest entries: at most this many, with at most ``size`` bytes of requests."""
        taken: list[Entry] = []
        while self._entries and len(taken) < items and size > 0:
            entry = self._entries.popleft()
            taken.append(entry)
            if type(entry) is tuple:
                size -= len(entry[1].request)
        return taken

    def done(self, entries: list[Entry]) -> None:
        """Subtract the entries, taken earlier, from the memory in use."""
        size = ITEM_BYTES * len(entries)
        for entry in entries:
            if type(entry) is tuple:
                size += len(entry[1].request) + len(entry[1].reply)
            elif type(entry) is PluginLine:
                size += len(entry.text)
        self._done_bytes += size

    def __len__(self) -> int:
        return len(self._entries)
