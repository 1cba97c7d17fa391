# SPDX-License-Identifier: Apache-2.0
"""A real `nri-scope record` process, watched from outside."""

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

# What is still queued reaches the disk within this time, or something hangs.
_PATIENCE = 600.0
# Seconds between two looks, and of work between them below which a process is idle: following a
# file takes a little, and the kernel counts in hundredths of a second.
_LOOK = 0.25
_IDLE = 0.03


def command() -> str:
    """Path of the installed `nri-scope`."""
    beside = Path(sys.executable).with_name("nri-scope")
    found = str(beside) if beside.exists() else shutil.which("nri-scope")
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
    """What a recording holds."""

    events: int
    gaps: int
    lost: int
    """Events that the gaps say were lost."""


def stored(recording: Path) -> Stored:
    """Count what is in a recording, which may be written to at this moment."""
    if not recording.exists():
        return Stored(0, 0, 0)
    uri = f"file:{recording}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
        (events,) = connection.execute("SELECT count(*) FROM event").fetchone()
        gaps, lost = connection.execute("SELECT count(*), total(lost) FROM gap").fetchone()
    return Stored(events, gaps, int(lost))


async def drained(recording: Path, events: int) -> float:
    """Wait until so many events are on disk; returns how long it took, in seconds."""
    begin = time.monotonic()
    while stored(recording).events < events:
        if time.monotonic() - begin > _PATIENCE:
            raise TimeoutError(f"{stored(recording)} instead of {events} events on disk")
        await asyncio.sleep(0.05)
    return time.monotonic() - begin


def size_on_disk(recording: Path) -> int:
    """Bytes of the recording and of what SQLite keeps beside it."""
    return sum(path.stat().st_size for path in recording.parent.glob(recording.name + "*"))


class Record:
    """`nri-scope record` connected to a runtime."""

    def __init__(self, process: Process, recording: Path) -> None:
        self.process = process
        self.recording = recording

    @classmethod
    async def start(cls, socket: Path, recording: Path, *more: str) -> Self:
        """Start it, with ``more`` options; it ends when the runtime goes away."""
        options = ("--socket", str(socket), "-o", str(recording), "--index", "10", "--once")
        return await cls._run(recording, command(), "record", *options, *more)

    @classmethod
    async def probes(cls, socket: Path, recording: Path, indices: Sequence[str]) -> Self:
        """Start `diff --live` with probes at these indices in its place."""
        options = ("--socket", str(socket), "-o", str(recording), "--once")
        probes = ("--probes", ",".join(indices))
        return await cls._run(recording, command(), "diff", "--live", *probes, *options)

    @classmethod
    async def _run(cls, recording: Path, *words: str) -> Self:
        process = await asyncio.create_subprocess_exec(*words, stdout=DEVNULL, stderr=DEVNULL)
        return cls(process, recording)

    async def drained(self, events: int) -> float:
        """As the function of this name."""
        return await drained(self.recording, events)

    async def settled(self, events: int) -> float:
        """Wait until so many events are on disk and nothing more is made of them; in seconds.

        What shows events as they come works on after they were stored.
        """
        begin = time.monotonic()
        await self.drained(events)
        before = -_IDLE
        while (now := processor_time(self.process.pid)) >= before + _IDLE:
            if time.monotonic() - begin > _PATIENCE:
                raise TimeoutError(f"still at work with {events} events")
            before = now
            await asyncio.sleep(_LOOK)
        return time.monotonic() - begin

    def peak_memory(self) -> float:
        """Return the most memory that it and its helper processes ever had resident, in MiB.

        The peaks are added up; what they share, which is most of Python, counts twice.
        """
        return _peak(self.process.pid)

    async def stop(self) -> None:
        """Ask it to end, as a user would with Ctrl-C."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
        if status := await asyncio.wait_for(self.process.wait(), _PATIENCE):
            raise RuntimeError(f"it ended with exit status {status}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


class Tap(Record):
    """`nri-scope tap --listen` between plugins and a runtime."""

    @classmethod
    async def listen(cls, listen: Path, socket: Path, recording: Path) -> Self:
        """Start it; it ends when it is told to."""
        options = ("--listen", str(listen), "--socket", str(socket), "-o", str(recording))
        return await cls._run(recording, command(), "tap", *options)
