# SPDX-License-Identifier: Apache-2.0
"""Stay connected: for a plugin, a runtime's restart is just a closed socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic

from nri_scope.errors import ConnectError, ConnectionClosed, DeadlineExceeded, NriScopeError

from .session import SessionEnd

ABSENT_POLL = 0.1
"""Seconds between two checks for a socket with a listening runtime. A runtime that comes back is
found within this time, regardless of changes to the socket's folder. A check costs some 50 µs and,
unlike a failing session, disturbs no runtime.
"""


@dataclass(slots=True)
class Backoff:
    """Pauses between attempts, in seconds: short at first, since events are missed meanwhile."""

    first: float = 0.1
    longest: float = 5.0
    absent: float = ABSENT_POLL
    """Pause while no runtime is running."""
    healthy: float = 10.0
    """Length of a session after which the next attempt need not be delayed."""
    _next: float = 0.0

    def pause(self, lasted: float) -> float:
        """Return the pause after a session, or an attempt, of ``lasted`` seconds."""
        if lasted >= self.healthy or not self._next:
            self._next = self.first
        pause, self._next = self._next, min(self._next * 2, self.longest)
        return pause

    def poll(self) -> float:
        """Return the pause for an absent runtime; earlier failures are forgotten."""
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
    """Run session after session, until ``stopping`` or, with ``once``, until one has ended.

    An error that prevents the first session is raised, unless it is merely that no runtime is
    running and ``wait`` is set. Later all errors are waited out, including refusals: a runtime that
    is just starting may refuse for a while. ``on_wait`` is called when such a wait begins.
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
