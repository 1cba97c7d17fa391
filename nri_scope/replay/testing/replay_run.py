# SPDX-License-Identifier: Apache-2.0
"""Run a replay in a test, which may be a coroutine."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import NamedTuple

import nri_scope.plugin
from nri_scope.transport.loop import run

from ..result import Replayed
from ..run import Job, replay

_LOG = logging.getLogger("nri_scope.plugin")
_OURS = str(Path(nri_scope.plugin.__file__).parent)


class HandlerError(NamedTuple):
    """Exception raised by a handler."""

    where: str
    """Handler and subject: ``create_container shop/web/app``."""
    error: BaseException
    """Its traceback begins in the handler."""

    def lines(self) -> Iterator[str]:
        """Yield its traceback as Python prints it."""
        for text in traceback.format_exception(self.error):
            yield from text.splitlines()


@contextmanager
def collect_handler_errors() -> Iterator[list[HandlerError]]:
    """Collect exceptions of handlers in the block. They are still logged, and sent as errors."""
    found: list[HandlerError] = []
    level, effective = _LOG.level, _LOG.getEffectiveLevel()

    def collect(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            found.append(HandlerError(record.getMessage(), _from_handler(error)))
        # Drop records below the level in effect before.
        return record.levelno >= effective

    _LOG.addFilter(collect)
    _LOG.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        _LOG.setLevel(level)
        _LOG.removeFilter(collect)


def _from_handler(error: BaseException) -> BaseException:
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OURS):
        frames = frames.tb_next
    return error.with_traceback(frames) if frames is not None else error


def perform(job: Job) -> tuple[Replayed, list[HandlerError]]:
    """Replay; return the result, and exceptions of handlers in this process.

    If an event loop is running in this thread, the replay runs in another thread with its own loop.
    Raises the errors of `replay`.
    """
    with collect_handler_errors() as errors:
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
    begin, cancelled = Event(), Event()

    async def main() -> Replayed:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if cancelled.is_set():
            raise asyncio.CancelledError
        return await replay(job)

    def work() -> None:
        begin.wait()
        try:
            done.set_result(run(main()))
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            done.set_exception(error)

    # Handlers run in the context of the calling test, as they do without a thread.
    thread = Thread(target=copy_context().run, args=(work,), name="nri_replay", daemon=True)
    thread.start()
    try:
        # Inside the try block, as an exception before it would leave the replay running.
        begin.set()
        # Wait for the result, not the thread: until Python 3.12, an interrupted join marks the
        # thread as ended.
        return done.result()
    finally:
        if not done.done():
            # ^C is raised in the test's thread only, and must not leave plugins running.
            cancelled.set()
            for one in cancel:
                one()
            wait([done])
        thread.join()
