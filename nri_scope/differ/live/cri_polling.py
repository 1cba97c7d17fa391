# SPDX-License-Identifier: Apache-2.0
"""Asks the CRI about the outcome of containers: a few at a time, repeatedly, with time limits."""

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

AT_ONCE = 4
"""Number of calls at one time: the runtime has other work."""
WAITING_MAX = 2_000
"""Maximum number of containers waiting to be asked about; further ones are only counted."""
CALL_SECONDS = 10.0
"""Timeout of one call, in seconds."""
SETTLE = 0.2
"""Seconds between an event of a container and the question about it: a container is usually created
and started in that time, so one question is enough."""
PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds before asking again about a container that the runtime does not know (yet)."""
AWAY_PAUSE = 2.0
"""Seconds before asking again if the runtime was not reachable."""
_NOT_FOUND = 5


class Client(Protocol):
    """The methods of a `CriClient` that are used here."""

    async def version(self, *, timeout: float = ...) -> RuntimeVersion: ...
    async def container_info(self, container_id: str, *, timeout: float = ...) -> str: ...


@dataclass(slots=True)
class _Question:
    again: bool = False
    """Whether the container changed while the CRI was asked about it."""
    gone: bool = False
    attempt: int = 0


class Asker:
    """A queue of containers to ask about; each is in it once. For one event loop."""

    def __init__(
        self,
        client: Client,
        tell: Callable[[CriBegan | Answer | CriEnded], None],
        *,
        settle: float = SETTLE,
        pauses: tuple[float, ...] = PAUSES,
        away_pause: float = AWAY_PAUSE,
    ) -> None:
        self.answered = 0
        self.unanswered = 0
        """Number of containers given up: unknown to the runtime, refused, or too many at a time."""
        self._client = client
        self._tell = tell
        self._settle = settle
        self._pauses = pauses
        self._away_pause = away_pause
        self._questions: dict[str, _Question] = {}
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._away = False
        self._idle = asyncio.Event()
        self._idle.set()

    def want(self, container: str) -> None:
        """Ask about this container soon, and again if a question about it is in progress."""
        known = self._questions.get(container)
        if known is not None:
            known.again = True
        elif len(self._questions) >= WAITING_MAX:
            self.unanswered += 1
        else:
            self._questions[container] = _Question()
            self._idle.clear()
            self._later(container, self._settle)

    def forget(self, container: str) -> None:
        """Forget a removed container: it is no longer a failure that the CRI does not know it."""
        known = self._questions.get(container)
        if known is not None:
            known.gone = True

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    async def finish(self, seconds: float) -> None:
        """Wait until the queue is empty; questions left after that count as unanswered."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)
        self.unanswered += len(self._questions)
        self._questions.clear()

    async def _work(self) -> None:
        while True:
            container = await self._due.get()
            question = self._questions.get(container)
            if question is not None:
                question.again = False
                await self._ask(container, question)

    async def _ask(self, container: str, question: _Question) -> None:
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
            if unknown and not question.gone and question.attempt < len(self._pauses):
                question.attempt += 1
                self._later(container, self._pauses[question.attempt - 1])
            else:
                self._done(container, answered=None if unknown and question.gone else False)
        else:
            took_ns = monotonic_ns() - mono_ns
            if not text:
                self._done(container, answered=False)
                return
            self._tell(Answer(container, wall_ns, mono_ns, took_ns, text))
            if question.again:
                self.answered += 1
                self._later(container, self._settle)
            else:
                self._done(container, answered=True)

    def _later(self, container: str, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._due.put_nowait, container)

    def _done(self, container: str, *, answered: bool | None) -> None:
        """End the question about a container; ``answered`` None: it no longer needs an answer."""
        if answered:
            self.answered += 1
        elif answered is not None:
            self.unanswered += 1
        self._questions.pop(container, None)
        if not self._questions:
            self._idle.set()
