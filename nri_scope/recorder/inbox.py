# SPDX-License-Identifier: Apache-2.0
"""What a recorder is given, its queue for the writer thread, and counts of what became of it."""

from __future__ import annotations

import marshal
import pickle
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import NamedTuple, Protocol

from nri_scope.entries import CallsByMetrics
from nri_scope.events import EVENT_TEXTS, CapturedCall, Gap, Note, Printed, SessionStart
from nri_scope.text.quantities import many


class Sink:
    """Receiver of sessions, their exchanges and other entries.

    Recorders of live traffic neither block nor raise, as an event loop calls them;
    `CompleteRecording` does both.
    """

    def begin_session(self, start: SessionStart) -> int:
        """Begin a session; return its number in this sink."""
        raise NotImplementedError

    def capture(self, session: int, item: CapturedCall) -> None:
        """Record an exchange of a session."""
        raise NotImplementedError

    def put_control(self, entry: ControlEntry) -> None:
        """Queue or add an entry with the session numbers of this sink."""
        raise NotImplementedError

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        """Record that the session's connection is closed."""
        self.put_control(End(session, reason, at_ns))

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None:
        """Record an interval that was not observed. ``lost``: number of lost events; None if
        unknown.
        """
        self.put_control(Gap(0, session, from_ns, to_ns, reason, lost))

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        """Record a note."""
        self.put_control(Note(0, session, at_ns, text))

    def printed(self, session: int, at_ns: int, stream: str, text: str) -> None:
        """Record a line printed by a plugin. A full queue drops it without counting it."""
        self.put_control(Printed(0, session, at_ns, stream, text))


class EntryRedaction(Protocol):
    """Redaction of all data before a recorder writes it; called in the writer thread."""

    def redact_call(self, call: CapturedCall) -> CapturedCall: ...
    def redact_entry(self, entry: ControlEntry) -> ControlEntry: ...


