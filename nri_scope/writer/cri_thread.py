# SPDX-License-Identifier: Apache-2.0
"""Query the CRI about recorded events, in a thread of the process that writes, and record answers.

It never delays the process that replies to the runtime: events reach this thread after they have
been written.

Answers are recorded as sessions of their own; `CriQueue` chooses containers and times.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from time import monotonic, time_ns
from typing import Final, NamedTuple

from nri_scope.capture.sink import Sink
from nri_scope.cri import CriClient
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, CapturedCall, Event, Role, SessionStart
from nri_scope.nri.changes import targets_of
from nri_scope.nri.events import (
    CREATE,
    DEFAULT_REQUEST_TIMEOUT_MS,
    POST_CREATE,
    POST_START,
    POST_UPDATE,
    REMOVE,
    START,
    UNSOLICITED,
    UPDATE,
    VALIDATE,
    EventKind,
)
from nri_scope.nri.request_subject import decode_reply, decode_request
from nri_scope.recording.query.cri_answers import CREATION_SECONDS
from nri_scope.recording.reading.event_messages import status_request
from nri_scope.text.quantities import many

from .cri_polling import CriPoller, PolledAnswer
from .messages import CriSource

WAITING_MAX = 2_000
"""Maximum number of containers to be queried later; further ones are queried at once."""
_RETRY_SECONDS = (1.0, 5.0)
"""Times after the creation of a container at which it is queried again if it does not run yet."""
_DEADLINE_MAX = 60.0
_UNDER_WAY = frozenset({CREATE, START, UPDATE})
"""Events that the runtime sends before it acts."""
_DONE = frozenset({POST_CREATE, POST_START, POST_UPDATE})
"""Events that the runtime sends after it has acted."""
_EMPTY_REPLY_MAX = 2
"""Maximum bytes of a reply without updates: nothing, or an empty message in it."""


class QueriedSubject(NamedTuple):
    """What an event says about containers to query."""

    event: str
    pod: str
    container: str
    deadline: float
    """In seconds."""
    targets: frozenset[str]
    """Other containers that a plugin asked to update."""

    @classmethod
    def of(cls, event: Event, call: CapturedCall) -> QueriedSubject:
        """Return the subject of a recorded event."""
        deadline = call.timeout_ns / 1e9 or DEFAULT_REQUEST_TIMEOUT_MS / 1e3
        targets: frozenset[str] = frozenset()
        if event.event in (VALIDATE, UNSOLICITED) or len(call.reply) > _EMPTY_REPLY_MAX:
            request = decode_request(call.method, call.request, call.service).message
            reply = decode_reply(call.method, call.reply)
            targets = frozenset(targets_of(call.method, request, reply) - {event.container_id, ""})
        return cls(
            event.event, event.pod_id, event.container_id, min(deadline, _DEADLINE_MAX), targets
        )


class CriQueue:
    """Containers to query as soon as the runtime has done what an event announces.

    The container's next event shows that it has. If there is no next event, since the operation
    failed or the event is not subscribed to, the container is queried at a deadline. Updates of
    other containers are done when the runtime sends any other event, as it sends one at a time.
    """

    def __init__(self) -> None:
        self._own: dict[str, float] = {}
        """Time of the query, by container."""
        self._others: dict[str, float] = {}
        self._round = ("", "")
        self._starting: dict[str, tuple[float, int]] = {}
        """Created containers that do not run yet, with the time and the number of queries.

        containerd prepares the process before it sends StartContainer. If that preparation fails,
        the container has no event until it is removed.
        """

    def feed(self, subject: QueriedSubject, now: float) -> set[str]:
        """Process an event; return the ids of the containers to query now.

        ``now``: the monotonic time, in seconds.
        """
        name, container = subject.event, subject.container
        if name == UNSOLICITED:
            return set(subject.targets)
        asked: set[str] = set()
        if name in EventKind.__members__:
            event_round = (CREATE if name == VALIDATE else name), container or subject.pod
            if event_round != self._round:
                asked.update(self._others)
                self._others.clear()
                if self._own.pop(container, None) is not None:
                    asked.add(container)
            self._round = event_round
        if name in _DONE:
            asked.add(container)
        waiting = [(self._others, target, subject.deadline) for target in subject.targets]
        if name in _UNDER_WAY:
            least = CREATION_SECONDS if name == CREATE else 0.0
            waiting.append((self._own, container, max(subject.deadline, least)))
        for queue, identifier, seconds in waiting:
            if len(queue) < WAITING_MAX:
                queue[identifier] = now + seconds
            else:
                asked.add(identifier)
        if name == POST_CREATE and len(self._starting) < WAITING_MAX:
            self._starting[container] = now, 0
        elif name != CREATE:
            self._starting.pop(container, None)
        return asked - {""}

    def due(self, now: float) -> set[str]:
        """Return the ids of the containers to query now, as they had no event for a while."""
        ids = set()
        for queue in (self._own, self._others):
            for container in [identifier for identifier, until in queue.items() if until <= now]:
                del queue[container]
                ids.add(container)
        for container, (since, count) in list(self._starting.items()):
            if now - since >= _RETRY_SECONDS[count]:
                ids.add(container)
                if count + 1 < len(_RETRY_SECONDS):
                    self._starting[container] = since, count + 1
                else:
                    del self._starting[container]
        return ids - {""}

    def remaining(self) -> set[str]:
        """Return the ids of all containers that would be queried later."""
        return {*self._own, *self._others, *self._starting} - {""}

    @property
    def is_waiting(self) -> bool:
        """Whether `due` may return containers later."""
        return bool(self._own or self._others or self._starting)


_AWAY = "until the CRI is available, applied changes are not confirmed"
NAME = "cri"
"""Value of the plugin name in the CRI's sessions."""


