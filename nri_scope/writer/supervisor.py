# SPDX-License-Identifier: Apache-2.0
"""Write a recording in a separate process: start it, replace it if it dies, and end it.

This is the side of the responder, which replies or relays. Python runs one thread at a time, so a
reply would sometimes wait for a writer thread, and the runtime for the reply. A writer process
avoids that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import add
from pathlib import Path
from subprocess import DEVNULL
from time import monotonic, time_ns
from typing import Any

from nri_scope.capture.queue import AHEAD_BYTES, DEFAULT_BATCHING, Batching, Order, Outbox, pack
from nri_scope.capture.sink import RecorderCounters
from nri_scope.errors import NriScopeError, RecordingError
from nri_scope.process.channel import LoopChannel
from nri_scope.process.child import keep_exit_statuses, spawn
from nri_scope.recording.file.heartbeat import BEAT_S, Heartbeat, HeartbeatFile

from .messages import Opening, Progress, RecordingOptions, Report, error_of

READY_S = 20.0
"""Maximum time in seconds for the writer to open the file."""
EXIT_S = 5.0
"""Maximum time in seconds for a writer without entries to exit."""
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


class WriterGone(NriScopeError):
    """The writer ended before it had opened the file."""


class RunningWriter:
    """A writer process with its channel."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        opening: Opening,
        say: Callable[[str], None],
        on_numbered: Callable[[int, int], None],
        on_progress: Callable[[Progress], None],
        *,
        prints: bool,
    ) -> None:
        """Start a process that runs the function "main" of ``module``. Raises UsageError.

        ``prints``: whether it prints to this process's standard output.
        """
        keep_exit_statuses()
        self.process = spawn(
            module,
            *arguments,
            failure="the writer process cannot be started",
            # The child also notices the end of the channel, but not while it is stopped.
            on_parents_death=signal.SIGCONT,
            output=(1 if prints and sys.stdout is not None else DEVNULL, DEVNULL),
        )
        self.over = asyncio.Event()
        """Set after the last report."""
        self.counters = RecorderCounters()
        self.lost_before = 0
        self.closed = False
        """Whether all entries sent are in the file, or recorded there as lost."""
        self._say = say
        self._on_numbered = on_numbered
        self._on_progress = on_progress
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.channel = LoopChannel(self.process.socket, self._receive, self._on_channel_end)
        self.channel.send(Order.OPEN, pickle.dumps(opening))

    async def ready(self, seconds: float = READY_S) -> None:
        """Wait up to ``seconds`` until the file is open.

        Raises NriScopeError if that fails, and WriterGone.
        """
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._opened)
        except TimeoutError:
            await self.end(0)
            raise WriterGone(
                f"the writer process did not open the file within {seconds:g} s"
            ) from None
        except WriterGone:
            raise WriterGone(await self.end(EXIT_S)) from None
        except BaseException:
            await asyncio.shield(self.end(EXIT_S))
            raise

    async def end(self, seconds: float) -> str:
        """Wait ``seconds`` for the writer to exit, then kill it; describe how it ended."""
        self.channel.close()
        # In another thread: the writer may take a while to exit, and this thread answers requests.
        # Without SIGTERM: the writer ignores it, or is stopped and would not receive it.
        ended = await asyncio.to_thread(self.process.stop, seconds, 0)
        return f"the writer process ended, {ended.description}"

    def _receive(self, kind: int, payload: bytes) -> None:
        try:
            self._handle(kind, json.loads(payload))
        except Exception:  # noqa: BLE001 - kill a writer that may be compromised
            self.process.signal(signal.SIGKILL)

    def _handle(self, kind: int, value: Any) -> None:
        if kind == Report.SAID:
            self._say(value)
        elif kind == Report.OPENED:
            if not self._opened.done():
                self._opened.set_result(None)
        elif kind == Report.FAILED:
            if not self._opened.done():
                self._opened.set_exception(error_of(value))
        elif kind == Report.CLOSED:
            self.counters = RecorderCounters(*value)
            self.closed = True
        elif kind == Report.WRITTEN:
            self.counters = RecorderCounters(*value[0])
            progress = Progress(self.counters, *value[1:])
            self.lost_before = progress.lost_before
            self._on_progress(progress)
        elif kind == Report.NUMBERED:
            self._on_numbered(*value)

    def _on_channel_end(self) -> None:
        if self.channel.can_receive:
            # The writer accepts no more orders, but unread reports remain.
            return
        self.over.set()
        if not self._opened.done():
            self._opened.set_exception(WriterGone())


class WriterProcess(Outbox):
    """`Outbox` with its writer process, which writes the entries.

    Entries are queued until `open` has opened the file, and while a process that has died is being
    replaced.
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
        super().__init__(NOT_OPEN, batching)
        self._options = options
        self._began, self._began_ns = monotonic(), time_ns()
        self._say = say
        self._program = (module, arguments, prints)
        self._running: RunningWriter | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        """Set to start the next process without a pause."""
        self._counters = RecorderCounters()
        """Sum of the counters of processes that have ended."""
        self._lost_before = 0
        """Number of events lost with processes that died."""
        self._missing = 0
        self._end_description = ""
        self._problem = ""
        """Why nothing can be written now; "" if it can."""
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

    def summary(self, path: Path | None, sessions: int) -> str:
        """Return the final message, for a closed writer. ``path``: None for a private file."""
        # Loaded only now, when no reply can be delayed.
        from nri_scope.recording.query.coverage import with_unobserved

        outcome = self.counters.outcome(path, sessions, monotonic() - self._began)
        return with_unobserved(outcome, self._options.path, self._began_ns)

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
        self._running, self._channel = running, running.channel
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
        self._confirm(progress.processed, progress.ended)
        self._problem = progress.problem

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
                self._send_some(running.channel)
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

    async def _end(self, running: RunningWriter, seconds: float) -> str:
        self._running = self._channel = None
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
