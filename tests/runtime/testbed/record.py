# SPDX-License-Identifier: Apache-2.0
"""The installed ``nri-scope`` command in a separate process."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import cast

from .containerd import Containerd
from .happened import Happened, Step, in_order
from .packages import TestbedError

Line = Mapping[str, object]
"""One object of ``--format jsonl``."""

PATIENCE = 60.0
"""Timeout in seconds for operations that take well under one."""

PLUGIN = "00-nri-scope"
"""Default registration of `record`."""

HANDSHAKE = frozenset({"Configure", "Synchronize"})
"""Requests at the start of a session, before the first event."""


def command() -> Path:
    """Return the ``nri-scope`` installed beside the interpreter of the tests."""
    return Path(sys.executable).parent / "nri-scope"


async def nri_scope(*arguments: str | Path) -> str:
    """Run a command to its end and return its output.

    :raises TestbedError: its exit status is not 0; the message contains stderr.
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
    """Return all lines of ``nri-scope log`` for a recording, including gaps."""
    return _lines(await nri_scope("log", recording, "--format", "jsonl"))


def rows(recording: Path, query: str) -> list[tuple[object, ...]]:
    """Return the rows of a query with plain SQLite."""
    with closing(sqlite3.connect(f"file:{recording}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def happened(lines: list[Line]) -> list[Happened]:
    """Return the events in ``lines``, without session starts and gaps."""
    return [
        Happened(*(str(line[name] or "") for name in Happened._fields))
        for line in lines
        if "event" in line and line["event"] not in HANDSHAKE
    ]


class Record:
    """A running ``nri-scope record``; created by :func:`recording`."""

    def __init__(self, process: asyncio.subprocess.Process, containerd: Containerd) -> None:
        self._process = process
        self._containerd = containerd
        self._connections = containerd.connections(PLUGIN)
        self._changed = asyncio.Condition()
        self.events: list[Line] = []
        """Printed events, which have been stored."""
        self.words: list[str] = []
        """Lines on stderr."""
        self._open_streams = 2
        self._readers = [
            asyncio.ensure_future(self._read(process.stdout, self._take_event)),
            asyncio.ensure_future(self._read(process.stderr, self.words.append)),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    async def connected(self) -> None:
        """Wait until containerd has added it to the chain once more since the last call.

        :raises TestbedError: the command ended before, or timeout.
        """
        self._connections += 1
        try:
            async with asyncio.timeout(PATIENCE):
                while self._containerd.connections(PLUGIN) < self._connections:
                    if self._process.returncode is not None:
                        raise TestbedError(f"record ended before it connected; {self._output()}")
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise TestbedError(f"record: not connected; {self._output()}") from None

    async def said(self, text: str, times: int = 1) -> None:
        """Wait until ``times`` lines on stderr contain ``text``.

        :raises TestbedError: the command ended before, or timeout.
        """
        await self._until(lambda: sum(text in line for line in self.words) >= times, repr(text))

    async def stored(self, count: int) -> None:
        """Wait until ``count`` events have been stored."""
        await self._until(lambda: len(self.events) >= count, f"{count} events")

    async def saw(self, event: Happened) -> None:
        """Wait until an event has been stored."""
        await self._until(lambda: event in happened(self.events), f"{event}")

    async def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal, wait for the command's end, and return its exit status."""
        if self._process.returncode is None:
            self.signal(number)
        return await self.wait()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Wait until the command ends by itself, and return its exit status."""
        try:
            async with asyncio.timeout(PATIENCE):
                status = await self._process.wait()
                await asyncio.gather(*self._readers)
        except TimeoutError:
            self._process.kill()
            raise TestbedError(f"record did not end; {self._output()}") from None
        return status

    async def _until(self, done: Callable[[], bool], what: str) -> None:
        def settled() -> bool:
            return done() or self._open_streams == 0

        try:
            async with asyncio.timeout(PATIENCE), self._changed:
                await self._changed.wait_for(settled)
        except TimeoutError:
            raise TestbedError(f"record: no {what} in {PATIENCE:g} s; {self._output()}") from None
        if not done():
            raise TestbedError(f"record ended before {what}; {self._output()}")

    def _output(self) -> str:
        return f"it stored {len(self.events)} events; stderr: {' | '.join(self.words)}"

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
    """Run ``nri-scope record`` with ``file``; by default, wait until it is connected."""
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


def assert_told(lines: list[Line], steps: Sequence[Step]) -> None:
    """Check that the recording contains exactly the events of these steps, in order."""
    seen = happened(lines)
    assert seen == in_order(steps, seen)


STALLED, NOT_CONNECTED = "stalled", "not connected"


def gaps(lines: list[Line], why: str) -> list[Line]:
    """The gaps for this reason. (A busy machine can make `record` stand still at any time.)"""
    return [line for line in lines if "event" not in line and why in str(line["gap"])]
