# SPDX-License-Identifier: Apache-2.0
"""Write a recording in a separate process: the side of the process that answers the runtime.

Python runs one thread at a time. With the writer in a thread, a due reply, and so a runtime, would
sometimes wait for it; with the writer in another process they do not. Events wait here for some
milliseconds, until there is no more urgent work, and are handed over in small batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import signal
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from time import monotonic

from nri_scope.errors import NriScopeError, RecordingError, UsageError
from nri_scope.events import CapturedCall, SessionStart
from nri_scope.recorder.counters import RecorderCounters
from nri_scope.recorder.inbox import (
    Begin,
    ControlEntry,
    End,
    Entry,
    GapEntry,
    Inbox,
    NoteEntry,
    Resume,
)

from .running_writer import EXIT_S, READY_S, RunningWriter, WriterGone
from .writer_messages import Order, Progress, RecordingOptions, packed
from .writer_start import Helper, start_process, start_thread

QUEUE_BYTES = 64 << 20
"""Maximum number of bytes that wait to be handed over; further events are lost, and counted."""
WAIT_S = 0.005
"""Seconds for which an event waits for others. Handing over each at once would take microseconds of
CPU time that the runtime may be waiting for; many at once would delay the events of that moment.
"""
TURN_EVENTS = 8
TURN_BYTES = 16 << 10
"""Bytes handed over before the event loop checks its sockets again: some microseconds."""
AHEAD_BYTES = 512 << 10
"""Maximum number of bytes that wait for the other process to read them; the rest stays here, where
it survives that process.
"""
CLOSE_S = 10.0
"""Maximum time in seconds to write the remaining entries at the end."""
GRACE_S = 7.0
"""Seconds after that to finish the current event and to report lost ones."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
"""Seconds between the end of one writing process and the start of the next."""
HEALTHY_S = 30.0
"""After a process has worked for this many seconds, the next one starts after the shortest pause.
"""
NOT_OPEN = "the recording could not be opened in time"
NOT_TAKEN = "the process that writes did not take them in time"


@dataclass(slots=True)
class _Session:
    """A session that may be incomplete in the file."""

    start: SessionStart
    number: int = 0
    """Its number in the file; 0 until it is known."""
    came: int = 0
    """Number of events that were handed over, or reported as lost."""
    known: int = 0
    """How many of them are known to be in the file, or to be left out."""
    last_ns: int = 0
    end: End | None = None


