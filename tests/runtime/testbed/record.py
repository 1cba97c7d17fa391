# SPDX-License-Identifier: Apache-2.0
"""``nri-scope`` as a user runs it: the installed command, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import cast

from .containerd import Containerd
from .happened import Happened
from .packages import TestbedError

Line = Mapping[str, object]
"""One object of ``--format jsonl``."""

PATIENCE = 60.0
"""Seconds to wait for something that takes well under one."""

PLUGIN = "00-nri-scope"
"""How it registers unless told otherwise."""

HANDSHAKE = frozenset({"Configure", "Synchronize"})
"""What a session starts with, before the runtime tells of anything that happens."""


def command() -> Path:
    """The ``nri-scope`` that is installed beside the interpreter running the tests."""
    return Path(sys.executable).parent / "nri-scope"


async def nri_scope(*arguments: str | Path) -> str:
    """Run one command to its end and return its output.

    :raises TestbedError: it did not end with status 0; holds what it said on stderr.
    """
    process = await asyncio.create_subprocess_exec(
        *(command(), *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    if process.returncode:
        words = " ".join(map(str, arguments))
        raise TestbedError(
            f"nri-scope {words}: status {process.returncode}: {errors.decode(errors='replace')}"
        )
    return output.decode()


async def log(recording: Path) -> list[Line]:
    """Everything that ``nri-scope log`` tells of a recording, gaps too."""
    return _lines(await nri_scope("log", recording, "--format", "jsonl"))


def rows(recording: Path, query: str) -> list[tuple[object, ...]]:
    """What plain SQLite answers, without any help of ours."""
    with closing(sqlite3.connect(f"file:{recording}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def happened(lines: list[Line]) -> list[Happened]:
    """The events among ``lines``, without the start of sessions and without gaps."""
    return [
        Happened(*(str(line[name] or "") for name in Happened._fields))
        for line in lines
        if "event" in line and line["event"] not in HANDSHAKE
    ]


class Record:
    """A running ``nri-scope record``; made by :func:`recording`."""

    def __init__(self, process: asyncio.subprocess.Process, containerd: Containerd) -> None:
        self._process = process
        self._containerd = containerd
        self._connections = containerd.connections(PLUGIN)
        self._changed = asyncio.Condition()
        self.events: list[Line] = []
        """What it has printed, that is: what it has stored."""
        self.words: list[str] = []
        """What it has said on stderr, line by line."""
        self._open_streams = 2
        self._readers = [
            asyncio.ensure_future(self._read(process.stdout, self._take_event)),
            asyncio.ensure_future(self._read(process.stderr, self.words.append)),
        ]

    async def connected(self) -> None:
        """Wait until containerd has it in the chain once more than the last time.

        :raises TestbedError: it ended before, or takes too long.
        """
        self._connections += 1
        try:
            async with asyncio.timeout(PATIENCE):
                while self._containerd.connections(PLUGIN) < self._connections:
                    if self._process.returncode is not None:
                        raise TestbedError(f"record ended before it was connected; {self._told()}")
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise TestbedError(f"record: not connected; {self._told()}") from None

    async def said(self, text: str, times: int = 1) -> None:
        """Wait until it has said ``text`` in that many lines.

        :raises TestbedError: it ended before, or takes too long.
        """
        await self._until(lambda: sum(text in line for line in self.words) >= times, repr(text))

    async def stored(self, count: int) -> None:
        """Wait until it has stored that many events."""
        await self._until(lambda: len(self.events) >= count, f"{count} events")

    async def saw(self, event: Happened) -> None:
        """Wait until it has stored this event."""
        await self._until(lambda: event in happened(self.events), f"{event}")

    async def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal, wait until it has ended; returns its exit status."""
        if self._process.returncode is None:
            self.signal(number)
        return await self.wait()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Wait until it has ended by itself; returns its exit status."""
        try:
            async with asyncio.timeout(PATIENCE):
                status = await self._process.wait()
                await asyncio.gather(*self._readers)
        except TimeoutError:
            self._process.kill()
            raise TestbedError(f"record did not end; {self._told()}") from None
        return status

    async def _until(self, done: Callable[[], bool], what: str) -> None:
        def settled() -> bool:
            return done() or self._open_streams == 0

        try:
            async with asyncio.timeout(PATIENCE), self._changed:
                await self._changed.wait_for(settled)
        except TimeoutError:
            raise TestbedError(f"record: no {what} in {PATIENCE:g} s; {self._told()}") from None
        if not done():
            raise TestbedError(f"record ended before {what}; {self._told()}")

    def _told(self) -> str:
        return f"it stored {len(self.events)} events and said: {' | '.join(self.words)}"

    async def _read(self, stream: asyncio.StreamReader | None, take: Callable[[str], None]) -> None:
        assert stream is not None
        try:
            async for line in stream:
                take(line.decode(errors="replace").rstrip("\n"))
                async with self._changed:
                    self._changed.notify_all()
        finally:
            self._open_streams -= 1
            async with self._changed:
                self._changed.notify_all()

    def _take_event(self, line: str) -> None:
        self.events += _lines(line)


@asynccontextmanager
async def recording(
    file: Path, containerd: Containerd, *options: str, connected: bool = True
) -> AsyncIterator[Record]:
    """``nri-scope record`` into ``file``; unless told otherwise, once it is in the chain."""
    process = await asyncio.create_subprocess_exec(
        *(command(), "record", "-o", file, "--socket", containerd.nri_socket),
        *("--print", "jsonl", *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    record = Record(process, containerd)
    try:
        if connected:
            await record.connected()
        yield record
    finally:
        if process.returncode is None:
            await record.end(signal.SIGKILL)


def _lines(text: str) -> list[Line]:
    return [cast(Line, json.loads(line)) for line in text.splitlines() if line]
