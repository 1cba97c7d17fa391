# SPDX-License-Identifier: Apache-2.0
"""Staying connected: a runtime's restart is, to a plugin, just a closed socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic

from nri_scope.errors import ConnectError, ConnectionClosed, DeadlineExceeded, NriScopeError

from .session import SessionEnd

ABSENT_POLL = 0.1
"""Seconds between two looks for a socket that no runtime listens on. A runtime that comes back is
found within this time, whatever became of the socket's folder. A look costs some 50 µs and, unlike
a session that fails, disturbs no runtime.
"""


@dataclass(slots=True)
class Backoff:
    """Pauses between attempts, in seconds: short at first, since every second is unobserved."""

    first: float = 0.1
    longest: float = 5.0
    absent: float = ABSENT_POLL
    """While there is no runtime at all."""
    healthy: float = 10.0
    """A session that lasted this long shows that the next attempt need not be put off."""
    _next: float = 0.0

    def pause(self, lasted: float) -> float:
        """Return how long to wait after a session, or an attempt, of ``lasted`` seconds."""
        if lasted >= self.healthy or not self._next:
            self._next = self.first
        pause, self._next = self._next, min(self._next * 2, self.longest)
        return pause

    def poll(self) -> float:
        """Return how long to wait for an absent runtime; earlier failures are forgotten."""
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

    What keeps the first session from beginning is raised, unless there is merely no runtime to
    connect to and ``wait`` is set. Later everything is waited out, a refusal too: a runtime that is
    just starting may refuse for a while. ``on_wait`` is called when such a wait begins.
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
            absent = isinstance(error, ConnectError) and error.may_come
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
