# SPDX-License-Identifier: Apache-2.0
"""Let a local recording follow those of a node, in a thread while other code reads it."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from time import monotonic
from typing import Self

from betterproto2 import Message

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.entries import Began, Ended, Exchange
from nri_scope.errors import NriScopeError, RemoteProtocolError, UsageError
from nri_scope.events import Gap, Note, Printed, Session
from nri_scope.recorder.complete_recording import CompleteRecording, complete_recording
from nri_scope.share.agent_messages import entry_of

from .agent_client import AgentClient, AgentError

_INT_MAX = 2**63 - 1
_ITEMS_MAX = 1_000_000
"""Maximum number of sessions, gaps, notes and lines of output of one copy."""
COPY_MAX = 16 << 30
"""Maximum number of bytes of a copy."""
_TEXT_MAX = 64 << 10
"""Maximum length of a name or reason."""
_LONG_TEXTS = frozenset({"status_message", "text"})
_SESSIONS_BYTES_MAX = 64 << 20
"""Maximum number of bytes of the descriptions of sessions, which stay in memory."""
_UNWRITTEN_MAX = 4 << 20
"""Number of bytes after which a transaction is written."""
_Source = tuple[str, int]
"""A recording of the node: its name, and the time of its first event."""

Responses = AsyncGenerator[v1.GetEventsResponse, None]

STATUS_S = 10.0
"""Minimum seconds between two questions which sessions are open."""


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


async def with_open_sessions(
    client: AgentClient, request: v1.GetEventsRequest, say: Callable[[str], None]
) -> Responses:
    """Yield the responses; for a pod, also the session of a recorder that replaced the pod's.

    The part of that recorder's session about the pod may have no events, so that it is not sent.
    """
    is_part = request.context and bool(request.where)
    recording: set[tuple[str, int]] = set()
    has_events = False
    asked = -inf
    async with aclosing(client.events(request, say)) as responses:
        async for response in responses:
            if response.session is not None:
                recording.add((response.session.recording, response.session.id))
            elif response.session_end is not None:
                recording.discard((response.session_end.recording, response.session_end.id))
            elif response.event is not None:
                has_events = True
                recording.add((response.event.recording, response.event.session))
            caught_up = response.heartbeat is not None and response.heartbeat.caught_up
            is_over = caught_up and has_events and not recording
            if is_part and is_over and monotonic() >= asked + STATUS_S:
                asked = monotonic()
                for session in await _sessions(client):
                    yield v1.GetEventsResponse(session=session)
                    recording.add((session.recording, session.id))
            yield response


async def _sessions(client: AgentClient) -> list[v1.Session]:
    """Return the sessions of the node's recorders that are connected."""
    try:
        status = await client.status()
    except NriScopeError:
        return []
    return [one.session for one in status.recordings if one.connected and one.session is not None]


