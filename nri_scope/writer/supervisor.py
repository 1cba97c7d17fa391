# SPDX-License-Identifier: Apache-2.0
"""Write a recording in a separate process: the side of the responder, which replies or relays.

Python runs one thread at a time, so a reply would sometimes wait for a writer thread, and the
runtime for the reply. A writer process avoids that. Events are queued for some milliseconds, until
there is no more urgent work, and are then sent to the writer in small batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import add
from pathlib import Path
from time import monotonic, time_ns
from typing import NamedTuple

from nri_scope.errors import NriScopeError, RecordingError
from nri_scope.events import CapturedCall, Gap, SessionStart
from nri_scope.recorder.inbox import (
    Begin,
    ControlEntry,
    End,
    Inbox,
    Queued,
    RecorderCounters,
    Resume,
    ShownLine,
    Sink,
    pack,
)
from nri_scope.recording.heartbeat import BEAT_S, Heartbeat, HeartbeatFile

from .channel import EXIT_S, READY_S, RunningWriter, WriterGone
from .messages import Order, Progress, RecordingOptions

QUEUE_BYTES = 64 << 20
"""Maximum number of queued bytes; further events are lost, and counted."""
AHEAD_BYTES = 512 << 10
"""Maximum number of bytes sent ahead of the writer; the rest stays queued, and is not lost if the
writer dies.
"""
CLOSE_S = 10.0
"""Maximum time in seconds to write the queued entries at the end."""
GRACE_S = 7.0
"""Additional seconds for the writer to finish the current event and to record lost events."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
"""Seconds between the end of a writer and the start of the next one."""
HEALTHY_S = 30.0
"""Seconds after which a writer counts as healthy: the next one starts after the shortest pause."""
NOT_OPEN = "the recording could not be opened in time"
NOT_TAKEN = "the writer process did not receive them in time"


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
class _OpenSession:
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
        confirmed = self.processed
        return Resume(self.number, self.start, self.sent, confirmed, self.last_ns, reason)


