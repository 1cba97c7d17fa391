# SPDX-License-Identifier: Apache-2.0
"""A thread that reads a recording for an event loop, what is wanted most urgently first."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Condition, Thread
from typing import Generic, Protocol, TypeVar

from nri_scope.errors import RecordingError
from nri_scope.recorder.reader import Recording

MAX_URGENT = 4
"""Urgent requests that wait; older ones are outdated."""
_PATIENCE = 2.0
"""Seconds to wait in `Worker.close` for work that cannot be interrupted."""

T = TypeVar("T")


class _Job(Protocol):
    @property
    def unwanted(self) -> bool: ...

    def go_on(self, recording: Recording) -> bool:
        """Do some of it; whether there is more to do."""
        ...

    def drop(self) -> None:
        """It will not be done."""
        ...

    def fail(self, error: BaseException) -> None:
        """It cannot be done."""
        ...


class Worker:
    """A thread with a `Recording` of its own. Everything here is called on one event loop.

    Once it is closed, whoever asks gets RecordingError, or what ended the thread where nobody did.
    """

    def __init__(self, path: Path) -> None:
        """Not yet running: see `start`."""
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._condition = Condition()
        """Guards all below."""
        self._urgent: deque[_Job] = deque()
        self._soon: deque[_Job] = deque()
        self._long: deque[_Job] = deque()
        self._current: _Job | None = None
        self._connection: sqlite3.Connection | None = None
        """What ``current`` works with."""
        self._closed = False
        self._failure: BaseException | None = None
        """What ended the thread, where nobody wanted that."""
        self._ended = asyncio.Event()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._thread = Thread(target=self._run, name="recording", daemon=True)

    async def start(self) -> None:
        """Open the recording. Raises what `Recording.open` does; no thread is left then, nor where
        this is cancelled.
        """
        self._thread.start()
        try:
            await self._opened
        except BaseException:
            await self.close()
            raise

    async def urgent(self, work: Callable[[Recording], T]) -> T | None:
        """Before all other work, the newest first; None where it is outdated (`MAX_URGENT`)."""
        job: _Once[T | None] = _Once(self._loop, work, lambda: None)
        with self._condition:
            self._check()
            self._urgent.append(job)
            outdated = self._urgent.popleft() if len(self._urgent) > MAX_URGENT else None
            self._condition.notify()
        if outdated is not None:
            outdated.drop()
        return await self._result(job, job.future)

    async def soon(self, work: Callable[[Recording], T]) -> T:
        """In the order in which it was asked for."""
        job: _Once[T] = _Once(self._loop, work)
        self._add(self._soon, job)
        return await self._result(job, job.future)

    async def steps(
        self, work: Callable[[Recording], Iterator[T]], told: Callable[[T], None]
    ) -> None:
        """Long work, which gives way to other work after each step; ``told`` has what it yields."""
        job = _Steps(self._loop, work, told)
        self._add(self._long, job)
        await self._result(job, job.future)

    async def close(self) -> None:
        """End the thread. Work that is waiting or under way is cancelled."""
        with self._condition:
            waiting = self._shut()
            if self._connection is not None:
                self._connection.interrupt()
            self._condition.notify()
        for job in waiting:
            job.drop()
        if self._thread.ident is None:
            return
        try:
            await asyncio.wait_for(self._ended.wait(), _PATIENCE)
        except TimeoutError:
            # It is Python's own work; the thread ends after it, or with the process.
            return

    def _shut(self) -> list[_Job]:
        """Take no more jobs; those that were waiting."""
        self._closed = True
        waiting = [*self._urgent, *self._soon, *self._long]
        for jobs in (self._urgent, self._soon, self._long):
            jobs.clear()
        return waiting

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise RecordingError(self._path, "it was closed")

    def _add(self, jobs: deque[_Job], job: _Job) -> None:
        with self._condition:
            self._check()
            jobs.append(job)
            self._condition.notify()

    async def _result(self, job: _Job, future: asyncio.Future[T]) -> T:
        try:
            return await future
        except asyncio.CancelledError:
            with self._condition:
                # Only while it is this one's query: the lock is needed to go on to another one.
                if self._current is job and self._connection is not None:
                    self._connection.interrupt()
            raise

    # -- in the thread ----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with Recording.open(self._path) as recording:
                self._call(_resolve, self._opened, None)
                while (job := self._next(recording)) is not None:
                    more = not job.unwanted and job.go_on(recording)
                    self._done(job, more=more)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the thread has to know
            self._call(_fail, self._opened, error)
            with self._condition:
                self._failure = error
                waiting = self._shut()
                if self._current is not None:
                    waiting.append(self._current)
                self._current = self._connection = None
            for job in waiting:
                self._call(job.fail, error)
        finally:
            self._call(self._ended.set)

    def _next(self, recording: Recording) -> _Job | None:
        with self._condition:
            while not (self._closed or self._urgent or self._soon or self._long):
                self._condition.wait()
            if self._closed:
                return None
            if self._urgent:
                job = self._urgent.pop()
            else:
                job = (self._soon or self._long).popleft()
            self._current = job
        connection = _connection_of(recording)
        with self._condition:
            self._connection = connection
            return job

    def _done(self, job: _Job, *, more: bool) -> None:
        with self._condition:
            self._current = self._connection = None
            if more and not self._closed:
                self._long.append(job)
                return
        if more:
            self._call(job.drop)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        _call(self._loop, function, *arguments)


def _connection_of(recording: Recording) -> sqlite3.Connection | None:
    try:
        return recording.connection
    except Exception:  # noqa: BLE001 - the work itself will meet it, and tell
        return None


def _call(
    loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object
) -> None:
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        # The loop is closed: nobody waits any more.
        return


class _Once(Generic[T]):
    """Work in one piece."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[Recording], T],
        outdated: Callable[[], T] | None = None,
    ) -> None:
        self.future: asyncio.Future[T] = loop.create_future()
        self._loop = loop
        self._work = work
        self._outdated = outdated

    @property
    def unwanted(self) -> bool:
        return self.future.done()

    def go_on(self, recording: Recording) -> bool:
        try:
            result = self._work(recording)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            _call(self._loop, _fail, self.future, error)
        else:
            _call(self._loop, _resolve, self.future, result)
        return False

    def drop(self) -> None:
        if self._outdated is not None:
            _resolve(self.future, self._outdated())
        else:
            self.future.cancel()

    def fail(self, error: BaseException) -> None:
        _fail(self.future, error)


class _Steps(Generic[T]):
    """Work step by step."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[Recording], Iterator[T]],
        told: Callable[[T], None],
    ) -> None:
        self.future: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._work = work
        self._told = told
        self._steps: Iterator[T] | None = None

    @property
    def unwanted(self) -> bool:
        return self.future.done()

    def go_on(self, recording: Recording) -> bool:
        try:
            if self._steps is None:
                self._steps = self._work(recording)
            step = next(self._steps)
        except StopIteration:
            _call(self._loop, _resolve, self.future, None)
            return False
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            _call(self._loop, _fail, self.future, error)
            return False
        _call(self._loop, self._tell, step)
        return True

    def drop(self) -> None:
        self.future.cancel()

    def fail(self, error: BaseException) -> None:
        _fail(self.future, error)

    def _tell(self, step: T) -> None:
        # Not to somebody who does not want to know any more.
        if self.future.done():
            return
        try:
            self._told(step)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asked
            _fail(self.future, error)


def _resolve(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: BaseException) -> None:
    if future.done():
        return
    # A future takes neither of them as they are.
    if isinstance(error, KeyboardInterrupt | StopIteration):
        future.cancel()
    else:
        future.set_exception(error)
