# SPDX-License-Identifier: Apache-2.0
"""Run ``record``: the recorder, the logger, the runtime, and messages to the user."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.end_reasons import NEW_SOCKET, oversized_message
from nri_scope.errors import ConnectError, NriScopeError, RecordingError, RpcError, UsageError
from nri_scope.nri.events import DEFAULT_REQUEST_TIMEOUT_MS, EventKind, events_in
from nri_scope.nri.runtime_setup import FailurePolicy
from nri_scope.nri.versions import SPLIT_ADVICE, NriVersion, has_failure_policy
from nri_scope.plugin import Identity, SessionEnd, unix_socket
from nri_scope.plugin.session import with_hint
from nri_scope.process.signals import ignore_stop_signals, stop_signals, terminal_stops_refused
from nri_scope.text.quantities import many
from nri_scope.transport.loop import prepare_process, run
from nri_scope.writer.messages import CRI_HINT, RecordingOptions
from nri_scope.writer.supervisor import WriterProcess

from .logger import VALIDATE_RISK, Logger, LoggerService, SessionReport
from .v01_spool import SpoolRecorder, check_spool

if TYPE_CHECKING:
    from nri_scope.writer.metrics_reader import FirstReading

REFUSED_STOP = "not stopped (^Z): without its reply, no container would be created; end it with ^C"


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Options of a run: what to record, from which runtime and to which file."""

    file: RecordingOptions
    """What the writer does, without metrics and validator."""
    socket: Path
    identity: Identity
    events: frozenset[EventKind] | None = None
    """Events to record; None for every passive event."""
    duration: float | None = None
    """Seconds to record; None for no limit."""
    once: bool = False
    wait: bool = False
    validate: bool = False
    keep_connected: bool = False
    """Whether the runtime keeps the connection after a missed deadline (NRI 0.12.4)."""
    metrics: str | None = None
    """URL of the runtime's metrics; None not to record them."""
    spool: Path | None = None
    """Spool of NRI 0.1 to record, too; None for none."""
    is_spool_default: bool = False
    """Whether it was not named: it is left out, with a warning, if it cannot be recorded."""


def record(options: RecordOptions, say: Callable[[str], None], program: Sequence[str] = ()) -> None:
    """Record until a signal, the end of the duration or, with `RecordOptions.once`, of the session.

    ``say`` is called with messages for the user, line by line. ``program``: name and arguments of
    the module of a writer that also prints; see `WriterProcess`. Raises `NriScopeError` if there is
    no runtime, if the file cannot be written, or if events were lost because the writer failed.
    """
    if EventKind.ValidateContainerAdjustment in (options.events or ()) and not options.validate:
        raise UsageError(
            "ValidateContainerAdjustment requires --validate", "see its risk in --help"
        )
    metrics = None
    if options.metrics is not None:
        from nri_scope.writer.metrics_reader import FirstReading

        # Before anything is created, so that an error has no effect.
        metrics = FirstReading.of(options.metrics)
    options = _with_spool(options, say)
    running = _Run(options, say, program, metrics)
    prepare_process()
    run(running.main())


def _with_spool(options: RecordOptions, say: Callable[[str], None]) -> RecordOptions:
    """Check the spool of NRI 0.1. Raises UsageError if a named one cannot be recorded."""
    if options.spool is None:
        return options
    try:
        return replace(options, spool=check_spool(options.spool))
    except UsageError as error:
        if not options.is_spool_default:
            raise
        say(f"warning: requests of NRI 0.1 are not recorded: {error}")
        return replace(options, spool=None)


