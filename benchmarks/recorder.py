# SPDX-License-Identifier: Apache-2.0
"""A real `nri-scope record` process and measurements of it from outside."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# Limit for queued events to reach the disk, and for processes to end.
_TIMEOUT_S = 600.0
# A process is idle if it uses less than this processor time per poll interval: following a file
# needs some, and the kernel counts in hundredths of a second.
_POLL_INTERVAL_S = 0.25
_IDLE_WORK_S = 0.03


def command() -> str:
    """Return the path of the installed `nri-scope`."""
    sibling = Path(sys.executable).with_name("nri-scope")
    found = str(sibling) if sibling.exists() else shutil.which("nri-scope")
    if found is None:
        raise FileNotFoundError("nri-scope is not installed in this environment")
    return found


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _peak(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024 + sum(map(_peak, _children(pid)))


def processor_time(pid: int) -> float:
    """Return the processor time of a process and its running children, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(processor_time, _children(pid)))


@dataclass(frozen=True)
class Stored:
    """Numbers of events and gaps in a recording."""

    events: int
    gaps: int
    lost: int
    """Number of lost events, as recorded in the gaps."""


def stored(recording: Path) -> Stored:
    """Count the events and gaps of a recording, which may still be growing."""
    if not recording.exists():
        return Stored(0, 0, 0)
    uri = f"file:{recording}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
        # Answers of the CRI are no requests of the runtime.
        (events,) = connection.execute(
            "SELECT count(*) FROM event "
            "WHERE session NOT IN (SELECT id FROM session WHERE role = 'cri')"
        ).fetchone()
        gaps, lost = connection.execute("SELECT count(*), total(lost) FROM gap").fetchone()
    return Stored(events, gaps, int(lost))


async def drained(recording: Path, events: int) -> float:
    """Wait until ``events`` events are on disk; return the waiting time in seconds."""
    begin = time.monotonic()
    while stored(recording).events < events:
        if time.monotonic() - begin > _TIMEOUT_S:
            raise TimeoutError(f"{stored(recording)} instead of {events} events on disk")
        await asyncio.sleep(0.05)
    return time.monotonic() - begin


def size_on_disk(recording: Path) -> int:
    """Return the size in bytes of the recording and its WAL and shared-memory files."""
    return sum(path.stat().st_size for path in recording.parent.glob(recording.name + "*"))


class Record:
    """`nri-scope record` connected to a runtime."""

    def __init__(self, process: Process, recording: Path) -> None:
        self.process = process
        self.recording = recording

    @classmethod
    async def start(cls, socket: Path, recording: Path, *more: str) -> Self:
        """Start `record` with ``more`` options; it ends when the runtime disconnects."""
        options = ("--socket", str(socket), "-o", str(recording), "--index", "10", "--once")
        return await cls._run(recording, command(), "record", *options, *more)

    @classmethod
    async def probes(cls, socket: Path, recording: Path, indices: Sequence[str]) -> Self:
        """Start `diff --live` with probes at these indices instead of `record`."""
        options = ("--socket", str(socket), "-o", str(recording), "--once")
        probes = ("--probes", ",".join(indices))
        return await cls._run(recording, command(), "diff", "--live", *probes, *options)

    @classmethod
    async def _run(cls, recording: Path, *words: str) -> Self:
        process = await asyncio.create_subprocess_exec(*words, stdout=DEVNULL, stderr=DEVNULL)
        return cls(process, recording)

    async def drained(self, events: int) -> float:
        """Wait until ``events`` events are on disk; return the waiting time in seconds."""
        return await drained(self.recording, events)

    async def settled(self, events: int) -> float:
        """Wait until ``events`` events are on disk and the process is idle; return the seconds.

        Commands that print live events continue to work after the events are stored.
        """
        begin = time.monotonic()
        await self.drained(events)
        before = -_IDLE_WORK_S
        while (now := processor_time(self.process.pid)) >= before + _IDLE_WORK_S:
            if time.monotonic() - begin > _TIMEOUT_S:
                raise TimeoutError(f"still busy with {events} events")
            before = now
            await asyncio.sleep(_POLL_INTERVAL_S)
        return time.monotonic() - begin

    def peak_memory(self) -> float:
        """Return the sum of the peak resident memory of all its processes, in MiB.

        Shared pages, which include most of Python, count once for each process.
        """
        return _peak(self.process.pid)

    async def stop(self) -> None:
        """Stop the command with SIGINT, as Ctrl-C does."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
        if status := await asyncio.wait_for(self.process.wait(), _TIMEOUT_S):
            raise RuntimeError(f"nri-scope ended with exit status {status}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self.process.returncode is None:
            # Not killed: its writer would go on writing in a folder that is about to be removed.
            self.process.terminate()
            await self.process.wait()


class Tap(Record):
    """`nri-scope tap --listen` between plugins and a runtime."""

    @classmethod
    async def listen(cls, listen: Path, socket: Path, recording: Path) -> Self:
        """Start the tap; it runs until it is stopped."""
        options = ("--listen", str(listen), "--socket", str(socket), "-o", str(recording))
        return await cls._run(recording, command(), "tap", *options)