def _add(copy: LocalCopy, response: v1.GetEventsResponse, node: str) -> None:
    try:
        copy.add(response)
    except RemoteProtocolError as error:
        raise AgentError(node, f"its agent sends what no agent sends: {error}") from error


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

    Its attributes `latest`, `ended` and `interruption` are its state for the terminal interface.
    """

    def __init__(
        self,
        client: AgentClient,
        request: v1.GetEventsRequest,
        path: Path,
        say: Callable[[str], None] = lambda text: None,
        on_error: Callable[[], None] = lambda: None,
        watch: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """``say`` is called in the thread, see `AgentClient.events`; ``on_error`` when it ends.

        ``watch`` returns a message for ``say``, which is also shown while events arrive.
        """
        super().__init__(self._release)
        self._client = client
        self._request = request
        self._path = path
        self._say = say
        self._on_error = on_error
        self._watch = watch
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
    def latest(self) -> str:
        """The error; "" if there is none."""
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
                with_open_sessions(self._client, self._request, self._heard),
                self._client.node,
                self._path,
                follow=True,
                on_caught_up=self._on_caught_up,
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


class LocalCopy:
    """Writer of one or more recordings of a node as one recording.

    Numbers of events and sessions are those of the node, if it has one recording; else they are
    counted on. What is sent again after an interruption is written once, as are equal notes.
    """

    def __init__(self, recording: CompleteRecording) -> None:
        self._recording = recording
        self._sources: dict[str, _Source] = {}
        """By name, the newest: another recording may take its place."""
        self._sessions: dict[tuple[_Source, int], int] = {}
        self._begun: dict[int, Session] = {}
        self._ended: set[int] = set()
        self._met: set[int] = set()
        """Hashes of gaps, notes and output."""
        self._last_session = 0
        self._bytes = self._unwritten = self._session_bytes = 0
        self._newest: dict[_Source, int] = {}
        """Newest event of each recording, by the agent's number."""
        self._last_event = 0
        self.events = 0
        """Number of events written."""

    def add(self, response: v1.GetEventsResponse) -> None:
        """Write the content of a response.

        Raises RemoteProtocolError for a response that no agent sends, and RecordingError.
        """
        self._count(response)
        match entry_of(response):
            case Exchange() as exchange if response.event is not None:
                self._event(response.event.recording, exchange)
            case Began(session) if response.session is not None:
                self._session(response.session, session)
            case Ended(session) if response.session_end is not None:
                number = self._optional(response.session_end.recording, session.id)
                if number is not None and number not in self._ended:
                    self._ended.add(number)
                    self._recording.put(Ended(replace(session, id=number)))
            case Gap() as gap if response.gap is not None:
                name = response.gap.recording
                if self._is_new(name, gap.session, gap.from_ns, gap.to_ns, gap.reason):
                    self._recording.put(replace(gap, session=self._optional(name, gap.session)))
            case Note() as note if response.note is not None:
                name = response.note.recording
                if self._is_new(name, note.session, note.at_ns, note.text):
                    self._recording.put(replace(note, session=self._optional(name, note.session)))
            case Printed() as line if response.output is not None:
                name = response.output.recording
                number = self._known(name, line.session)
                place = line.session, line.id, line.at_ns
                if self._is_new(name, *place, line.stream, line.text):
                    self._recording.put(replace(line, session=number))
            case _:
                pass

    def flush(self) -> None:
        """Make everything that was added visible to readers."""
        self._recording.flush()

    def _source(self, recording: str) -> _Source:
        return self._sources.get(recording, (recording, 0))

    def _is_new(self, recording: str, *item: object) -> bool:
        number = hash((self._source(recording), *item))
        if number in self._met:
            return False
        if len(self._met) >= _ITEMS_MAX:
            raise RemoteProtocolError(f"it sent more than {_ITEMS_MAX:,} gaps, notes and lines")
        self._met.add(number)
        return True

    def _count(self, response: v1.GetEventsResponse) -> None:
        size = _size(response)
        self._bytes += size
        self._unwritten += size
        if self._bytes > COPY_MAX:
            raise RemoteProtocolError(f"it sent more than {COPY_MAX >> 30} GiB")
        if self._unwritten > _UNWRITTEN_MAX:
            self._unwritten = 0
            self.flush()

    def _known(self, recording: str, session: int) -> int:
        number = self._sessions.get((self._source(recording), session))
        if number is None:
            raise RemoteProtocolError(f"session {session} was not described")
        return number

    def _optional(self, recording: str, session: int | None) -> int | None:
        if session is None:
            return None
        return self._sessions.get((self._source(recording), session))

    def _session(self, message: v1.Session, session: Session) -> None:
        source = message.recording, message.recording_began_ns
        self._sources[message.recording] = source
        key = source, session.id
        if key in self._sessions:
            return
        number = max(session.id, self._last_session + 1)
        self._session_bytes += 500 + _size(message)
        is_full = len(self._sessions) >= _ITEMS_MAX or self._session_bytes > _SESSIONS_BYTES_MAX
        if number > _INT_MAX or is_full:
            raise RemoteProtocolError(f"session {number:,} is one too many")
        self._last_session = self._sessions[key] = number
        self._begun[number] = replace(session, id=number)
        self._recording.put(Began(self._begun[number]))

    def _event(self, recording: str, exchange: Exchange) -> None:
        event = exchange.event
        session = self._known(recording, event.session)
        source = self._source(recording)
        if event.id <= self._newest.get(source, 0):
            return
        self._newest[source] = event.id
        number = max(event.id, self._last_event + 1)
        if number >= _INT_MAX:
            raise RemoteProtocolError(f"event {number} is too high a number")
        if session in self._ended:
            # The node's recorder was killed, and its successor goes on with the session.
            self._ended.discard(session)
            self._recording.put(Began(self._begun[session]))
        self._last_event = number
        self.events += 1
        outcome = exchange.outcome
        if outcome is not None:
            # With the numbers of this recording.
            shown_by = outcome.event if number == event.id else 0
            ended = self._optional(recording, outcome.session) or 0
            outcome = outcome._replace(event=shown_by, session=ended)
        event = replace(event, id=number, session=session)
        self._recording.put(replace(exchange, event=event, outcome=outcome))


def _size(value: object, name: str = "") -> int:
    """Return the number of bytes and characters of a message. Raises RemoteProtocolError."""
    if isinstance(value, Message):
        return sum(_size(one, field) for field, one in vars(value).items())
    if isinstance(value, list):
        return sum(_size(one, name) for one in value)
    if isinstance(value, str) and len(value) > _TEXT_MAX and name not in _LONG_TEXTS:
        raise RemoteProtocolError(f"{name} has more than {_TEXT_MAX:,} characters")
    return len(value) if isinstance(value, str | bytes) else 0
