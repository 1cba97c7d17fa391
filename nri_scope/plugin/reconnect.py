# SPDX-License-Identifier: Apache-2.0
"""Reconnection: for a plugin, a runtime's restart is just a closed socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic

from nri_scope.errors import ConnectError, ConnectionClosed, DeadlineExceeded, NriScopeError

from .session import SessionEnd

ABSENT_POLL = 0.1
"""Seconds between two attempts to connect while no runtime listens. Changes of the socket's folder
are not watched. An attempt takes about 50 µs, and no runtime notices it.
"""


@dataclass(slots=True)
class Backoff:
    """Pauses between attempts in seconds, which double from `first` to `longest`."""

    first: float = 0.1
    longest: float = 5.0
    absent: float = ABSENT_POLL
    """Pause while no runtime is running."""
    healthy: float = 10.0
    """Length of a session after which pauses start from `first` again."""
    _next: float = 0.0

    def pause(self, lasted: float) -> float:
        """Return the pause after a session, or a failed attempt, that lasted ``lasted`` seconds."""
        if lasted >= self.healthy or not self._next:
            self._next = self.first
        pause, self._next = self._next, min(self._next * 2, self.longest)
        return pause

    def poll(self) -> float:
        """Return the pause while no runtime is running; later pauses start from `first`."""
        self._next = self.first
        return self.absent


async def keep_connected(
    run_session: Callable[[], Awaitable[SessionEnd]],
    *,
    wait: bool,
    once: bool,
    stopping: Callable[[], bool],
    backoff: Backoff | None = None,
    on_end: Callable[[SessionEnd], None] = lambda end: None,
    on_wait: Callable[[NriScopeError], None] = lambda error: None,
) -> None:
    """Run one session after the other until ``stopping`` or, with ``once``, until one has ended.

    Before the first session, errors are raised; with ``wait``, attempts are repeated as long as no
    runtime is running. After the first session all errors lead to another attempt, even rejections:
    a starting runtime may reject plugins for a while. ``on_wait`` is called with the first error of
    a series.
    """
    backoff = backoff or Backoff()
    connected = False
    waiting = False
    while True:
        started = monotonic()
        absent = False
        try:
            end = await run_session()
        except NriScopeError as error:
            if stopping():
                return
            absent = isinstance(error, ConnectError) and error.can_retry
            starting = absent or isinstance(error, ConnectionClosed | DeadlineExceeded)
            if not (connected or (wait and starting)):
                raise
            if not waiting:
                on_wait(error)
            waiting = True
        else:
            connected, waiting = True, False
            on_end(end)
            if once or stopping():
                return
        await asyncio.sleep(backoff.poll() if absent else backoff.pause(monotonic() - started))
