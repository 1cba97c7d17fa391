# SPDX-License-Identifier: Apache-2.0
"""Let a local recording follow those of a node."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Self

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import RemoteProtocolError, UsageError
from nri_scope.recorder.complete_recording import complete_recording

from .agent_client import AgentClient, AgentError
from .local_copy import LocalCopy
from .loop_thread import LoopThread

Responses = AsyncGenerator[v1.GetEventsResponse, None]


async def pull(
    responses: Responses,
    node: str,
    path: Path,
    *,
    follow: bool = False,
    on_caught_up: Callable[[int], None] = lambda events: None,
) -> int:
    """Write the events of an agent to the new recording ``path``; return their number.

    ``responses``: see `AgentClient.events`; they are closed. ``on_caught_up`` is called with their
    number each time when everything that was recorded so far was written. With ``follow``, it runs
    until it is cancelled, and then returns. Raises NriScopeError. After an error, ``path`` is
    removed, unless it followed the node before.
    """
    failure: AgentError | UsageError | None = None
    with complete_recording(path) as recording:
        copy = LocalCopy(recording)
        follows = False
        try:
            async with aclosing(responses):
                async for response in responses:
                    _add(copy, response, node)
                    if response.heartbeat is not None and response.heartbeat.caught_up:
                        copy.flush()
                        follows = follow
                        on_caught_up(copy.events)
        except asyncio.CancelledError:
            if not follows:
                raise
        except (AgentError, UsageError) as error:
            if not follows:
                raise
            failure = error
        copy.flush()
        on_caught_up(copy.events)
    if failure is not None:
        raise failure
    return copy.events


def _add(copy: LocalCopy, response: v1.GetEventsResponse, node: str) -> None:
    try:
        copy.add(response)
    except RemoteProtocolError as error:
        raise AgentError(node, f"its agent sends what no agent sends: {error}") from error


class Puller(LoopThread):
    """Thread that follows a node while other code reads the recording.

    Its attributes `latest`, `ended` and `interruption` are its state for the terminal interface.
    """

    def __init__(
        self,
        client: AgentClient,
        request: v1.GetEventsRequest,
        path: Path,
        say: Callable[[str], None] = lambda text: None,
        on_error: Callable[[], None] = lambda: None,
    ) -> None:
        """``say`` is called in the thread, see `AgentClient.events`; ``on_error`` when it ends."""
        super().__init__(self._release)
        self._client = client
        self._request = request
        self._path = path
        self._say = say
        self._on_error = on_error
        self._caught_up = threading.Event()
        self._has_events = threading.Event()
        self.interruption = ""
        """Why no events arrive at present; "" if they do."""
        self.events = 0
        """Number of events that were written when it last caught up."""

    def __enter__(self) -> Self:
        """Start, and wait until everything that was recorded so far was written.

        Raises NriScopeError.
        """
        super().__enter__()
        try:
            self._caught_up.wait()
            if self.error is not None:
                raise self.error
        except BaseException:
            self._stop()
            raise
        return self

    def wait_for_event(self) -> None:
        """Wait until an event was written. Raises NriScopeError."""
        self._has_events.wait()
        if self.error is not None:
            raise self.error

    @property
    def latest(self) -> str:
        """The error; "" if there is none."""
        return "" if self.error is None else str(self.error)

    @property
    def ended(self) -> bool:
        """Whether no more events come."""
        return self.error is not None

    def _release(self) -> None:
        if self.error is not None and self._caught_up.is_set():
            self._on_error()
        self._caught_up.set()
        self._has_events.set()

    async def _main(self) -> None:
        await pull(
            self._client.events(self._request, self._heard),
            self._client.node,
            self._path,
            follow=True,
            on_caught_up=self._on_caught_up,
        )

    def _heard(self, text: str) -> None:
        self.interruption = text
        self._say(text)

    def _on_caught_up(self, events: int) -> None:
        self.events = events
        self.interruption = ""
        self._caught_up.set()
        if events:
            self._has_events.set()
