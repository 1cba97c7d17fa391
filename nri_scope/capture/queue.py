# SPDX-License-Identifier: Apache-2.0
"""The queues of captured entries: in front of the writer process, and of its writer thread."""

from __future__ import annotations

import marshal
import pickle
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from time import time_ns
from typing import NamedTuple

from nri_scope.events import EVENT_TEXTS, CapturedCall, Gap, Note, Printed, SessionStart
from nri_scope.process.channel import LoopChannel

from .sink import Begin, ControlEntry, End, Queued, Resume, ShownLine, Sink

ITEM_BYTES = 600
"""Approximate memory of a queued item in addition to its payloads."""
SETTLE_SECONDS = 1.0
"""Seconds without an event after which pending gaps are queued."""
TOO_FAST = "events came faster than they could be written"


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
    wait. That of the responder (`Outbox`) holds entries while the channel to the writer process is
    full, or while a killed writer is replaced. That of the writer process holds entries while its
    other thread commits a transaction, so that the thread that reads the channel never waits for a
    disk: the channel takes only half a megabyte (`AHEAD_BYTES`).

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


QUEUE_BYTES = 64 << 20
"""Maximum number of bytes queued in front of a writer process; further events are lost, and
counted.
"""
AHEAD_BYTES = 512 << 10
"""Maximum number of bytes sent ahead of the writer; the rest stays queued, and is not lost if the
writer dies.
"""


class Order(IntEnum):
    """Kinds of orders to the writer process. All but entries are pickled."""

    OPEN = 0
    """The first order: an `Opening`. Answered by OPENED or FAILED."""
    ENTRIES = 1
    """Queue entries, in order; see `pack`."""
    FINISH = 2
    """Write the queued entries and exit, within this many seconds. Answered by CLOSED."""


class Batching(NamedTuple):
    """When queued events are sent to the writer."""

    wait_s: float = 0.005
    """Seconds for which an event is queued. Sending each one immediately would take CPU time for
    which the runtime may be waiting; sending many together would delay replies."""
    events: int = 8
    size: int = 16 << 10
    """Maximum number of events and bytes sent before the event loop checks its sockets again."""


DEFAULT_BATCHING = Batching()


@dataclass(slots=True)
class SentSession:
    """A session that the writer has not finished yet."""

    start: SessionStart
    number: int = 0
    """Session number in the file; 0 until the writer reports it."""
    sent: int = 0
    """Number of events sent to the writer, or reported to it as lost."""
    processed: int = 0
    """Number of these events that the writer has processed (written, filtered out or lost)."""
    last_ns: int = 0
    end: End | None = None

    def resumed(self, reason: str) -> Resume:
        """Return the entry by which another writer continues, as one ended for a ``reason``."""
        return Resume(self.number, self.start, self.sent, self.processed, self.last_ns, reason)


class Outbox(Sink):
    """`Sink` for an event loop, which never blocks: entries wait for some milliseconds, until there
    is no more urgent work, and are then sent to a writer process in small batches.

    While there is no channel to a process, they stay queued. All methods must be called in the
    loop's thread.
    """

    def __init__(self, reason: str, batching: Batching = DEFAULT_BATCHING) -> None:
        """Start queueing entries. ``reason``: that of gaps until there is a process."""
        self._inbox = Inbox(QUEUE_BYTES, reason)
        self._batching = batching
        self._channel: LoopChannel | None = None
        self._is_scheduled = False
        self._sessions: dict[int, SentSession] = {}
        self._last_handle = 0
        self._sent = 0
        """Number of events sent to writers, or reported to them as lost."""
        self._oldest_ns = 0
        """Time since which the oldest of them is not written; 0 if all are. It may be too early."""
        self._checkpoint = 0, 0
        """An earlier value of `_sent`, and its time."""

    def begin_session(self, start: SessionStart) -> int:
        """See `Recorder.begin_session`. Return a handle, not the number in the file."""
        self._last_handle += 1
        self.put_control(Begin(self._last_handle, start))
        return self._last_handle

    def capture(self, session: int, item: CapturedCall) -> None:
        """See `Recorder.capture`."""
        self._inbox.put(session, item)
        if not self._is_scheduled:
            self._schedule()

    def put_control(self, entry: ControlEntry) -> None:
        """Queue an entry other than an event, and send it to the writer later."""
        self._inbox.put_control(entry)
        if not self._is_scheduled:
            self._schedule()

    def show_line(self, at_ns: int, plugin: str, stream: str, text: str) -> None:
        """Print a plugin's line, if the writer prints, without recording it."""
        self.put_control(ShownLine(at_ns, plugin, stream, text))

    @property
    def waiting_bytes(self) -> int:
        """Approximate memory of the entries that were not yet sent to the writer."""
        return self._inbox.waiting_bytes

    def processed(self, session: int) -> int:
        """Return how many events of an open session are committed, filtered out or lost."""
        state = self._sessions.get(session)
        return state.processed if state is not None else 0

    # -- sending ----------------------------------------------------------------------------

    def _schedule(self) -> None:
        if self._channel is not None:
            self._is_scheduled = True
            self._channel.loop.call_later(self._batching.wait_s, self._send_batch)

    def _send_batch(self) -> None:
        channel = self._channel
        if channel is None:
            self._is_scheduled = False
            return
        if channel.waiting_bytes > AHEAD_BYTES:
            # The writer is too slow, or stopped.
            channel.loop.call_later(self._batching.wait_s, self._send_batch)
            return
        if not self._inbox:
            self._inbox.flush_gaps()
        if self._send_some(channel):
            channel.loop.call_soon(self._send_batch)
        else:
            self._is_scheduled = False

    def _send_some(self, channel: LoopChannel) -> bool:
        """Send one batch; return whether anything was queued."""
        entries = self._inbox.take(self._batching.events, self._batching.size)
        if not entries:
            return False
        sessions = self._sessions
        sent_before = self._sent
        for entry in entries:
            if type(entry) is tuple:
                session = sessions[entry[0]]
                session.sent += 1
                self._sent += 1
                session.last_ns = entry[1].wall_ns
            elif type(entry) is Begin:
                sessions[entry.session] = SentSession(entry.start, last_ns=entry.start.started_ns)
            elif type(entry) is End:
                sessions[entry.session].end = entry
            elif type(entry) is Gap and entry.dropped and entry.session in sessions:
                session = sessions[entry.session]
                session.sent += entry.dropped
                self._sent += entry.dropped
                session.last_ns = entry.to_ns
        if self._sent > sent_before and not self._oldest_ns:
            self._oldest_ns = time_ns() - int(self._batching.wait_s * 1e9)
            self._checkpoint = self._sent, self._oldest_ns
        channel.send(Order.ENTRIES, pack(entries))
        self._inbox.done(entries)
        return True

    # -- what the writer reports ------------------------------------------------------------

    def _confirm(self, processed: Sequence[tuple[int, int]], ended: Sequence[int]) -> None:
        """Note numbers of processed events by session, and sessions whose end is in the file."""
        for handle, count in processed:
            if handle in self._sessions:
                self._sessions[handle].processed = count
        for handle in ended:
            self._sessions.pop(handle, None)
        written = self._sent - self._unconfirmed()
        if written == self._sent:
            self._oldest_ns = 0
        elif written >= self._checkpoint[0]:
            self._oldest_ns, self._checkpoint = self._checkpoint[1], (self._sent, time_ns())

    def _unconfirmed(self) -> int:
        """Return the number of events that were sent to writers but not reported as processed."""
        return sum(session.sent - session.processed for session in self._sessions.values())