class WriterProcess(Sink):
    """`Sink` for an event loop, which never blocks: a separate process writes the entries.

    Entries are queued until `open` has opened the file, and while a process that has died is being
    replaced. All methods must be called in the loop's thread.
    """

    def __init__(
        self,
        options: RecordingOptions,
        say: Callable[[str], None],
        module: str = "nri_scope.writer.main",
        *arguments: str,
        prints: bool = False,
        batching: Batching = DEFAULT_BATCHING,
    ) -> None:
        """Start queueing entries. ``say`` is called with messages for the user; it must not block.

        The process runs ``module`` with ``arguments``. ``prints``: whether it prints to standard
        output.
        """
        self._options = options
        self._began, self._began_ns = monotonic(), time_ns()
        self._say = say
        self._program = (module, arguments, prints)
        self._batching = batching
        self._inbox = Inbox(QUEUE_BYTES, NOT_OPEN)
        self._sessions: dict[int, _OpenSession] = {}
        self._last_handle = 0
        self._running: RunningWriter | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        """Set to start the next process without a pause."""
        self._is_scheduled = False
        self._counters = RecorderCounters()
        """Sum of the counters of processes that have ended."""
        self._lost_before = 0
        """Number of events lost with processes that died."""
        self._missing = 0
        self._end_description = ""
        self._problem = ""
        """Why nothing can be written now; "" if it can."""
        self._sent = 0
        """Number of events sent to writers, or reported to them as lost."""
        self._oldest_ns = 0
        """Time since which the oldest of them is not written; 0 if all are. It may be too early."""
        self._checkpoint = 0, 0
        """An earlier value of `_sent`, and its time."""
        self._beating: asyncio.Task[None] | None = None

    # -- open and close ---------------------------------------------------------------------

    async def open(self, seconds: float = READY_S) -> None:
        """Open the file in a new process within ``seconds``. Raises NriScopeError if that fails."""
        running = self._start()
        try:
            await running.ready(seconds)
        except WriterGone as trouble:
            if not self._options.existed:
                _remove_empty(self._options.path)
            raise RecordingError(self._options.path, f"cannot record: {trouble}") from None
        self._use(running)
        self._supervisor = asyncio.create_task(self._supervise(running))
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Write heartbeats, until `close`. In another thread: a disk may not answer."""
        file = HeartbeatFile(self._options.path)
        before_ns = 0
        while not self._hurry.is_set():
            heartbeat = self._heartbeat(before_ns)
            before_ns = time_ns()
            await asyncio.to_thread(file.write, heartbeat)
            await self._pause(BEAT_S)
        await asyncio.to_thread(file.close)

    async def _pause(self, seconds: float) -> None:
        """Wait, until `close` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    def _heartbeat(self, before_ns: int) -> Heartbeat:
        queued = len(self._inbox) + self._unconfirmed()
        oldest_ns = self._oldest_ns if queued else 0
        problem = self._problem if self._running is not None else self._end_description
        return Heartbeat(queued, oldest_ns, self.counters.lost, before_ns, problem)

    async def close(self) -> RecorderCounters:
        """Write all queued entries and close the file; return the counters of the run."""
        if self._supervisor is None:
            return self.counters
        self._inbox.flush_gaps()
        until = monotonic() + CLOSE_S
        supervisor, self._supervisor = self._supervisor, None
        self._hurry.set()
        if self._beating is not None:
            await asyncio.wait({self._beating}, timeout=EXIT_S)
        if self._running is None:
            # The process has died, or is being replaced: wait for one attempt without a pause.
            await asyncio.wait({supervisor}, timeout=READY_S + EXIT_S)
        supervisor.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await supervisor
        if self._running is None:
            # No writer could be started again.
            self._missing = self._unconfirmed()
        elif await self._finish(self._running, until):
            self._say(f"warning: {self._end_description}; starting another one")
            another = await self._replace()
            if another is not None:
                await self._finish(another, monotonic() + CLOSE_S)
        self._missing += self._inbox.events_waiting
        self._inbox.shut()
        return self.counters

    @property
    def counters(self) -> RecorderCounters:
        """The current counters."""
        now = self._counters
        if self._running is not None:
            now = _sum(now, self._running.counters)
        lost = now.lost + self._inbox.lost + self._missing
        return now._replace(lost=lost, bytes_on_wire=self._inbox.bytes_on_wire)

    @property
    def failure(self) -> str:
        """Description of lost or missing events due to a failed process; "" if none."""
        lost = self._lost_before
        if self._running is not None:
            lost += self._running.lost_before
        if self._missing:
            problem = self._end_description or NOT_TAKEN
            return f"{problem}: {self._missing:,} events are missing from the file without a gap"
        return f"{self._end_description}: {lost:,} events were lost" if lost else ""

    # -- the sink ---------------------------------------------------------------------------

    def summary(self, path: Path | None, sessions: int) -> str:
        """Return the final message, for a closed writer. ``path``: None for a private file."""
        # Loaded only now, when no reply can be delayed.
        from nri_scope.recording.coverage import with_unobserved

        outcome = self.counters.outcome(path, sessions, monotonic() - self._began)
        return with_unobserved(outcome, self._options.path, self._began_ns)

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

    def put_control(self, entry: ControlEntry) -> None:
        """Queue an entry other than an event, and send it to the writer later."""
        self._inbox.put_control(entry)
        if not self._is_scheduled:
            self._schedule()

    # -- sending to the writer --------------------------------------------------------------

    def _schedule(self) -> None:
        if self._running is not None:
            self._is_scheduled = True
            self._running.loop.call_later(self._batching.wait_s, self._send_batch)

    def _send_batch(self) -> None:
        running = self._running
        if running is None:
            self._is_scheduled = False
            return
        inbox = self._inbox
        if running.channel.waiting_bytes > AHEAD_BYTES:
            # The writer is too slow, or stopped.
            running.loop.call_later(self._batching.wait_s, self._send_batch)
            return
        if not inbox:
            inbox.flush_gaps()
        entries = inbox.take(self._batching.events, self._batching.size)
        if not entries:
            self._is_scheduled = False
            return
        self._send(running, entries)
        running.loop.call_soon(self._send_batch)

    def _send(self, running: RunningWriter, entries: list[Queued]) -> None:
        sessions = self._sessions
        sent_before = self._sent
        for entry in entries:
            if type(entry) is tuple:
                session = sessions[entry[0]]
                session.sent += 1
                self._sent += 1
                session.last_ns = entry[1].wall_ns
            elif type(entry) is Begin:
                sessions[entry.session] = _OpenSession(entry.start, last_ns=entry.start.started_ns)
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
        running.channel.send(Order.ENTRIES, pack(entries))
        self._inbox.done(entries)

    # -- the writer -------------------------------------------------------------------------

    def _start(self) -> RunningWriter:
        resumed = [
            (handle, session.resumed(self._end_description))
            for handle, session in self._sessions.items()
        ]
        module, arguments, prints = self._program
        opening = (self._options, resumed)
        return RunningWriter(
            module, arguments, opening, self._say, self._numbered, self._written, prints=prints
        )

    def _use(self, running: RunningWriter) -> None:
        """Send all further entries to this writer."""
        self._running = running
        self._problem = ""
        self._inbox.reason = NOT_TAKEN
        for session in self._sessions.values():
            if session.end is not None:
                running.channel.send(Order.ENTRIES, pack([session.end]))
        if not self._is_scheduled:
            self._schedule()

    def _numbered(self, handle: int, number: int) -> None:
        self._sessions[handle].number = number

    def _written(self, progress: Progress) -> None:
        for handle, processed in progress.processed:
            if handle in self._sessions:
                self._sessions[handle].processed = processed
        for handle in progress.ended:
            self._sessions.pop(handle, None)
        self._problem = progress.problem
        written = self._sent - self._unconfirmed()
        if written == self._sent:
            self._oldest_ns = 0
        elif written >= self._checkpoint[0]:
            self._oldest_ns, self._checkpoint = self._checkpoint[1], (self._sent, time_ns())

    async def _supervise(self, running: RunningWriter) -> None:
        """Replace each writer that dies, until `close`."""
        pause = FIRST_PAUSE_S
        began = monotonic()
        while True:
            await running.over.wait()
            self._end_description = self._inbox.reason = await self._end(running, EXIT_S)
            if monotonic() - began > HEALTHY_S:
                pause = FIRST_PAUSE_S
            self._say(f"warning: {self._end_description}; starting another one")
            while True:
                await self._pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                began = monotonic()
                another = await self._replace()
                if self._hurry.is_set():
                    # `close` is waiting, and ends the new writer.
                    return
                if another is not None:
                    running = another
                    break

    async def _replace(self) -> RunningWriter | None:
        if (first := self._options.metrics) is not None:
            # Counted from the old first reading, a restart of the runtime since would overwrite
            # the calls before it.
            self._options = replace(self._options, metrics=replace(first, metrics=None))
        if (cri := self._options.cri) is not None:
            # The CRI may be unavailable by now.
            self._options = replace(self._options, cri=replace(cri, waits=True))
        try:
            running = self._start()
            await running.ready()
        except NriScopeError as error:
            self._say(f"warning: nothing can be written: {error}")
            return None
        self._use(running)
        return running

    async def _finish(self, running: RunningWriter, until: float) -> bool:
        """Let the writer write all entries and exit. Kill it if it hangs. Return whether another
        writer may go on, as this one died.
        """
        running.process.signal(signal.SIGCONT)
        while self._inbox and monotonic() < until and not running.over.is_set():
            if running.channel.waiting_bytes > AHEAD_BYTES:
                await asyncio.sleep(self._batching.wait_s)
            else:
                self._send(running, self._inbox.take(self._batching.events, self._batching.size))
        seconds = max(0.5, until - monotonic())
        running.channel.send(Order.FINISH, pickle.dumps(seconds))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + GRACE_S):
                await running.over.wait()
        hangs = not running.over.is_set()
        description = await self._end(running, 0 if hangs else EXIT_S)
        if running.closed:
            self._missing = 0
            return False
        self._end_description = description
        self._missing = self._unconfirmed()
        return not hangs

    def _unconfirmed(self) -> int:
        """Return the number of events that were sent to writers but not reported as processed."""
        return sum(session.sent - session.processed for session in self._sessions.values())

    async def _end(self, running: RunningWriter, seconds: float) -> str:
        self._running = None
        self._oldest_ns = self._oldest_ns or time_ns()
        description = await running.end(seconds)
        self._counters = _sum(self._counters, running.counters)
        self._lost_before += running.lost_before
        return description


def _remove_empty(path: Path) -> None:
    """Remove a file that a killed writer had only begun to create, with its journal."""
    with contextlib.suppress(OSError):
        if not path.lstat().st_size:
            path.unlink()
            path.with_name(f"{path.name}-journal").unlink()


def _sum(left: RecorderCounters, right: RecorderCounters) -> RecorderCounters:
    return RecorderCounters(*map(add, left, right))