class _Run:
    def __init__(
        self,
        options: RecordOptions,
        say: Callable[[str], None],
        program: Sequence[str],
        metrics: FirstReading | None,
    ) -> None:
        self._options = options
        self._metrics = metrics
        self._say = say
        self._program = program
        self._stopped = ""
        self._sessions = 0
        self._opening: asyncio.Task[None] | None = None
        self._logger: Logger | None = None
        self._service: LoggerService | None = None

    async def main(self) -> None:
        """Record until stopped."""
        loop = asyncio.get_running_loop()
        terminal_stops: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if self._options.validate:
            terminal_stops = terminal_stops_refused(lambda: self._say(REFUSED_STOP), loop)
        with stop_signals(self._stop, loop=loop, ignore_afterwards=True), terminal_stops:
            writer = await self._open_writer()
            if self._options.duration is not None:
                # Started after opening the file, so that an unusable file is always reported.
                loop.call_later(self._options.duration, self._stop, 0, "the duration has elapsed")
            try:
                if writer is not None and not self._stopped:
                    self._service = self._new_service(writer)
                    async with self._spool_of(writer):
                        await self._serve(self._service)
            finally:
                # A second signal must not interrupt the final writes, which take a bounded time.
                ignore_stop_signals()
                if writer is not None:
                    await writer.close()
                if self._logger is not None:
                    self._sessions += self._logger.refusals
                if self._sessions and self._options.file.cri is None:
                    self._say(CRI_HINT)
                if writer is not None and (self._sessions or self._options.file.existed):
                    self._say(writer.summary(self._options.file.path, self._sessions))
        if writer is None:
            self._say("nothing recorded: stopped before the file was open")
        elif not (self._sessions or self._options.file.existed):
            self._say("nothing recorded: no connection to a runtime")
        if writer is not None and writer.failure:
            raise RecordingError(self._options.file.path, writer.failure)

    async def _open_writer(self) -> WriterProcess | None:
        """Return a writer that has opened the file; None if stopped before that."""
        options = self._options
        writer = WriterProcess(
            replace(
                options.file,
                path=options.file.path.absolute(),
                metrics=self._metrics,
                validator=(options.socket, options.identity) if options.validate else None,
            ),
            self._say,
            *self._program,
            prints=bool(self._program),
        )
        self._opening = asyncio.create_task(writer.open())
        try:
            await self._opening
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            return None
        finally:
            self._opening = None
        return writer

    @contextlib.asynccontextmanager
    async def _spool_of(self, writer: WriterProcess) -> AsyncIterator[None]:
        """Record the spool of NRI 0.1, if there is one, inside this context."""
        if self._options.spool is None:
            yield
            return
        spool = SpoolRecorder(
            self._options.spool,
            writer,
            self._say,
            lambda: writer.waiting_bytes,
            writer.processed,
        )
        reading = asyncio.create_task(spool.run())
        try:
            yield
        finally:
            spool.stop()
            await reading
            self._sessions += spool.sessions

    def _new_service(self, writer: WriterProcess) -> LoggerService:
        options = self._options
        logger = self._logger = Logger(
            writer,
            options.identity,
            events=options.events,
            validate=options.validate,
            on_session=self._on_session,
        )
        return LoggerService(
            logger,
            unix_socket(options.socket),
            failure_policy=FailurePolicy(keep_connected=options.keep_connected),
            # A runtime without NRI's socket may be recorded by its spool.
            wait=options.wait or (options.spool is not None and not options.is_spool_default),
            once=options.once,
            on_end=self._on_end,
            on_wait=self._on_wait,
        )

    async def _serve(self, service: LoggerService) -> None:
        try:
            await service.run()
        except ConnectError as error:
            raise with_hint(error) from error
        except RpcError as error:
            raise UsageError(
                f"the runtime refused the registration: {error.message}",
                "try another --index or --name",
            ) from error

    def _stop(self, _number: int, reason: str) -> None:
        self._stopped = reason
        if self._service is not None:
            self._service.stop(reason)
        elif self._opening is not None:
            self._opening.cancel()

    def _on_session(self, report: SessionReport) -> None:
        self._sessions += 1
        start = report.start
        events = events_in(start.mask)
        self._say(
            f"recording {start.runtime} as {start.plugin_index}-{start.plugin_name}, "
            f"{many(len(events), 'event')} subscribed, to {self._options.file.path}"
        )
        for warning in report.warnings:
            self._say(f"warning: {warning}")
        if EventKind.ValidateContainerAdjustment in events:
            self._say(f"warning: {VALIDATE_RISK}")
        if not self._options.keep_connected:
            return
        if not has_failure_policy(NriVersion.parse(start.nri_version)):
            self._say(
                "warning: --keep-connected has no effect: this runtime has an older NRI than 0.12.4"
            )
        else:
            deadline_s = (start.request_timeout_ms or DEFAULT_REQUEST_TIMEOUT_MS) / 1000
            self._say(
                "warning: --keep-connected: if this process stalls, each NRI event takes "
                f"{deadline_s:g} s longer, until it ends"
            )

    def _on_end(self, end: SessionEnd) -> None:
        if end.warning:
            self._say(f"warning: --validate: {end.warning}")
        if not self._stopped:
            more = (
                "; waiting for the runtime to return" if end.configured else "; registering again"
            )
            more = "; connecting to the new one" if end.reason == NEW_SOCKET else more
            more = "" if self._options.once else more
            self._say(f"session ended: {end.reason}{more}")
        if oversized_message([end.reason]):
            self._say(f"warning: {SPLIT_ADVICE}")

    def _on_wait(self, error: NriScopeError) -> None:
        # After a session, `_on_end` has already reported that the runtime is gone.
        if not (self._sessions and isinstance(error, ConnectError)):
            self._say(f"waiting for a runtime: {error}")
