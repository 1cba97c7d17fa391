# SPDX-License-Identifier: Apache-2.0
"""A logger that a runtime launched: configured by what Configure brings, speaking to a log file.

Its output goes nowhere, so whatever there is to say goes to a file beside the recording.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns

from nri_scope.errors import NriScopeError
from nri_scope.nri.introduction import ConfigureRequest
from nri_scope.plugin import Exchange, Identity, SessionEnd
from nri_scope.recorder.model import Captured, SessionStart
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.wire import RequestReceived

from .logger import Logger, SessionReport, Sink
from .settings import Settings, parse_settings

LOG_MAX = 1 << 20
"""Bytes after which the log file starts anew: it lives on a node for years."""

WAITING_MAX = 10_000
"""Events kept while the recording cannot be opened; later ones are counted as lost."""

REOPEN_PAUSE = 10.0
"""Seconds between attempts to open a recording that could not be opened."""


class LogFile:
    """Appends lines to a private file; a log that cannot be written is no reason to fail."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, text: str) -> None:
        """One line, with the time."""
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {' '.join(text.split())}\n"
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
                if file.tell() > LOG_MAX:
                    file.truncate(0)
                file.write(line)


class DeferredSink:
    """Keeps what the logger hands over until there is a recorder to take it."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._waiting: list[Callable[[Sink], None]] = []
        self._sessions: dict[int, int] = {}
        self._handles = 0
        self._lost = 0
        self._lost_since = 0

    def attach(self, recorder: Recorder) -> None:
        """Hand over all that has waited, and pass everything on from now on."""
        for deliver in self._waiting:
            deliver(recorder)
        self._waiting.clear()
        if self._lost:
            recorder.note_gap(
                None, self._lost_since, time_ns(), "the recording could not be opened", self._lost
            )
        self._recorder = recorder

    def begin_session(self, start: SessionStart) -> int:
        """See `Recorder.begin_session`."""
        self._handles += 1
        handle = self._handles

        def deliver(sink: Sink) -> None:
            self._sessions[handle] = sink.begin_session(start)

        self._do(deliver)
        return handle

    def capture(self, session: int, item: Captured) -> None:
        """See `Recorder.capture`."""
        if self._recorder is not None:
            self._recorder.capture(self._sessions[session], item)
        elif len(self._waiting) < WAITING_MAX:
            self._waiting.append(lambda sink: sink.capture(self._sessions[session], item))
        else:
            self._lost += 1
            self._lost_since = self._lost_since or item.wall_ns

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        """See `Recorder.end_session`."""
        self._do(lambda sink: sink.end_session(self._sessions[session], reason, at_ns))

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None:
        """See `Recorder.note_gap`."""
        self._do(
            lambda sink: sink.note_gap(
                None if session is None else self._sessions[session], from_ns, to_ns, reason, lost
            )
        )

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        """See `Recorder.note`."""
        self._do(
            lambda sink: sink.note(
                None if session is None else self._sessions[session], at_ns, text
            )
        )

    def _do(self, deliver: Callable[[Sink], None]) -> None:
        if self._recorder is not None:
            deliver(self._recorder)
        else:
            self._waiting.append(deliver)


class LaunchedPlugin:
    """A `Plugin` that becomes a `Logger` once it has been configured."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._sink = DeferredSink()
        self._logger: Logger | None = None
        self._opening: asyncio.Task[None] | None = None
        self._recorder: Recorder | None = None
        self._log = LogFile(Path(f"{Settings().output}.log"))

    # -- Plugin -----------------------------------------------------------------------------

    def configure(self, request: ConfigureRequest) -> int:
        """Take the settings and subscribe; the file is opened later, by another thread."""
        settings, problems = parse_settings(request.config)
        if self._logger is None:
            self._log = LogFile(Path(f"{settings.output}.log"))
            self._logger = Logger(
                self._sink,
                self._identity,
                events=settings.events,
                validate=settings.validate,
                on_session=self._report,
            )
            self._opening = asyncio.create_task(self._open(settings, problems))
        return self._logger.configure(request)

    def answer(self, request: RequestReceived) -> bytes:
        """See `Logger.answer`."""
        return self._logger.answer(request) if self._logger is not None else b""

    def answered(self, exchange: Exchange) -> None:
        """See `Logger.answered`."""
        if self._logger is not None:
            self._logger.answered(exchange)

    def noticed(self, text: str) -> None:
        """See `Logger.noticed`."""
        if self._logger is not None:
            self._logger.noticed(text)
        else:
            self._log.write(text)

    def stood_still(self, seconds: float) -> None:
        """See `Logger.stood_still`."""
        if self._logger is not None:
            self._logger.stood_still(seconds)

    # -- life -------------------------------------------------------------------------------

    async def finish(self, end: SessionEnd) -> None:
        """The runtime is gone: bring everything to the file."""
        if self._logger is not None:
            self._logger.ended(end)
        if self._opening is not None and not self._opening.done():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._opening, 5)
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)
        self._log.write(f"ended: {end.reason}")

    def failed(self, error: NriScopeError) -> None:
        """There was no session at all."""
        self._log.write(f"no session: {error}")

    def _report(self, report: SessionReport) -> None:
        start = report.start
        self._log.write(
            f"recording {start.runtime_name} {start.runtime_version}, NRI {start.nri_version}"
        )
        for warning in report.warnings:
            self._log.write(warning)

    async def _open(self, settings: Settings, problems: tuple[str, ...]) -> None:
        limits = WriterLimits(max_size=settings.max_size, max_age_seconds=settings.max_age)
        keep = settings.where.matches if settings.where is not None else None
        told = ""
        while True:
            try:
                await asyncio.to_thread(_make_folder, settings.output.parent)
                recorder = await asyncio.to_thread(
                    Recorder.open,
                    settings.output,
                    limits=limits,
                    keep=keep,
                    on_problem=self._log.write,
                )
                break
            except (NriScopeError, OSError) as error:
                if str(error) != told:
                    told = str(error)
                    self._log.write(f"cannot record: {error}; trying again")
                await asyncio.sleep(REOPEN_PAUSE)
        for problem in problems:
            self._log.write(problem)
        self._sink.attach(recorder)
        self._recorder = recorder


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
