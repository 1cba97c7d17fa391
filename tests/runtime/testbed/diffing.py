# SPDX-License-Identifier: Apache-2.0
"""``nri-scope diff --live`` in a separate process."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from .containerd import Containerd
from .packages import TestbedError
from .record import PATIENCE, command

PROBES = ("00", "30", "50", "99")

JsonObject = dict[str, Any]
"""One round, as printed by ``--live --format json``."""


class Diff:
    """A running ``nri-scope diff --live``; created by :func:`diffing`."""

    def __init__(self, process: asyncio.subprocess.Process, containerd: Containerd) -> None:
        self._process = process
        self._containerd = containerd
        self._changed = asyncio.Condition()
        self._open_streams = 2
        self.rounds: list[JsonObject] = []
        """Printed rounds."""
        self.reported: set[tuple[str, str]] = set()
        """Event and container id of each printed round."""
        self.words: list[str] = []
        """Lines on stderr."""
        self._readers = [
            asyncio.ensure_future(self._read(process.stdout, self._take)),
            asyncio.ensure_future(self._read(process.stderr, self.words.append)),
        ]

    @property
    def pid(self) -> int:
        """Id of the process connected to the runtime: a child of the printing process."""
        parent = self._process.pid
        (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return int(child)

    async def connected(self) -> None:
        """Wait until all probes are in the chain.

        :raises TestbedError: the command ended before, or timeout.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not all(self._containerd.connections(f"{one}-nri-scope") for one in PROBES):
                    if self._process.returncode is not None:
                        raise TestbedError(f"diff ended before it connected; {self._output()}")
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise TestbedError(f"diff: not connected; {self._output()}") from None

    async def wait_for(self, what: str, done: Callable[[], bool]) -> None:
        """Wait until the output fulfils a condition; ``what`` names it in errors.

        :raises TestbedError: the command ended before, or timeout.
        """
        try:
            async with asyncio.timeout(PATIENCE), self._changed:
                await self._changed.wait_for(lambda: done() or self._open_streams == 0)
        except TimeoutError:
            raise TestbedError(f"diff: no {what} in {PATIENCE:g} s; {self._output()}") from None
        if not done():
            raise TestbedError(f"diff ended before {what}; {self._output()}")

    async def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal, wait for the command's end, and return its exit status."""
        if self._process.returncode is None:
            self._process.send_signal(number)
        try:
            async with asyncio.timeout(PATIENCE):
                status = await self._process.wait()
                await asyncio.gather(*self._readers)
        except TimeoutError:
            self._process.kill()
            raise TestbedError(f"diff did not end; {self._output()}") from None
        return status

    def _output(self) -> str:
        return f"it printed {len(self.rounds)} rounds; stderr: {' | '.join(self.words)}"

    def _take(self, line: str) -> None:
        one = cast(JsonObject, json.loads(line))
        self.rounds.append(one)
        self.reported.add((one["event"], one["container_id"]))

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


@asynccontextmanager
async def diffing(file: Path, containerd: Containerd) -> AsyncIterator[Diff]:
    """Run ``nri-scope diff --live`` with four probes and the CRI; wait for its connection."""
    process = await asyncio.create_subprocess_exec(
        *(command(), "diff", "--live", "--probes", ",".join(PROBES), "--format", "json"),
        *("--all", "--socket", containerd.nri_socket, "--cri"),
        *(containerd.layout.cri_socket, "-o", file),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=16 << 20,
    )
    diff = Diff(process, containerd)
    try:
        await diff.connected()
        yield diff
    finally:
        if process.returncode is None:
            await diff.end(signal.SIGKILL)
