# SPDX-License-Identifier: Apache-2.0
"""Run long work on the recording in a separate thread, with progress and cancellation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from textual.worker import Worker

from nri_scope.errors import NriScopeError
from nri_scope.recording.file.file_errors import error_words
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import OnShare
from nri_scope.text.escape import columns, safe

from ..actions import key_of
from ..store.reader_thread import CancelFlag
from ..text.styled_line import Style, line
from ..textual_workarounds import begin
from ..widgets.screens import ReadingScreen
from . import KeyCommands

_PROGRESS_S = 0.1
"""Seconds between progress messages."""
_MARGIN = 4
"""Columns of the status line not available for a message."""

T = TypeVar("T")


@dataclass
class Jobs(KeyCommands):
    """Runner of jobs, one at a time."""

    made: list[Path]
    """Created files; appended by the work that writes them."""
    _worker: Worker[None] | None = None
    _in_thread: asyncio.Task[object] | None = None
    _stop: CancelFlag = field(default_factory=CancelFlag)

    @property
    def busy(self) -> bool:
        """Whether a job is running."""
        return self._worker is not None and not self._worker.is_finished

    def is_free(self) -> bool:
        """Return whether a job can begin; if not, say so."""
        if self.busy:
            key = key_of("stop")
            self.frame.say(f"another job is still running; {key} stops it", problem=True)
        return not self.busy

    def begin(self, job: Callable[[], Coroutine[None, None, None]]) -> None:
        """Start a job, which calls `run`, unless another job is running. Reports its errors.

        The work appends the files that it creates to ``made``.
        """
        if self.is_free():
            self._worker = begin(self.app, partial(self._do, job), "job")

    def stop(self) -> None:
        """Cancel the job."""
        if self._worker is not None:
            self._worker.cancel()

    async def close(self) -> None:
        """Cancel the job, and wait until its work has ended."""
        self._stop.set()
        if self._in_thread is not None:
            await asyncio.wait({self._in_thread})

    async def _do(self, job: Callable[[], Coroutine[None, None, None]]) -> None:
        made = len(self.made)
        try:
            await job()
        except NriScopeError as error:
            self._report(str(error))
        except OSError as error:
            # For example the path of a temporary folder, or of a program to be started.
            where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            self._report(f"{where}{error_words(error)}")
        except asyncio.CancelledError:
            late = [path.name for path in self.made[made:]]
            was_written = f"too late to stop: ./{late[0]} was already written" if late else ""
            self.frame.say(was_written or "stopped: nothing was written")
            raise

    def _report(self, problem: str) -> None:
        if columns(problem) < self.app.size.width - _MARGIN:
            self.frame.say(problem, problem=True)
        else:
            # Do not cut a long message: its end says what to do.
            words = [line(safe(problem), Style.BAD)]
            self.app.push_screen(ReadingScreen("error", words, wrap=True))

    async def run(self, words: str, work: Callable[[Recording, OnShare], T]) -> T:
        """Run ``work`` in a thread with its own `Recording`. Raises the errors of ``work``.

        Its callback raises CancelledError after `stop`. After a cancellation, waits until the work
        has ended.
        """
        stop, part = CancelFlag(), 0.0
        self._stop = stop

        def progress(done: float) -> None:
            nonlocal part
            part = done
            if done < 1:
                # At 1, the result exists and would not be undone.
                stop.check()

        def in_thread() -> T:
            with Recording.open(self.path) as recording:
                return work(recording, progress)

        doing = asyncio.create_task(asyncio.to_thread(in_thread))
        self._in_thread = cast("asyncio.Task[object]", doing)
        try:
            while not doing.done():
                self.frame.show_work(replace(self.frame.work, busy=f"{words}: {part:.0%}"))
                await asyncio.wait({doing}, timeout=_PROGRESS_S)
            return doing.result()
        finally:
            stop.set()
            # `wait` instead of `await doing`: a second cancellation would cancel the task instead
            # of the thread's work.
            while not doing.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({doing})
            if not doing.cancelled():
                # Retrieve the exception, which was reported or is no longer needed.
                doing.exception()
            self.frame.show_work(replace(self.frame.work, busy=""))
