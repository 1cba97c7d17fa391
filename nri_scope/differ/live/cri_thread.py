# SPDX-License-Identifier: Apache-2.0
"""Run the CRI queries in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from time import time_ns

from nri_scope.cri import CriClient

from .channel import CriBegan, CriPollingEnded, ToRecorder
from .cri_polling import CriPoller

FINISH_SECONDS = 3.0
"""Timeout of the remaining queries at the end."""


class CriThread:
    """Thread that queries the CRI at ``path``, and sends its answers to the recorder."""

    def __init__(self, path: Path, tell: Callable[[ToRecorder], None]) -> None:
        """Connect. Raises ConnectError or RpcError if there is no CRI."""
        self._path = path
        self._tell = tell
        self._asker: CriPoller | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finished: asyncio.Event | None = None
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="cri", daemon=True)
        self._thread.start()
        started.result()

    def want(self, containers: Iterable[str]) -> None:
        """Queue containers to query."""
        if self._loop is not None and self._asker is not None:
            for container in containers:
                self._loop.call_soon_threadsafe(self._asker.want, container)

    def forget(self, container: str) -> None:
        """Mark a container as removed."""
        if self._loop is not None and self._asker is not None:
            self._loop.call_soon_threadsafe(self._asker.forget, container)

    def finish(self) -> None:
        """Complete the remaining queries, for at most `FINISH_SECONDS`, and end the thread."""
        if self._loop is not None and self._finished is not None:
            self._loop.call_soon_threadsafe(self._finished.set)
            self._thread.join()

    def _run(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._main(started))
        except BaseException as error:
            # The waiting thread must not hang, even after an unexpected error.
            if started.done():
                raise
            started.set_exception(error)

    async def _main(self, started: Future[None]) -> None:
        async with await CriClient.connect(self._path) as client:
            self._loop = asyncio.get_running_loop()
            self._finished = asyncio.Event()
            asker = self._asker = CriPoller(client, self._tell)
            self._tell(CriBegan(client.runtime.name, client.runtime.version, time_ns()))
            started.set_result(None)
            asking = asyncio.create_task(asker.run())
            await self._finished.wait()
            await asker.finish(FINISH_SECONDS)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            self._tell(CriPollingEnded(asker.answered, asker.unanswered))
