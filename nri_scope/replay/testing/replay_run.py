# SPDX-License-Identifier: Apache-2.0
"""Performing a replay from a test, which may be a coroutine itself."""

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
    """Replay to the end; also returns what the handlers of plugins in this process raised.

    Called while an event loop runs in this thread, the replay has another thread with a loop of
    its own. Raises as `replay`.
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

    # Handlers see the context of the test that called them, as they do without a thread.
    thread = Thread(target=copy_context().run, args=(work,), name="nri_replay", daemon=True)
    thread.start()
    try:
        # Only now: an exception raised here while it starts would leave it running.
        begin.set()
        # Not by joining the thread: up to Python 3.12 that takes it for ended once interrupted.
        return done.result()
    finally:
        if not done.done():
            # ^C is for the thread of the test; plugins must not be left behind by it.
            given_up.set()
            for one in cancel:
                one()
            wait([done])
        thread.join()
