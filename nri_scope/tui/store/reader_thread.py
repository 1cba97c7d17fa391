# SPDX-License-Identifier: Apache-2.0
"""A thread that reads a recording for an event loop, with priorities."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from itertools import count
from pathlib import Path
from queue import Empty, PriorityQueue
from threading import Event, RLock, Thread
from typing import Any, TypeVar

from nri_scope.errors import RecordingError
from nri_scope.recording.reading.reader import Recording

MAX_URGENT = 4
"""Maximum number of waiting urgent requests; the oldest are dropped."""
_CLOSE_TIMEOUT_S = 2.0
"""Maximum wait in `ReaderThread.close` for work that cannot be interrupted."""
_CLOSE, _URGENT, _SOON, _LONG = range(4)

T = TypeVar("T")
_Work = Callable[[Recording], Any]
_Waiting = tuple[int, int, "Future[Any]", _Work]
"""Priority and order of a request, the future of its result, and its work."""


class CancelFlag:
    """Cancellation flag, set by the requester and checked by work in another thread."""

    def __init__(self) -> None:
        self._event = Event()

    def set(self) -> None:
        """Request cancellation."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether the work was cancelled or has ended."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise CancelledError if the flag is set. Long work calls this often."""
        if self._event.is_set():
            raise asyncio.CancelledError


class ReaderThread:
    """A thread with a `Recording` of its own. All methods must be called on one event loop.

    After it is closed, requests raise RecordingError, or the exception that ended the thread.
    """

    def __init__(self, path: Path) -> None:
        """Create the thread; `start` starts it."""
        self._path = path
        self._waiting: PriorityQueue[_Waiting] = PriorityQueue()
        self._turns = count()
        self._urgent: deque[Future[Any]] = deque()
        self._lock = RLock()
        """Guards the fields below."""
        self._current: Future[Any] | None = None
        self._recording: Recording | None = None
        self._failure: BaseException | None = None
        """Error for new requests; None while they are accepted."""
        self._opened: Future[None] = Future()
        self._ended: Future[None] = Future()
        for future in (self._opened, self._ended):
            future.set_running_or_notify_cancel()
        self._thread = Thread(target=self._run, name="recording", daemon=True)

    async def start(self) -> None:
        """Start the thread and open the recording. Raises the errors of `Recording.open`.

        After an error or a cancellation, the thread has been ended.
        """
        self._thread.start()
        try:
            await asyncio.wrap_future(self._opened)
        except BaseException:
            await self.close()
            raise

    async def urgent(self, work: Callable[[Recording], T]) -> T | None:
        """Run ``work`` before all other work, the newest request first.

        Returns None if the request was dropped (`MAX_URGENT`).
        """
        future: Future[T | None] = Future()
        with self._lock:
            self._urgent = deque(one for one in self._urgent if not (one.running() or one.done()))
            self._urgent.append(future)
            if len(self._urgent) > MAX_URGENT:
                self._urgent.popleft().set_result(None)
        return await self._result(future, _URGENT, -next(self._turns), work)

    async def soon(self, work: Callable[[Recording], T]) -> T:
        """Run ``work`` after urgent work, in the order of requests."""
        return await self._result(Future[T](), _SOON, next(self._turns), work)

    async def steps(
        self, work: Callable[[Recording], Iterator[T]], on_step: Callable[[T], None]
    ) -> None:
        """Run long work in steps, with lowest priority; ``on_step`` receives each yielded value."""
        steps: Iterator[T] | None = None

        def step(recording: Recording) -> list[T]:
            nonlocal steps
            steps = work(recording) if steps is None else steps
            return [step for step in [next(steps, None)] if step is not None]

        while found := await self._result(Future[list[T]](), _LONG, next(self._turns), step):
            on_step(found[0])

    async def close(self) -> None:
        """End the thread, and cancel waiting and running work."""
        with self._lock:
            self._failure = self._failure or RecordingError(self._path, "it was closed")
            self._interrupt()
        self._waiting.put((_CLOSE, next(self._turns), Future(), lambda _: None))
        if self._thread.ident is not None:
            # Only SQLite can be interrupted. Python code runs on until its next query.
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(self._ended), _CLOSE_TIMEOUT_S)

    async def _result(self, future: Future[T], kind: int, turn: int, work: _Work) -> T:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._waiting.put((kind, turn, future, work))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            with self._lock:
                if self._current is future:
                    self._interrupt()
            raise

    def _interrupt(self) -> None:
        if self._current is not None and self._recording is not None:
            self._recording.interrupt()

    # -- in the thread ----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with Recording.open(self._path) as recording:
                self._recording = recording
                self._opened.set_result(None)
                while self._do_next(recording):
                    pass
        except BaseException as error:  # noqa: BLE001 - raised in `start`
            with self._lock:
                self._failure = self._failure or error
            if not self._opened.done():
                self._opened.set_exception(error)
            self._end(error)
        else:
            self._end(None)
        finally:
            self._ended.set_result(None)

    def _do_next(self, recording: Recording) -> bool:
        kind, _, future, work = self._waiting.get()
        with self._lock:
            if kind == _CLOSE:
                return False
            if future.done() or not future.set_running_or_notify_cancel():
                return True
            self._current = future
        try:
            result = work(recording)
        except BaseException as error:  # noqa: BLE001 - raised by the request
            self._fail(future, error)
        else:
            future.set_result(result)
        with self._lock:
            self._current = None
        return True

    def _fail(self, future: Future[Any], error: BaseException) -> None:
        # Futures of asyncio do not accept these exceptions.
        is_rejected = isinstance(error, KeyboardInterrupt | StopIteration)
        future.set_exception(CancelledError() if is_rejected else error)

    def _end(self, error: BaseException | None) -> None:
        """Cancel, or fail with ``error``, all waiting work."""
        with self._lock, suppress(Empty):
            self._recording = None
            while True:
                _, _, future, _ = self._waiting.get_nowait()
                if error is None:
                    future.cancel()
                elif not future.done():
                    self._fail(future, error)


class LateReader:
    """A thread that starts with the first request. It also reads an attribution file, if attached.

    After it is closed, requests raise RecordingError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: ReaderThread | None = None
        self._attribution: Path | None = None
        self._is_closed = False
        self._starting = asyncio.Lock()

    async def soon(self, work: Callable[[Recording], T]) -> T:
        """Run ``work`` in the order of requests."""
        async with self._starting:
            if self._is_closed:
                raise RecordingError(self._path, "it was closed")
            if self._thread is None:
                thread = self._thread = ReaderThread(self._path)
                try:
                    await thread.start()
                    if (path := self._attribution) is not None:
                        await thread.soon(lambda recording: recording.attach(path))
                except BaseException:
                    self._thread = None
                    await thread.close()
                    raise
        return await self._thread.soon(work)

    async def attach(self, path: Path) -> None:
        """Read an attribution file, too (`Recording.attach`)."""
        self._attribution = path
        async with self._starting:
            thread = self._thread
        if thread is not None:
            await thread.soon(lambda recording: recording.attach(path))

    async def close(self) -> None:
        """End the thread, and cancel waiting and running work."""
        self._is_closed = True
        if self._thread is not None:
            await self._thread.close()
