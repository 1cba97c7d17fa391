# SPDX-License-Identifier: Apache-2.0
"""Start the writer process of a recording, and communicate with it: its orders and its reports."""

from __future__ import annotations

import asyncio
import json
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from subprocess import DEVNULL
from typing import Any

from nri_scope.errors import NriScopeError
from nri_scope.process.channel import LoopChannel
from nri_scope.process.child import keep_exit_statuses, spawn
from nri_scope.recorder.inbox import RecorderCounters

from .messages import Opening, Order, Progress, Report, error_of

READY_S = 20.0
"""Maximum time in seconds for the writer to open the file."""
EXIT_S = 5.0
"""Maximum time in seconds for a writer without entries to exit."""


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
        self.loop = asyncio.get_running_loop()
        self.over = asyncio.Event()
        """Set after the last report."""
        self.counters = RecorderCounters()
        self.lost_before = 0
        self.closed = False
        """Whether all entries sent are in the file, or recorded there as lost."""
        self._say = say
        self._on_numbered = on_numbered
        self._on_progress = on_progress
        self._opened: asyncio.Future[None] = self.loop.create_future()
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
