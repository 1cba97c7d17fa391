# SPDX-License-Identifier: Apache-2.0
"""Query the CRI for containers' specs, a few at a time, with retries and timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Protocol

from nri_scope.errors import ConnectError, ConnectionClosed, NriScopeError, RpcError

from .channel import Answer, CriBegan, CriEnded

if TYPE_CHECKING:
    from nri_scope.cri.status import RuntimeVersion

CALLS_MAX = 4
"""Maximum number of concurrent calls: the runtime has other work."""
WAITING_MAX = 2_000
"""Maximum number of queued containers; further containers are only counted."""
CALL_SECONDS = 10.0
"""Timeout of one call, in seconds."""
SETTLE_SECONDS = 0.2
"""Delay between an event of a container and the query: a container is usually created and started
in that time, so one query is enough."""
RETRY_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Delays before the retries for a container that is unknown to the runtime (yet)."""
UNREACHABLE_RETRY_SECONDS = 2.0
"""Delay before a retry if the runtime is unreachable."""
_NOT_FOUND = 5


class Client(Protocol):
    """The part of `CriClient` that the poller uses."""

    async def version(self, *, timeout: float = ...) -> RuntimeVersion: ...
    async def container_info(self, container_id: str, *, timeout: float = ...) -> str: ...


@dataclass(slots=True)
class _Query:
    again: bool = False
    """Whether the container changed during the query, which must be repeated."""
    gone: bool = False
    attempt: int = 0


class CriPoller:
    """Queue of containers to query, each at most once. For one event loop."""

    def __init__(
        self,
        client: Client,
        tell: Callable[[CriBegan | Answer | CriEnded], None],
        *,
        settle: float = SETTLE_SECONDS,
        pauses: tuple[float, ...] = RETRY_SECONDS,
        away_pause: float = UNREACHABLE_RETRY_SECONDS,
    ) -> None:
        self.answered = 0
        self.unanswered = 0
        """Number of containers given up: unknown to the runtime, refused, or beyond the queue."""
        self._client = client
        self._tell = tell
        self._settle = settle
        self._pauses = pauses
        self._away_pause = away_pause
        self._queries: dict[str, _Query] = {}
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._away = False
        self._idle = asyncio.Event()
        self._idle.set()

    def want(self, container: str) -> None:
        """Queue a container; repeat a query that is in progress."""
        known = self._queries.get(container)
        if known is not None:
            known.again = True
        elif len(self._queries) >= WAITING_MAX:
            self.unanswered += 1
        else:
            self._queries[container] = _Query()
            self._idle.clear()
            self._later(container, self._settle)

    def forget(self, container: str) -> None:
        """Mark a container as removed: an unknown container is then no failure."""
        known = self._queries.get(container)
        if known is not None:
            known.gone = True

    async def run(self) -> None:
        """Run queries until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CALLS_MAX):
                group.create_task(self._work())

    async def finish(self, seconds: float) -> None:
        """Wait up to `seconds` for the queue to empty; count the rest as unanswered."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)
        self.unanswered += len(self._queries)
        self._queries.clear()

    async def _work(self) -> None:
        while True:
            container = await self._due.get()
            query = self._queries.get(container)
            if query is not None:
                query.again = False
                await self._ask(container, query)

    async def _ask(self, container: str, query: _Query) -> None:
        wall_ns, mono_ns = time_ns(), monotonic_ns()
        try:
            if self._away:
                runtime = await self._client.version(timeout=CALL_SECONDS)
                if self._away:
                    self._away = False
                    self._tell(CriBegan(runtime.name, runtime.version, time_ns()))
            text = await self._client.container_info(container, timeout=CALL_SECONDS)
        except (ConnectError, ConnectionClosed) as error:
            if not self._away:
                self._away = True
                self._tell(CriEnded(str(error), time_ns()))
            self._later(container, self._away_pause)
        except NriScopeError as error:
            unknown = isinstance(error, RpcError) and error.code == _NOT_FOUND
            if unknown and not query.gone and query.attempt < len(self._pauses):
                query.attempt += 1
                self._later(container, self._pauses[query.attempt - 1])
            else:
                self._done(container, answered=None if unknown and query.gone else False)
        else:
            took_ns = monotonic_ns() - mono_ns
            if not text:
                self._done(container, answered=False)
                return
            self._tell(Answer(container, wall_ns, mono_ns, took_ns, text))
            if query.again:
                self.answered += 1
                self._later(container, self._settle)
            else:
                self._done(container, answered=True)

    def _later(self, container: str, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._due.put_nowait, container)

    def _done(self, container: str, *, answered: bool | None) -> None:
        """End the query for a container. ``answered`` is None if no answer is needed any more."""
        if answered:
            self.answered += 1
        elif answered is not None:
            self.unanswered += 1
        self._queries.pop(container, None)
        if not self._queries:
            self._idle.set()
