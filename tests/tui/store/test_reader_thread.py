# SPDX-License-Identifier: Apache-2.0
"""Priorities, dropped requests and cancellation in the reader thread."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import pytest

from nri_scope.errors import RecordingError
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.store.reader_thread import MAX_URGENT, ReaderThread
from tests.recording.recordings import record

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return record(tmp_path / "x.nriscope.db")


@pytest.fixture
async def worker(path: Path) -> AsyncIterator[ReaderThread]:
    worker = ReaderThread(path)
    await worker.start()
    yield worker
    await worker.close()


class Busy:
    """Work that blocks the thread until released."""

    def __init__(self, worker: ReaderThread) -> None:
        self._loop = asyncio.get_running_loop()
        self._release = Event()
        self._began = asyncio.Event()
        self.task = asyncio.create_task(worker.soon(self._work))

    async def wait_started(self) -> Busy:
        await self._began.wait()
        return self

    def release(self) -> None:
        self._release.set()

    def _work(self, _: Recording) -> None:
        self._loop.call_soon_threadsafe(self._began.set)
        assert self._release.wait(10)


async def test_requests_are_executed_in_order(worker: ReaderThread) -> None:
    done: list[int] = []

    def append(number: int, _: Recording) -> None:
        done.append(number)

    await asyncio.gather(*(worker.soon(partial(append, number)) for number in range(5)))
    assert done == [0, 1, 2, 3, 4]


async def test_the_newest_urgent_request_comes_first_and_old_ones_are_dropped(
    worker: ReaderThread,
) -> None:
    busy = await Busy(worker).wait_started()
    done: list[int] = []

    def work(number: int, _: Recording) -> int:
        done.append(number)
        return number

    soon = asyncio.create_task(worker.soon(partial(work, -1)))
    tasks = []
    for number in range(MAX_URGENT + 2):
        tasks.append(asyncio.create_task(worker.urgent(partial(work, number))))
        await asyncio.sleep(0)
    busy.release()
    results = await asyncio.gather(*tasks)
    await soon
    assert results == [None, None, *range(2, MAX_URGENT + 2)]
    assert done == [*reversed(range(2, MAX_URGENT + 2)), -1]


async def test_other_requests_run_between_steps_of_long_work(worker: ReaderThread) -> None:
    order: list[str] = []
    loop, in_step, queued = asyncio.get_running_loop(), asyncio.Event(), Event()

    def steps(_: Recording) -> Iterator[int]:
        for number in range(3):
            order.append(f"step {number}")
            if number == 0:
                loop.call_soon_threadsafe(in_step.set)
                assert queued.wait(10)
            yield number

    results: list[int] = []
    long = asyncio.create_task(worker.steps(steps, results.append))
    await in_step.wait()
    others = [
        asyncio.create_task(worker.soon(lambda _: order.append("soon"))),
        asyncio.create_task(worker.urgent(lambda _: order.append("urgent"))),
    ]
    await asyncio.sleep(0)
    queued.set()
    await asyncio.gather(long, *others)
    assert order == ["step 0", "urgent", "soon", "step 1", "step 2"]
    assert results == [0, 1, 2]


async def test_cancelled_long_work_stops(worker: ReaderThread) -> None:
    def steps(_: Recording) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    begun = asyncio.Event()
    task = asyncio.create_task(worker.steps(steps, lambda _: begun.set()))
    await begun.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_errors_are_raised_to_the_caller(worker: ReaderThread) -> None:
    def fail(_: Recording) -> int:
        raise RecordingError("x", "it is broken")

    def steps(recording: Recording) -> Iterator[int]:
        yield 1
        yield fail(recording)

    with pytest.raises(RecordingError, match="broken"):
        await worker.soon(fail)
    with pytest.raises(RecordingError, match="broken"):
        await worker.urgent(fail)
    results: list[int] = []
    with pytest.raises(RecordingError, match="broken"):
        await worker.steps(steps, results.append)
    assert results == [1]
    assert await worker.soon(lambda recording: len(recording.sessions())) == 1


async def test_cancelling_interrupts_an_endless_query(worker: ReaderThread) -> None:
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(recording: Recording) -> object:
        connection = recording.connection
        loop.call_soon_threadsafe(began.set)
        return connection.execute(ENDLESS).fetchone()

    task = asyncio.create_task(worker.soon(work))
    await began.wait()
    # The query may not have begun yet; then there is nothing to interrupt.
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.01)
    assert task.cancelled()


async def test_closing_cancels_queued_requests_and_rejects_new_ones(path: Path) -> None:
    worker = ReaderThread(path)
    await worker.start()
    busy = await Busy(worker).wait_started()
    waiting = asyncio.create_task(worker.soon(lambda _: None))
    await asyncio.sleep(0)
    busy.release()
    await worker.close()
    for task in (busy.task, waiting):
        await asyncio.wait({task})
    assert waiting.cancelled()
    with pytest.raises(RecordingError, match="it was closed"):
        await worker.soon(lambda _: None)
    with pytest.raises(RecordingError, match="it was closed"):
        await worker.urgent(lambda _: None)


class _Strange(BaseException):
    """An unexpected exception."""


async def test_requests_fail_if_the_thread_dies(
    worker: ReaderThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise _Strange

    busy = await Busy(worker).wait_started()
    waiting = [
        asyncio.create_task(worker.soon(lambda _: None)),
        asyncio.create_task(worker.urgent(lambda _: None)),
        asyncio.create_task(worker.steps(lambda _: iter([1]), lambda _: None)),
    ]
    await asyncio.sleep(0)
    # Raised between two requests, so that it is not the error of a request.
    monkeypatch.setattr(worker, "_do_next", fail)
    busy.release()
    await busy.task
    for task in waiting:
        with pytest.raises(_Strange):
            await task
    with pytest.raises(_Strange):
        await worker.soon(lambda _: None)


async def test_missing_file_is_reported(tmp_path: Path) -> None:
    worker = ReaderThread(tmp_path / "nothing")
    with pytest.raises(RecordingError, match="no such file"):
        await worker.start()
    await worker.close()


async def test_cancelled_start_leaves_no_thread(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release, open_it = Event(), Event(), Recording.open

    def slowly(which: Path) -> Recording:
        begun.set()
        assert release.wait(10)
        return open_it(which)

    monkeypatch.setattr(Recording, "open", slowly)
    task = asyncio.create_task(ReaderThread(path).start())
    await asyncio.to_thread(begun.wait)
    (thread,) = (thread for thread in enumerate_threads() if thread.name == "recording")
    task.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    thread.join(10)
    assert not thread.is_alive()


async def test_connection_cannot_be_used_in_another_thread(
    worker: ReaderThread, path: Path
) -> None:
    connection = await worker.soon(lambda recording: recording.connection)
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")