ITEM_BYTES = 600
"""Approximate memory of a queued item in addition to its payloads."""
SETTLE_SECONDS = 1.0
"""Seconds without an event after which pending gaps are queued."""
TOO_FAST = "events came faster than they could be written"


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin of a session."""

    session: int
    start: SessionStart
    synced_ns: int | None = None
    """Of a copied session: arrival of its newest Synchronize, whose event may not be copied."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Continuation of a session whose recorder was killed, with its unwritten events."""

    session: int
    start: SessionStart
    received: int
    """Number of the session's events sent to the killed recorder, including those reported to it as
    lost.
    """
    confirmed: int
    """Number of the first of these events, which that recorder reported as written or filtered."""
    to_ns: int
    """Time of the last of these events."""
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """End of a session."""

    session: int
    reason: str
    at_ns: int | None
    """None if the recorder was killed before the end."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    """Line printed by a plugin, to be printed but not recorded."""

    at_ns: int
    plugin: str
    stream: str
    text: str


ControlEntry = Begin | Resume | End | Gap | Note | Printed | ShownLine | CallsByMetrics
"""Queue entries other than events."""
Queued = tuple[int, CapturedCall] | ControlEntry


def pack(entries: Sequence[Queued]) -> bytes:
    """Return entries as bytes, for another process."""
    # `marshal` is fastest with plain tuples.
    items = [
        (entry[0], *entry[1]) if type(entry) is tuple else pickle.dumps(entry) for entry in entries
    ]
    try:
        return marshal.dumps(items)
    except ValueError:
        # `marshal` rejects subclasses, such as a status that is a member of an enumeration.
        return marshal.dumps([pickle.dumps(entry) for entry in entries])


def unpack(payload: bytes) -> Iterator[Queued]:
    """Yield the entries from the result of `pack`."""
    for item in marshal.loads(payload):
        if type(item) is tuple:
            yield item[0], CapturedCall(*item[1:])
        else:
            entry: Queued = pickle.loads(item)
            yield entry


def size_of(item: CapturedCall) -> int:
    """Return the number of bytes of an event that the peers control."""
    size = len(item.request) + len(item.reply)
    for name in EVENT_TEXTS:
        size += len(getattr(item, name))
    if item.metadata:
        size += sum(len(key) + len(value) for key, value in item.metadata)
    return size


class Inbox:
    """Bounded queue from a producer thread, which never blocks, to a writer thread.

    A recording that a writer process stores passes through two of them, as each covers another
    wait. That of the responder holds entries while the channel to the writer process is full, or
    while a killed writer is replaced. That of the writer process holds entries while its other
    thread commits a transaction, so that the thread that reads the channel never waits for a disk:
    the channel takes only half a megabyte (`writer.supervisor.AHEAD_BYTES`).

    No lock is needed: each counter is changed by one thread only, and the operations of a deque are
    atomic.
    """

    def __init__(self, limit_bytes: int, reason: str = TOO_FAST) -> None:
        self._limit = limit_bytes
        # A full queue must shrink to this size before it accepts events again: that yields one long
        # gap instead of a thousand short ones.
        self._low = limit_bytes * 3 // 4
        self._entries: deque[Queued] = deque()
        self._put_bytes = 0
        self._done_bytes = 0
        self._full = False
        self._gaps: dict[int, Gap] = {}
        self._asleep = False
        self._wakeup = threading.Lock()
        self._wakeup.acquire()
        self.lost = 0
        """Total number of events rejected because the queue was full."""
        self.bytes_on_wire = 0
        """Payload bytes received, queued or not."""
        self.reason = reason
        """Reason for the gaps of rejected events."""

    # -- the producer's side ----------------------------------------------------------------

    def put(self, session: int, item: CapturedCall) -> None:
        """Queue an event, or count it as lost."""
        size = size_of(item)
        self.bytes_on_wire += len(item.request) + len(item.reply)
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
            self.wake()

    def put_control(self, entry: ControlEntry) -> None:
        """Queue an entry other than an event. A full queue rejects only notes and plugin output."""
        if isinstance(entry, Note | Printed | ShownLine):
            if self._full or self._put_bytes - self._done_bytes > self._limit:
                return
        elif self._gaps:
            self.flush_gaps()
        self._put_bytes += ITEM_BYTES
        if isinstance(entry, Printed | ShownLine):
            self._put_bytes += len(entry.text)
        self._entries.append(entry)
        if self._asleep:
            self.wake()

    def flush_gaps(self) -> None:
        """Queue the pending gaps."""
        # One by one, because the writer may do the same concurrently (see `settle`).
        while self._gaps:
            try:
                _, gap = self._gaps.popitem()
            except KeyError:
                return
            self._put_bytes += ITEM_BYTES
            self._entries.append(gap)

    @property
    def waiting_bytes(self) -> int:
        """Approximate memory of all queued entries."""
        return self._put_bytes - self._done_bytes

    @property
    def events_waiting(self) -> int:
        """Number of queued events."""
        return sum(type(entry) is tuple for entry in list(self._entries))

    def shut(self) -> None:
        """Reject all further events, and count them as lost."""
        self._limit = self._low = -1

    def _lose(self, session: int, item: CapturedCall) -> None:
        self.lost += 1
        at_ns = item.wall_ns
        gap = self._gaps.get(session) or Gap(0, session, at_ns, at_ns, self.reason, 0)
        count = gap.dropped + 1
        self._gaps[session] = replace(gap, to_ns=at_ns, lost=count, dropped=count)

    def wake(self) -> None:
        """Wake the writer."""
        self._asleep = False
        try:
            self._wakeup.release()
        except RuntimeError:
            # The lock was already released.
            pass

    # -- the writer's side ------------------------------------------------------------------

    def sleep(self, timeout: float) -> None:
        """Wait for `wake`, at most ``timeout`` seconds; forever if negative."""
        self._wakeup.acquire(timeout=timeout)

    def settle(self) -> None:
        """Queue pending gaps once no event was queued or lost for `SETTLE_SECONDS`.

        Returns without queueing them if an event is queued or lost meanwhile, since the producer
        then extends or queues the gaps itself.
        """
        if self._gaps:
            lost = self.lost
            self.sleep_while_empty(SETTLE_SECONDS)
            if not self._entries and self.lost == lost:
                self.flush_gaps()

    def sleep_while_empty(self, timeout: float) -> None:
        """Wait as `sleep` does, but only if the queue is empty."""
        # The flag is set first, so either this thread finds a new entry or the producer wakes it.
        self._asleep = True
        if not self._entries:
            self._wakeup.acquire(timeout=timeout)
        self._asleep = False

    def take(self, items: int, size: int) -> list[Queued]:
        """Remove and return up to ``items`` of the oldest entries, until their events exceed
        ``size`` bytes.
        """
        taken: list[Queued] = []
        while self._entries and len(taken) < items and size > 0:
            entry = self._entries.popleft()
            taken.append(entry)
            if type(entry) is tuple:
                size -= size_of(entry[1])
        return taken

    def done(self, entries: list[Queued]) -> None:
        """Subtract the written ``entries`` from the memory in use."""
        size = ITEM_BYTES * len(entries)
        for entry in entries:
            if type(entry) is tuple:
                size += size_of(entry[1])
            elif isinstance(entry, Printed | ShownLine):
                size += len(entry.text)
        self._done_bytes += size

    def __len__(self) -> int:
        return len(self._entries)


class RecorderCounters(NamedTuple):
    """Numbers of recorded, filtered, lost and removed events, and of gaps and bytes."""

    recorded: int = 0
    """Number of events written to the file."""
    filtered: int = 0
    """Number of events that ``keep`` rejected."""
    lost: int = 0
    """Number of lost events, without gaps of unknown size."""
    gaps: int = 0
    bytes_on_wire: int = 0
    """Payload bytes of all received requests and replies, recorded or not."""
    removed: int = 0
    """Number of recorded events that the ring has removed."""

    def outcome(self, path: Path | None, sessions: int, seconds: float) -> str:
        """Return ``recorded 32 events in 1 session over 5 s, 0 gaps: PATH``, plus the numbers of
        lost and removed events if there are any. ``path``: None for a private file.
        """
        lost = f" ({many(self.lost, 'event')} lost)" if self.lost else ""
        removed = f", {many(self.removed, 'event')} removed again" if self.removed else ""
        suffix = "" if path is None else f": {path}"
        return (
            f"recorded {many(self.recorded, 'event')} in {many(sessions, 'session')} "
            f"over {seconds:.0f} s{removed}, {many(self.gaps, 'gap')}{lost}{suffix}"
        )


def wall_offset() -> int:
    """Return the wall clock minus the monotonic clock, in nanoseconds.

    Sessions of one recording are ordered by time, so the result must not depend on a pause of this
    process between reading the two clocks: the fastest of three measurements is used.
    """
    measured = []
    for _ in range(3):
        before, wall, after = monotonic_ns(), time_ns(), monotonic_ns()
        measured.append((after - before, wall - (before + after) // 2))
    return min(measured)[1]
