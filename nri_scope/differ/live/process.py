# SPDX-License-Identifier: Apache-2.0
"""A second process of the same program, which never outlives the first one for long."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, Self

from .channel import ToParent, ToWatcher, WatcherEnd, packed, receive

FAILED = 2
"""Exit status of a watcher that could not do its work."""
NICER = 10
"""Steps of niceness between the process that answers the runtime and this one. They share no lock
for which the first could wait, so this one may be late."""
_LEFT_TO_THE_FIRST = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class WatcherProcess:
    """The other process, as the one that answers the runtime sees it."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        """Use `fork`."""
        self.pid = pid
        self._end = end
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._status: int | None = None
        self.was_killed = False
        """Whether a signal ended it; known once it `ended`."""

    @classmethod
    def fork(cls, work: Callable[[WatcherEnd], int]) -> Self:
        """Run ``work`` in a new process; what it returns is its exit status.

        To be called before there are threads or an event loop. Signals that end a run are left to
        the first process: the second one ends when its work is done, and has to do so when the
        first one has gone.
        """
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            # So some who start programs leave it; then nobody could learn how this one ended.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            ours.close()
            _work(work, theirs)
        theirs.close()
        return cls(pid, ours)

    async def receive(self) -> ToParent | None:
        """The watcher's next message; None when it has ended."""
        reader, _ = await self._streams()
        return await receive(reader)

    async def send(self, message: ToWatcher) -> None:
        """Tell the watcher; one that has ended does not hear it."""
        _, writer = await self._streams()
        if not writer.is_closing():
            # Few and short: they never fill the socket.
            with suppress(OSError):
                writer.write(packed(message))

    async def ended(self) -> int:
        """Wait for its end; its exit status, `FAILED` where it was killed."""
        while (status := self._poll()) is None:
            await asyncio.sleep(0.01)
        return status

    def kill(self) -> None:
        """End it at once, if it still runs."""
        if self._poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Leave no process and no socket behind. Never raises."""
        self._end.close()
        with suppress(OSError):
            self.kill()
            if self._status is None:
                os.waitpid(self.pid, 0)

    async def _streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_unix_connection(sock=self._end)
        return self._reader, self._writer

    def _poll(self) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.was_killed = code < 0
                self._status = FAILED if code < 0 else code
        return self._status


def _work(work: Callable[[WatcherEnd], int], end: socket.socket) -> NoReturn:
    status = FAILED
    try:
        for number in _LEFT_TO_THE_FIRST:
            signal.signal(number, signal.SIG_IGN)
        # What the first process has to answer is more urgent.
        os.nice(NICER)
        with suppress(OSError):
            # It does not take the processor away from who has just been woken.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        status = work(WatcherEnd(end))
    except BaseException:  # noqa: BLE001 - nothing of the first process may run on in this one
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        # Without the first process's exit handlers and buffers.
        os._exit(status)
