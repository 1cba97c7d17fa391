# SPDX-License-Identifier: Apache-2.0
"""Query the CRI for containers' specs, a few at a time, with retries and timeouts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nri_scope.errors import ConnectError, ConnectionClosed, NriScopeError, RpcError
from nri_scope.recording.query.cri_answers import NOT_FOUND

if TYPE_CHECKING:
    from nri_scope.cri.status import RuntimeVersion

CALLS_MAX = 4
"""Maximum number of concurrent calls: the runtime has other work."""
WAITING_MAX = 2_000
"""Maximum number of queued containers; further containers are only counted."""
CALLS_PER_SECOND = 50
"""Maximum rate of calls. A verbose ContainerStatus takes some milliseconds of the runtime's time.
"""
CALL_SECONDS = 10.0
"""Timeout of one call, in seconds."""
SETTLE_SECONDS = 0.2
"""Delay between an event of a container and the query: a container is usually created and started
in that time, so one query is enough."""
RETRY_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Delays before the retries for a container that is unknown to the runtime (yet)."""
UNREACHABLE_RETRY_SECONDS = 2.0
"""Delay before a retry if the runtime is unreachable."""
_CODE_NOT_FOUND = 5


class PolledAnswer(NamedTuple):
    """The CRI's answer about a container."""

    container: str
    wall_ns: int
    """Time of the query, in ns since the epoch."""
    mono_ns: int
    took_ns: int
    """Time until the answer and the container's files were read."""
    text: str
    """The JSON under ``info``; `NOT_FOUND` if the runtime does not know the container."""


class Client(Protocol):
    """The part of `CriClient` that the poller uses."""

    async def version(self, *, timeout: float = ...) -> RuntimeVersion: ...
    async def container_info(self, container_id: str, *, timeout: float = ...) -> str: ...


class CriListener(Protocol):
    """Receiver of answers, and of when the CRI is available; times in ns since the epoch."""

    def began(self, name: str, version: str, at_ns: int) -> None: ...
    def ended(self, reason: str, at_ns: int) -> None: ...
    def answered(self, answer: PolledAnswer) -> None: ...


@dataclass(slots=True)
class _Query:
    again: bool = False
    """Whether the container changed during the query, which must be repeated."""
    gone: bool = False
    attempt: int = 0


@dataclass(eq=False)
class CriPoller:
    """Queue of containers to query, each at most once. For one event loop."""

    client: Client
    listener: CriListener
    settle: float = SETTLE_SECONDS
    pauses: tuple[float, ...] = RETRY_SECONDS
    away_pause: float = UNREACHABLE_RETRY_SECONDS
    interval: float = 1 / CALLS_PER_SECOND
    away: bool = False
    """Whether the CRI is not known to be available."""
    answered: int = 0
    unanswered: int = 0
    """Number of queries given up: refused, out of time, or beyond the queue."""
    _next_call: float = 0.0
    _queries: dict[str, _Query] = field(default_factory=dict)
    _due: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    _is_end_told: bool = False
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no container is queued."""

    def want(self, container: str) -> None:
        """Queue a container; repeat a query that is in progress."""
        query = self._queries.get(container)
        if query is not None:
            query.again = True
        elif len(self._queries) >= WAITING_MAX:
            self.unanswered += 1
        else:
            self._queries[container] = _Query()
            self._idle.clear()
            self._later(container, self.settle)

    def forget(self, container: str) -> None:
        """Mark a container as removed: an unknown container is then no failure."""
        query = self._queries.get(container)
        if query is not None:
            query.gone = True

    async def run(self) -> None:
        """Run queries until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CALLS_MAX):
                group.create_task(self._work())

    async def finish(self, seconds: float) -> None:
        """Wait up to `seconds` for the queue to empty, unless the runtime is unreachable.

        The rest is counted as unanswered.
        """
        if self._queries and not self.away:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)
        self.unanswered += len(self._queries)
        self._queries.clear()

    async def _work(self) -> None:
        while True:
            container = await self._due.get()
            query = self._queries.get(container)
            if query is not None:
                await self._wait_for_turn()
                query.again = False
                await self._ask(container, query)

    async def _wait_for_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        start = max(now, self._next_call)
        self._next_call = start + self.interval
        if start > now:
            await asyncio.sleep(start - now)

    async def _ask(self, container: str, query: _Query) -> None:
        wall_ns, mono_ns = time_ns(), monotonic_ns()
        try:
            if self.away:
                runtime = await self.client.version(timeout=CALL_SECONDS)
                if self.away:
                    self.away = self._is_end_told = False
                    self.listener.began(runtime.name, runtime.version, time_ns())
            text = await self.client.container_info(container, timeout=CALL_SECONDS)
        except (ConnectError, ConnectionClosed) as error:
            self.away = True
            if not self._is_end_told:
                self._is_end_told = True
                self.listener.ended(str(error), time_ns())
            self._later(container, self.away_pause)
        except NriScopeError as error:
            unknown = isinstance(error, RpcError) and error.code == _CODE_NOT_FOUND
            if unknown and query.gone:
                # Its removal is in the recording.
                self._done(container)
            elif not unknown:
                self._done(container, unanswered=1)
            elif query.attempt < len(self.pauses):
                query.attempt += 1
                self._later(container, self.pauses[query.attempt - 1])
            else:
                self._answer(query, container, NOT_FOUND, wall_ns, mono_ns)
        else:
            if text:
                self._answer(query, container, text, wall_ns, mono_ns)
            else:
                self._done(container, unanswered=1)

    def _answer(self, query: _Query, container: str, text: str, wall_ns: int, mono_ns: int) -> None:
        self.answered += 1
        self.listener.answered(PolledAnswer(container, wall_ns, mono_ns, _since(mono_ns), text))
        if query.again:
            query.attempt = 0
            self._later(container, self.settle)
        else:
            self._done(container)

    def _later(self, container: str, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._due.put_nowait, container)

    def _done(self, container: str, *, unanswered: int = 0) -> None:
        """End the query for a container."""
        self.unanswered += unanswered
        self._queries.pop(container, None)
        if not self._queries:
            self._idle.set()


def _since(mono_ns: int) -> int:
    return monotonic_ns() - mono_ns
