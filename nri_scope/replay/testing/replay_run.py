# SPDX-License-Identifier: Apache-2.0
"""Running a replay in a test, which may be a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from threading import Event, Thread

from nri_scope.transport.loop import run

from ..result import Replayed
from ..run import Job, replay
from .handler_errors import HandlerError, caught


def perform(job: Job) -> tuple[Replayed, list[HandlerError]]:
    """Replay to the end; also return the exceptions of handlers of plugins in this process.

    If an event loop is running in this thread, the replay runs in another thread with its own
    loop. Raises the same errors as `replay`.
    """
    with caught() as errors:
        return _in_thread(job) if _in_coroutine() else run(replay(job)), errors


def _in_coroutine() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_thread(job: Job) -> Replayed:
    done = Future[Replayed]()
    cancel: list[Callable[[], object]] = []
    begin, given_up = Event(), Event()

    async def main() -> Replayed:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if given_up.is_set():
            raise asyncio.CancelledError
        return await replay(job)

    def work() -> None:
        begin.wait()
        try:
            done.set_result(run(main()))
        except BaseException as error:  # noqa: BLE001 - for the thread that waits
            done.set_exception(error)

    # Handlers get the context of the calling test, as they do without a thread.
    thread = Thread(target=copy_context().run, args=(work,), name="nri_replay", daemon=True)
    thread.start()
    try:
        # Only now: an exception raised here during the start would leave the thread running.
        begin.set()
        # Do not join the thread: up to Python 3.12 an interrupted join takes it for ended.
        return done.result()
    finally:
        if not done.done():
            # ^C reaches the test's thread only; it must not leave plugins running.
            given_up.set()
            for one in cancel:
                one()
            wait([done])
        thread.join()