class WriterProcess:
    """A `Sink` for an event loop: it never blocks, and passes all entries on to the file.

    Entries are queued until `open` has opened the file, and while a new process replaces one that
    has died. All methods are for the loop's thread.
    """

    def __init__(
        self,
        options: RecordingOptions,
        say: Callable[[str], None],
        module: str = "nri_scope.logger.writer_main",
        *arguments: str,
        shows: bool = False,
    ) -> None:
        """Start queueing entries. ``say`` gets messages for the user, and never blocks.

        The process runs ``module`` with ``arguments``; ``shows``: it prints to standard output.
        """
        self._options = options
        self._say = say
        self._program = (module, arguments, shows)
        self._inbox = Inbox(QUEUE_BYTES, NOT_OPEN)
        self._sessions: dict[int, _Session] = {}
        self._begun = 0
        self._running: RunningWriter | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        """Set when the next process must be started without a pause."""
        self._due = False
        self._counters = RecorderCounters()
        """The counters of processes that have ended."""
        self._lost_before = 0
        """Number of events lost with a process that died."""
        self._unwritten = 0
        self._words = ""

    # -- life -------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the file in a new process. Raises NriScopeError if that fails.

        If no process can be started, a thread writes.
        """
        try:
            running = self._start(start_process)
        except UsageError as error:
            self._say(f"warning: {error}; recording in one process, which answers more slowly")
            running = self._start(start_thread)
        try:
            await running.ready()
        except WriterGone as trouble:
            # Not in this process either: it would be killed for the same reason.
            raise RecordingError(self._options.path, f"cannot record: {trouble}") from None
        self._take(running)
        self._keeping = asyncio.create_task(self._keep(running))

    async def close(self) -> RecorderCounters:
        """Write all queued entries and close the file; return the counters of the run."""
        if self._keeping is None:
            return self.counters
        self._inbox.flush_gaps()
        until = monotonic() + CLOSE_S
        keeping, self._keeping = self._keeping, None
        self._hurry.set()
        if self._running is None:
            # The process is gone, or being started: try once more, without a pause.
            await asyncio.wait({keeping}, timeout=READY_S + EXIT_S)
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping
        if self._running is not None and not await self._finish(self._running, until):
            self._say(f"warning: {self._words}; another one is started")
            another = await self._replace()
            if another is not None:
                await self._finish(another, monotonic() + CLOSE_S)
        self._unwritten += self._inbox.events_waiting
        self._inbox.shut()
        return self.counters

    @property
    def counters(self) -> RecorderCounters:
        """The current counters."""
        now = _sum(self._counters, self._running.counters if self._running else None)
        lost = now.lost + self._inbox.lost + self._unwritten
        return replace(now, lost=lost, bytes_on_wire=self._inbox.bytes_on_wire)

    @property
    def failure(self) -> str:
        """The failure of a process that lost events; "" if none."""
        lost = self._lost_before
        if self._running is not None:
            lost += self._running.lost_before
        if self._unwritten:
            words = self._words or NOT_TAKEN
            return f"{words}: {self._unwritten:,} events are not in the file, which does not say so"
        return f"{self._words}: {lost:,} events were lost" if lost else ""

    # -- the sink ---------------------------------------------------------------------------

    def begin_session(self, start: SessionStart) -> int:
        """See `Recorder.begin_session`. Return a handle, not the number in the file."""
        self._begun += 1
        self._tell(Begin(self._begun, start))
        return self._begun

    def capture(self, session: int, item: CapturedCall) -> None:
        """See `Recorder.capture`."""
        self._inbox.put(session, item)
        if not self._due:
            self._soon()

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        """See `Recorder.end_session`."""
        self._tell(End(session, reason, at_ns))

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None:
        """See `Recorder.note_gap`."""
        self._tell(GapEntry(session, from_ns, to_ns, reason, lost))

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        """See `Recorder.note`."""
        self._tell(NoteEntry(session, at_ns, text))

    def _tell(self, entry: ControlEntry) -> None:
        self._inbox.put_control(entry)
        if not self._due:
            self._soon()

    # -- handing over -----------------------------------------------------------------------

    def _soon(self) -> None:
        if self._running is not None:
            self._due = True
            self._running.loop.call_later(WAIT_S, self._turn)

    def _turn(self) -> None:
        running = self._running
        if running is None:
            self._due = False
            return
        inbox = self._inbox
        if running.channel.waiting_bytes > AHEAD_BYTES:
            # The process is behind, or stopped.
            running.loop.call_later(WAIT_S, self._turn)
            return
        if not inbox:
            inbox.flush_gaps()
        entries = inbox.take(TURN_EVENTS, TURN_BYTES)
        if not entries:
            self._due = False
            return
        self._hand_over(running, entries)
        running.loop.call_soon(self._turn)

    def _hand_over(self, running: RunningWriter, entries: list[Entry]) -> None:
        sessions = self._sessions
        for entry in entries:
            if type(entry) is tuple:
                session = sessions[entry[0]]
                session.came += 1
                session.last_ns = entry[1].wall_ns
            elif type(entry) is Begin:
                sessions[entry.session] = _Session(entry.start, last_ns=entry.start.started_ns)
            elif type(entry) is End:
                sessions[entry.session].end = entry
            elif type(entry) is GapEntry and entry.dropped and entry.session in sessions:
                session = sessions[entry.session]
                session.came += entry.dropped
                session.last_ns = entry.to_ns
        running.channel.send(Order.ENTRIES, packed(entries))
        self._inbox.done(entries)

    # -- the process ------------------------------------------------------------------------

    def _start(self, start: Callable[..., Helper]) -> RunningWriter:
        resumed = [
            (
                handle,
                Resume(one.number, one.start, one.came, one.known, one.last_ns, self._words),
            )
            for handle, one in self._sessions.items()
        ]
        module, arguments, shows = self._program
        helper = start(module, arguments, shows=shows)
        opening = (self._options, resumed)
        return RunningWriter(helper, opening, self._say, self._numbered, self._written)

    def _take(self, running: RunningWriter) -> None:
        """Use this writer from now on."""
        self._running = running
        self._inbox.reason = NOT_TAKEN
        for one in self._sessions.values():
            if one.end is not None:
                running.channel.send(Order.ENTRIES, packed([one.end]))
        if not self._due:
            self._soon()

    def _numbered(self, handle: int, number: int) -> None:
        self._sessions[handle].number = number

    def _written(self, progress: Progress) -> None:
        for handle, came in progress.came.items():
            if handle in self._sessions:
                self._sessions[handle].known = came
        for handle in progress.ended:
            self._sessions.pop(handle, None)

    async def _keep(self, running: RunningWriter) -> None:
        """Replace each process that has died, until `close`."""
        pause = FIRST_PAUSE_S
        began = monotonic()
        while True:
            await running.over.wait()
            self._words = self._inbox.reason = await self._ended(running, EXIT_S)
            if monotonic() - began > HEALTHY_S:
                pause = FIRST_PAUSE_S
            self._say(f"warning: {self._words}; another one is started")
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._hurry.wait()
                pause = min(2 * pause, LONGEST_PAUSE_S)
                began = monotonic()
                another = await self._replace()
                if self._hurry.is_set():
                    # `close` waits for this, and ends what was started.
                    return
                if another is not None:
                    running = another
                    break

    async def _replace(self) -> RunningWriter | None:
        try:
            running = self._start(start_process)
            await running.ready()
        except NriScopeError as error:
            self._say(f"warning: nothing is written: {error}")
            return None
        self._take(running)
        return running

    async def _finish(self, running: RunningWriter, until: float) -> bool:
        """End the writer properly; return whether another one could do no better."""
        running.helper.signal(signal.SIGCONT)
        while self._inbox and monotonic() < until and not running.over.is_set():
            if running.channel.waiting_bytes > AHEAD_BYTES:
                await asyncio.sleep(WAIT_S)
            else:
                self._hand_over(running, self._inbox.take(TURN_EVENTS, TURN_BYTES))
        seconds = max(0.5, until - monotonic())
        running.channel.send(Order.FINISH, pickle.dumps(seconds))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + GRACE_S):
                await running.over.wait()
        hangs = not running.over.is_set()
        words = await self._ended(running, 0 if hangs else EXIT_S)
        if running.closed:
            self._unwritten = 0
            return True
        self._words = words
        self._unwritten = sum(one.came - one.known for one in self._sessions.values())
        return hangs

    async def _ended(self, running: RunningWriter, seconds: float) -> str:
        self._running = None
        words = await running.end(seconds)
        self._counters = _sum(self._counters, running.counters)
        self._lost_before += running.lost_before
        return words


def _sum(first: RecorderCounters, second: RecorderCounters | None) -> RecorderCounters:
    if second is None:
        return first
    both = zip(astuple(first), astuple(second), strict=True)
    return RecorderCounters(*(one + other for one, other in both))
