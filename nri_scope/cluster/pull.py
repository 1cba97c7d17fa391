# SPDX-License-Identifier: Apache-2.0
"""Let a local recording follow those of a node."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import NriScopeError
from nri_scope.recorder.complete_recording import complete_recording

from .agent_client import AgentClient
from .local_copy import LocalCopy


async def pull(
    client: AgentClient,
    request: v1.GetEventsRequest,
    path: Path,
    on_caught_up: Callable[[int], None] = lambda events: None,
) -> int:
    """Write the events of an agent to the new recording ``path``; return their number.

    ``on_caught_up`` is called with their number each time when everything that was recorded so far
    was written. With ``request.follow``, it runs until it is cancelled, and then returns. After an
    error, ``path`` is removed. Raises NriScopeError.
    """
    with complete_recording(path) as recording:
        copy = LocalCopy(recording)
        with suppress(asyncio.CancelledError):
            async for response in client.events(request):
                copy.add(response)
                if response.heartbeat is not None and response.heartbeat.caught_up:
                    copy.flush()
                    on_caught_up(copy.events)
        copy.flush()
        on_caught_up(copy.events)
        return copy.events


class Puller:
    """Thread that pulls while other code reads the recording; a context manager."""

    def __init__(self, client: AgentClient, request: v1.GetEventsRequest, path: Path) -> None:
        self._client = client
        self._request = request
        self._path = path
        self._caught_up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[int] | None = None
        self._thread = threading.Thread(target=self._run, name="pull", daemon=True)
        self.error: NriScopeError | None = None
        """Why pulling has ended; None while it goes on."""
        self.events = 0
        """Number of events that were written when it last caught up."""

    def __enter__(self) -> Self:
        """Start, and wait until everything that was recorded so far was written.

        Raises NriScopeError.
        """
        self._thread.start()
        self._caught_up.wait()
        if self.error is not None:
            raise self.error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(10)

    def _run(self) -> None:
        try:
            asyncio.run(self._pull())
        except NriScopeError as error:
            self.error = error
        finally:
            self._caught_up.set()

    async def _pull(self) -> None:
        self._loop = asyncio.get_running_loop()
        pulling = pull(self._client, self._request, self._path, self._on_caught_up)
        self._task = asyncio.create_task(pulling)
        await self._task

    def _on_caught_up(self, events: int) -> None:
        self.events = events
        self._caught_up.set()
