# SPDX-License-Identifier: Apache-2.0
"""A logger that a runtime launches: configured by the Configure request, with a log file.

The runtime discards its output, so messages go to a log file beside the recording or, until the
recording is open, beside the default path: a configured path may be misspelt or belong to another
program.

The logger never rejects its configuration: up to NRI 0.6, one launched plugin that fails to start
keeps the whole runtime from starting.
"""

from __future__ import annotations

import asyncio
import contextlib

from nri_scope.errors import UsageError
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import ConfigureRequest
from nri_scope.nri.versions import runtime_remark, runtime_words
from nri_scope.plugin import Exchange, Identity, SessionEnd
from nri_scope.wire import RequestReceived
from nri_scope.writer.messages import RecordingOptions
from nri_scope.writer.supervisor import WriterProcess

from .logfile import LogFile, log_beside
from .logger import Logger, SessionReport
from .settings import Settings, parse_settings

REOPEN_PAUSE_S = 10.0
"""Pause in seconds after the first failed attempt to open the recording, and its increment."""
LONGEST_PAUSE_S = 60.0
"""Maximum pause in seconds: each attempt takes some tenths of a second of CPU time."""


class LaunchedPlugin:
    """A `Plugin` that delegates to a `Logger` once it has been configured."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._logger: Logger | None = None
        self._opening: asyncio.Task[None] | None = None
        self._writer: WriterProcess | None = None
        self._recording = False
        self._log = LogFile()

    # -- Plugin -----------------------------------------------------------------------------

    def configure(self, request: ConfigureRequest) -> int:
        """Apply the settings and subscribe. Files are opened later, not in this thread."""
        if self._logger is not None:
            return self._logger.configure(request)
        try:
            settings, problems = parse_settings(request.config)
        except Exception as error:  # noqa: BLE001 - a failure may keep the runtime from starting
            settings = Settings()
            problems = (f"configuration: {type(error).__name__}: {error}; using the defaults",)
        for problem in problems:
            self._log.write(problem)
        writer = self._writer = WriterProcess(_options(settings), self._log.write)
        self._logger = self._new_logger(writer, settings)
        try:
            mask = self._logger.configure(request)
        except UsageError as error:
            self._log.write(f"configuration: {error}; subscribing to every event")
            self._logger = self._new_logger(writer, Settings(output=settings.output))
            mask = self._logger.configure(request)
        self._opening = asyncio.create_task(self._open(writer, settings))
        return mask

    def answer(self, request: RequestReceived) -> bytes:
        """See `Logger.answer`; also before Configure."""
        return no_change(request.method, request.payload, request.service)

    def answered(self, exchange: Exchange) -> None:
        """See `Logger.answered`."""
        if self._logger is not None:
            self._logger.answered(exchange)

    def noticed(self, text: str) -> None:
        """See `Logger.noticed`."""
        if self._logger is not None:
            self._logger.noticed(text)

    # -- stalls and the end -----------------------------------------------------------------

    def report_stall(self, seconds: float) -> None:
        """See `Logger.report_stall`."""
        if self._logger is not None:
            self._logger.report_stall(seconds)

    async def finish(self, end: SessionEnd) -> None:
        """Write all events and log lines, as the connection has ended."""
        if self._logger is not None:
            self._logger.ended(end)
        if self._opening is not None and not self._opening.done():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._opening, 5)
        if self._writer is not None and self._recording:
            await self._writer.close()
            if self._writer.failure:
                self._log.write(self._writer.failure)
        self._log.write(f"ended: {end.reason}")
        if not self._recording:
            self._log.use_temporarily(log_beside(Settings().output))
        await asyncio.to_thread(self._log.close)

    def _new_logger(self, writer: WriterProcess, settings: Settings) -> Logger:
        return Logger(
            writer,
            self._identity,
            events=settings.events,
            validate=settings.validate,
            on_session=self._report,
        )

    def _report(self, report: SessionReport) -> None:
        start = report.start
        self._log.write(
            f"connected to {runtime_words(start.runtime_name, start.runtime_version)}, "
            f"NRI {start.nri_version or 'unknown'}{runtime_remark(start.runtime_name)}"
        )
        for warning in report.warnings:
            self._log.write(warning)

    async def _open(self, writer: WriterProcess, settings: Settings) -> None:
        reported = ""
        pause = 0.0
        while True:
            pause = min(pause + REOPEN_PAUSE_S, LONGEST_PAUSE_S)
            try:
                await writer.open()
                break
            except Exception as error:  # noqa: BLE001 - report any error, and try again
                if str(error) != reported:
                    reported = str(error)
                    self._log.write(f"not recording yet, retrying: {error}")
                    self._log.use_temporarily(log_beside(Settings().output))
                await asyncio.sleep(pause)
        self._recording = True
        self._log.write(f"recording to {settings.output}")
        self._log.use(log_beside(settings.output))


def _options(settings: Settings) -> RecordingOptions:
    output = settings.output
    return RecordingOptions(
        output,
        existed=True,
        max_size=settings.max_size,
        max_age=settings.max_age,
        where=str(settings.where) if settings.where is not None else None,
        redact=settings.redact,
        # Any other folder was configured explicitly: if it is missing, its name may be misspelt or
        # its disk not mounted yet.
        makes_folder=output.parent == Settings().output.parent,
    )
