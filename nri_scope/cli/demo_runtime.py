# SPDX-License-Identifier: Apache-2.0
"""The processes of ``nri-scope demo``: an emulated runtime, and a real ``record``."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.process.signals import stop_signals
from nri_scope.runtime import Pace, Runtime, Stored, play, split_setup
from nri_scope.transport.sockets import UNIX_PATH_MAX

if TYPE_CHECKING:
    from nri_scope.events import Session

PAUSE_MIN_S, PAUSE_MAX_S, TOTAL_MAX_S = 0.4, 1.0, 15.0
"""At speed 1: minimum and maximum seconds between two events, and maximum total duration."""

RECORD_END_TIMEOUT_S = 15.0
"""Seconds that ``record`` may take to finish writing after the runtime has ended."""


class Performance:
    """One playback of one session."""

    def __init__(self, session: Session, stored: list[Stored], file: Path, speed: float) -> None:
        """``file``: the recording to write. ``stored``: all requests, the set-up first."""
        self.session = session
        self.file = file
        self._setup, events = split_setup(stored)
        self._events = list(events)
        self._pace, self.seconds = demo_pace(self._events, speed)
        self.stopped = False
        """Whether the playback was stopped early."""
        self.is_over = False
        """Whether playing and recording have ended."""
        self.record_output: list[str] = []
        """Stderr lines of ``record``, if it does not print to the terminal."""
        self._playing: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()

    @property
    def count(self) -> int:
        """Number of events that `record` will show, including Configure and Synchronize."""
        return 1 + len(self._setup.synchronize("")) + len(self._events)

    async def perform(self) -> int:
        """Play into a `record` that prints; return its exit status.

        A stop signal ends the playback early.
        """
        with stop_signals(lambda *_: self.stop(), loop=asyncio.get_running_loop()):
            return await self._perform(prints=True)

    async def perform_for(self, watch: Callable[[], Awaitable[None]]) -> int:
        """Play into a silent `record` while ``watch`` runs; return the exit status of `record`.

        ``watch`` starts once `record` is connected, or never if `record` fails. When ``watch``
        returns, playback and `record` are stopped.
        """
        async with asyncio.TaskGroup() as group:
            performance = group.create_task(self._perform(prints=False))
            begun = group.create_task(self._begun.wait())
            await asyncio.wait({performance, begun}, return_when=asyncio.FIRST_COMPLETED)
            begun.cancel()
            if not performance.done():
                await watch()
                self.stop()
        return performance.result()

    def stop(self) -> None:
        """Stop playing early."""
        if self._playing is not None and not self._playing.done():
            self.stopped = True
            self._playing.cancel()

    async def _perform(self, *, prints: bool) -> int:
        async with asyncio.TaskGroup() as group:
            with _socket_folder() as folder:
                async with Runtime(self._setup) as runtime:
                    socket = Path(folder) / "nri.sock"
                    await runtime.listen(socket)
                    playing = self._playing = group.create_task(self._play(runtime))
                    record = await _start_record(socket, self.file, prints=prints)
                    ended = group.create_task(self._end_of(record))
                    ended.add_done_callback(lambda _: playing.cancel())
                    await asyncio.wait({playing})
            # A `record --once` ends with the runtime.
            await asyncio.wait({ended}, timeout=RECORD_END_TIMEOUT_S)
            if not ended.done():
                record.kill()
        self.is_over = True
        return 0 if self.stopped else ended.result()

    async def _play(self, runtime: Runtime) -> None:
        await runtime.wait_plugins(1)
        self._begun.set()
        await play(runtime, self._events, pace=self._pace)

    async def _end_of(self, record: asyncio.subprocess.Process) -> int:
        _, stderr = await record.communicate()
        self.record_output = stderr.decode(errors="replace").splitlines() if stderr else []
        return await record.wait()


def _socket_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a 0700 folder whose path is short enough for a Unix socket."""
    usual = tempfile.gettempdir()
    fits = len(f"{usual}/nri-scope-12345678/nri.sock".encode()) <= UNIX_PATH_MAX
    return tempfile.TemporaryDirectory(prefix="nri-scope-", dir=usual if fits else "/tmp")


def demo_pace(events: Sequence[Stored], speed: float) -> tuple[Pace, float]:
    """Return a pace slow enough to follow, bounded by `TOTAL_MAX_S`, and the total seconds."""

    def seconds(pace: Pace) -> float:
        return sum(pace.pause(one.at_ns, other.at_ns) for one, other in pairwise(events))

    pace = Pace(1.0, PAUSE_MIN_S, PAUSE_MAX_S)
    pace = Pace(speed * max(1.0, seconds(pace) / TOTAL_MAX_S), PAUSE_MIN_S, PAUSE_MAX_S)
    return pace, seconds(pace)


async def _start_record(socket: Path, file: Path, *, prints: bool) -> asyncio.subprocess.Process:
    # -P: a module in the current folder must not shadow one of nri_scope.
    arguments = ["-P", "-m", "nri_scope", "record", "--socket", str(socket), "-o", str(file)]
    # The demonstration must not read this host's spool.
    arguments += ["--once", "--spool", "", *(["--print", "text"] if prints else [])]
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=None if prints else asyncio.subprocess.DEVNULL,
        stderr=None if prints else asyncio.subprocess.PIPE,
        # Signals from the terminal must reach only the process that shows the recording.
        start_new_session=not prints,
    )
