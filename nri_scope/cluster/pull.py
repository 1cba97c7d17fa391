# SPDX-License-Identifier: Apache-2.0
"""Copy what a node records to a local recording, in a thread while other code reads it."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Self

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import NriScopeError, RemoteProtocolError, UsageError
from nri_scope.recorder.complete_recording import complete_recording

from .agent_client import AgentClient, AgentError
from .local_copy import RENUMBERED, LocalCopy

Responses = AsyncGenerator[v1.GetEventsResponse, None]


async def pull(
    responses: Responses,
    node: str,
    path: Path,
    *,
    follow: bool = False,
    on_caught_up: Callable[[int], None] = lambda events: None,
    on_renumbered: Callable[[str], None] = lambda text: None,
    is_view: bool = False,
) -> int:
    """Write the events of an agent to the new recording ``path``; return their number.

    ``responses``: see `AgentClient.events`; they are closed. ``on_caught_up`` is called with their
    number each time when everything that was recorded so far was written. With ``follow``, it runs
    until it is cancelled, and then returns. ``on_renumbered`` is called, with a message, if events
    cannot have their numbers of the node. ``is_view``: see `LocalCopy`. Raises NriScopeError. After
    an error, ``path`` is removed, unless it followed the node before.
    """
    failure: AgentError | UsageError | None = None
    with complete_recording(path) as recording:
        copy = LocalCopy(recording, lambda: on_renumbered(f"{node}: {RENUMBERED}"), is_view=is_view)
        follows = False
        try:
            async with aclosing(responses):
                async for response in responses:
                    _add(copy, response, node)
                    if response.heartbeat is not None and response.heartbeat.caught_up:
                        copy.flush(response.heartbeat.at_ns)
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
        raise AgentError(node, f"invalid response from the agent: {error}") from error


_STOP_S = 10.0


class LoopThread(ABC):
    """Thread with an event loop; a context manager, at whose end the coroutine is cancelled."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        """``on_end`` is called in the thread after the coroutine."""
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name="pull", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self.error: Exception | None = None
        """Why the coroutine ended early; None while it goes on."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def is_done(self) -> bool:
        """Whether the coroutine has ended."""
        return not self._thread.is_alive()

    @abstractmethod
    async def _main(self) -> None:
        """Do the work; NriScopeError and OSError become `error`."""

    def _fail(self, error: NriScopeError) -> None:
        """Cancel the coroutine because of an error in one of its tasks."""
        assert self._task is not None
        self.error = error
        self._task.cancel()

    def _stop(self) -> None:
        self._stopped = True
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._begin())
        except asyncio.CancelledError:
            pass
        except (NriScopeError, OSError) as error:
            # Raised in the other thread.
            self.error = error
        finally:
            self._on_end()

    async def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._main())
        if self._stopped:
            self._task.cancel()
        await self._task


class Puller(LoopThread):
    """Thread that follows a node while other code reads the recording.

    `status_text`, `ended` and `interruption` are its state for the terminal interface.
    """

    def __init__(
        self,
        client: AgentClient,
        request: v1.GetEventsRequest,
        path: Path,
        say: Callable[[str], None] = lambda text: None,
        on_error: Callable[[], None] = lambda: None,
        watch: Callable[[], Awaitable[str]] | None = None,
        on_renumbered: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``say`` is called in the thread, see `AgentClient.events`; ``on_error`` when it ends.

        ``watch`` returns a message for ``say``, which is also shown while events arrive.
        ``on_renumbered``: see `pull`.
        """
        super().__init__(self._release)
        self._client = client
        self._request = request
        self._path = path
        self._say = say
        self._on_error = on_error
        self._watch = watch
        self._on_renumbered = on_renumbered
        self._caught_up = threading.Event()
        self._has_events = threading.Event()
        self._interruption = ""
        self.remark = ""
        """What ``watch`` returned."""
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
    def status_text(self) -> str:
        """Error that ended it; "" if there is none."""
        return "" if self.error is None else str(self.error)

    @property
    def interruption(self) -> str:
        """Why no events arrive at present, or are not all; "" if they do."""
        return self._interruption or self.remark

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
        watching = asyncio.create_task(self._watching())
        try:
            await pull(
                self._client.events(self._request, self._heard),
                self._client.node,
                self._path,
                follow=True,
                on_caught_up=self._on_caught_up,
                on_renumbered=self._on_renumbered,
                is_view=True,
            )
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _watching(self) -> None:
        if self._watch is not None:
            self.remark = await self._watch()
            self._say(self.remark)

    def _heard(self, text: str) -> None:
        self._interruption = text
        self._say(text)

    def _on_caught_up(self, events: int) -> None:
        self.events = events
        self._interruption = ""
        self._caught_up.set()
        if events:
            self._has_events.set()