class CriSessions:
    """Recorder of one session for each period in which the CRI is available."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._recorder: tuple[Sink, threading.Lock] | None = None
        self._start: SessionStart | None = None
        self._session: int | None = None
        self._away = False
        self.answers = 0
        """Number of recorded answers."""

    def record_to(self, sink: Sink, lock: threading.Lock) -> None:
        """Set the recorder of the answers, and the lock under which it may be called."""
        self._recorder = sink, lock

    def began(self, name: str, version: str, at_ns: int) -> None:
        """Begin a session with the next answer, as the CRI is available."""
        start = SessionStart.unconfigured(Role.CRI, "", NAME, at_ns)
        self._start = replace(start, runtime_name=name, runtime_version=version)
        if self._away:
            self._away = False
            self._say(f"the CRI is available again: {name} {version}")

    def ended(self, reason: str, at_ns: int) -> None:
        """End the session, as the CRI is not available."""
        self._away = True
        self._say(f"{reason}; {_AWAY}")
        self._end(reason, at_ns)

    def answered(self, answer: PolledAnswer) -> None:
        """Record an answer."""
        if self._recorder is None or self._start is None:
            return
        try:
            request = status_request(answer.container)
        except ValueError:
            return
        call = CapturedCall(
            wall_ns=answer.wall_ns,
            mono_ns=answer.mono_ns,
            method=CONTAINER_STATUS,
            request=request,
            reply=answer.text.encode(errors="backslashreplace"),
            status_code=0,
            status_message="",
            took_ns=answer.took_ns,
            timeout_ns=0,
            service=CRI_SERVICE,
        )
        sink, lock = self._recorder
        with lock:
            if self._session is None:
                # A session without an answer is not recorded.
                self._session = sink.begin_session(self._start)
            self.answers += 1
            sink.capture(self._session, call)

    def end(self, reason: str) -> None:
        """End the session, if there is one, as no more answers follow."""
        self._end(reason, time_ns())

    def _end(self, reason: str, at_ns: int) -> None:
        if self._session is not None and self._recorder is not None:
            sink, lock = self._recorder
            with lock:
                sink.end_session(self._session, reason, at_ns)
        self._session = self._start = None


FINISH_SECONDS = 3.0
"""Timeout of the remaining queries at the end."""
EVENTS_MAX: Final = 10_000
"""Maximum number of events that this thread has not processed; more cause no query."""
_LAST_EVENTS_SECONDS = 0.2
"""Time in which the last events before the end are written."""
_TICK_SECONDS = 0.05
"""Polling interval for events: waking this thread for each one would cost more."""
_NICER = 10
"""Niceness of this thread, added to that of the process."""


class CriThread:
    """Thread that queries the CRI."""

    def __init__(self, source: CriSource, say: Callable[[str], None]) -> None:
        """Connect, unless ``source.waits``. Raises ConnectError or RpcError if there is no CRI."""
        self.sessions = CriSessions(say)
        self._source = source
        self._say = say
        self._events: deque[QueriedSubject] = deque()
        self._dropped = 0
        self._is_awake = False
        self._finished = False
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="cri", daemon=True)
        self._thread.start()
        started.result()

    def event(self, event: Event, call: CapturedCall) -> None:
        """Process a recorded event. Called in the thread that writes."""
        if event.method == CONTAINER_STATUS:
            return
        if len(self._events) >= EVENTS_MAX:
            self._dropped += 1
            return
        self._events.append(QueriedSubject.of(event, call))
        self._ring()

    def finish(self) -> None:
        """Complete the remaining queries, in a limited time, and end the thread and the session."""
        self._finished = True
        self._ring()
        self._thread.join()
        self.sessions.end("recording stopped")

    def _ring(self) -> None:
        if not self._is_awake and self._loop is not None:
            self._is_awake = True
            with suppress(RuntimeError):
                # The loop ended with an internal error.
                self._loop.call_soon_threadsafe(self._wake.set)

    def _run(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._main(started))
        except BaseException as error:
            # The waiting thread must not hang, even after an unexpected error.
            if started.done():
                self._say(f"internal error: the CRI is not queried any more: {error!r}")
                raise
            started.set_exception(error)

    async def _main(self, started: Future[None]) -> None:
        path, waits = self._source.path, self._source.waits
        # On Linux, that of this thread alone.
        os.nice(_NICER)
        async with CriClient(path) if waits else await CriClient.connect(path) as client:
            self._loop = asyncio.get_running_loop()
            poller = CriPoller(client, self.sessions, away=waits)
            if not waits:
                runtime = client.runtime
                self.sessions.began(runtime.name, runtime.version, time_ns())
            started.set_result(None)
            asking = asyncio.create_task(poller.run())
            queue = CriQueue()
            while not self._finished:
                await self._next(queue)
                self._process(queue, poller)
            await asyncio.sleep(_LAST_EVENTS_SECONDS)
            self._process(queue, poller)
            for container in queue.remaining():
                poller.want(container)
            await poller.finish(FINISH_SECONDS)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        answered = many(poller.answered, "time")
        if poller.unanswered:
            answered += f", but not about {many(poller.unanswered, 'container')}"
        if self._dropped:
            answered += f"; {many(self._dropped, 'event')} came too fast to ask about"
        if poller.answered or poller.unanswered or self._dropped:
            self._say(f"the CRI answered {answered}")

    async def _next(self, queue: CriQueue) -> None:
        """Wait for an event, or until containers may be due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_TICK_SECONDS if queue.is_waiting else None):
                await self._wake.wait()
            await asyncio.sleep(_TICK_SECONDS)
        self._wake.clear()
        self._is_awake = False

    def _process(self, queue: CriQueue, poller: CriPoller) -> None:
        now = monotonic()
        while self._events:
            subject = self._events.popleft()
            for container in queue.feed(subject, now):
                poller.want(container)
            if subject.event == REMOVE:
                poller.forget(subject.container)
        for container in queue.due(now):
            poller.want(container)
