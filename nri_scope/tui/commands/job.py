# SPDX-License-Identifier: Apache-2.0
"""Long work on the recording, in a thread of its own, with progress and cancellation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from textual.app import App
from textual.worker import Worker

from nri_scope.errors import NriScopeError
from nri_scope.recording.file_errors import error_words
from nri_scope.recording.reader import Recording
from nri_scope.text.escape import columns, safe

from ..actions import Keymap
from ..frame import Frame
from ..store.reader_thread import CancelFlag
from ..text.styled_line import Style, line
from ..textual_gaps import begin
from ..widgets.screens import ReadingScreen

_TOLD_SECONDS = 0.1
"""Seconds between two progress messages."""
_MARGIN = 4
"""Columns of the status line that are not available for progress messages."""

Progress = Callable[[float], None]
"""To be called often, with the completed part. Raises CancelledError after `Jobs.stop`."""
T = TypeVar("T")


@dataclass
class Jobs:
    """Runs jobs, at most one at a time."""

    app: App[Any]
    frame: Frame
    keymap: Keymap
    path: Path
    """The recording."""
    made: list[Path]
    """Files that were created; added by the work that writes them."""
    _worker: Worker[None] | None = None
    _in_thread: asyncio.Task[object] | None = None
    _stop: CancelFlag = field(default_factory=CancelFlag)

    @property
    def busy(self) -> bool:
        """Whether a job is running."""
        return self._worker is not None and not self._worker.is_finished

    def begin(self, job: Callable[[], Coroutine[None, None, None]]) -> None:
        """Begin a job that calls `run`, unless another one is running. Its errors are reported.

        Work in the thread adds the files that it creates to ``made``.
        """
        if self.busy:
            key = self.keymap.first("stop")
            self.frame.say(f"another job is still running; {key} stops it", problem=True)
        else:
            self._worker = begin(self.app, partial(self._do, job), "job")

    def stop(self) -> None:
        """End the job."""
        if self._worker is not None:
            self._worker.cancel()

    async def close(self) -> None:
        """End the job, and return when all of its work has ended."""
        self._stop.set()
        if self._in_thread is not None:
            await asyncio.wait({self._in_thread})

    async def _do(self, job: Callable[[], Coroutine[None, None, None]]) -> None:
        made = len(self.made)
        try:
            await job()
        except NriScopeError as error:
            self._tell(str(error))
        except OSError as error:
            # The path of a temporary folder, or of a program to be started.
            where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            self._tell(f"{where}{error_words(error)}")
        except asyncio.CancelledError:
            late = [path.name for path in self.made[made:]]
            was_written = f"too late to stop: ./{late[0]} was already written" if late else ""
            self.frame.say(was_written or "stopped: nothing was written")
            raise

    def _tell(self, problem: str) -> None:
        if columns(problem) < self.app.size.width - _MARGIN:
            self.frame.say(problem, problem=True)
        else:
            # The remedy is at the end of the message.
            words = [line(safe(problem), Style.BAD)]
            self.app.push_screen(ReadingScreen("error", words, wrap=True))

    async def run(self, words: str, work: Callable[[Recording, Progress], T]) -> T:
        """Run ``work`` with a `Recording` of its own. Raises the errors of ``work``.

        A cancelled job waits until the work has ended.
        """
        stop, part = CancelFlag(), 0.0
        self._stop = stop

        def progress(done: float) -> None:
            nonlocal part
            part = done
            if done < 1:
                # A completed result would not be undone.
                stop.check()

        def in_thread() -> T:
            with Recording.open(self.path) as recording:
                return work(recording, progress)

        doing = asyncio.create_task(asyncio.to_thread(in_thread))
        self._in_thread = cast("asyncio.Task[object]", doing)
        try:
            while not doing.done():
                self.frame.work_on(busy=f"{words}: {part:.0%}")
                await asyncio.wait({doing}, timeout=_TOLD_SECONDS)
            return doing.result()
        finally:
            stop.set()
            # Not awaited itself: stopping twice would cancel the future instead of the thread's
            # work.
            while not doing.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({doing})
            if not doing.cancelled():
                # Retrieve the exception: it was reported, or is no longer of interest.
                doing.exception()
            self.frame.work_on(busy="")
