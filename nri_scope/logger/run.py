# SPDX-License-Identifier: Apache-2.0
"""One run of ``record``: recorder, logger and runtime put together, and what is told about it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time_ns

from nri_scope.errors import ConnectError, NriScopeError, RpcError, UsageError
from nri_scope.events import Captured
from nri_scope.events import Event as StoredEvent
from nri_scope.filter import Filter
from nri_scope.nri.events import Event, events_in
from nri_scope.plugin import Identity, SessionEnd, unix_socket
from nri_scope.process.signals import ignore_stop_signals, stop_signals
from nri_scope.recorder.closing_line import counted, outcome
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.share.redaction.capture import NOTE, AtSource, check_continued
from nri_scope.share.redaction.rules import Rules
from nri_scope.transport.loop import run
from nri_scope.transport.tuning import prepare_process

from .logger import Logger, SessionReport
from .service import LoggerService


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What to record, from where and to where."""

    output: Path
    socket: Path
    identity: Identity
    events: frozenset[Event] | None = None
    """None for every passive event."""
    where: Filter | None = None
    max_size: int | None = None
    """Bytes."""
    max_age: float | None = None
    """Seconds."""
    duration: float | None = None
    """Seconds."""
    once: bool = False
    wait: bool = False
    validate: bool = False
    redact: Rules | None = None
    """What to replace before it is written; None for nothing."""


def record(
    options: RecordOptions,
    say: Callable[[str], None],
    on_event: Callable[[StoredEvent, Captured], None] | None = None,
) -> None:
    """Record until a signal, the duration or the end of the one session.

    ``say`` gets what a user wants to know, line by line. Raises `NriScopeError` when there is
    nothing to record from, or no file to record to.
    """
    if Event.ValidateContainerAdjustment in (options.events or ()) and not options.validate:
        raise UsageError("ValidateContainerAdjustment needs --validate", "see what that risks")
    existed = os.path.lexists(options.output)
    check_continued(options.output, redacts=options.redact is not None)
    redaction = AtSource.to(options.output, options.redact) if options.redact is not None else None
    recorder = Recorder.open(
        options.output,
        limits=WriterLimits(max_size=options.max_size, max_age_seconds=options.max_age),
        keep=options.where.matches if options.where is not None else None,
        on_event=on_event,
        on_problem=say,
        redaction=redaction,
    )
    if redaction is not None:
        recorder.note(None, time_ns(), NOTE)
    running = _Run(options, recorder, say)
    prepare_process()
    try:
        run(running.main())
    finally:
        # A second one must not cut the writing short, which is bounded anyway.
        ignore_stop_signals()
        counters = recorder.close()
        if running.sessions or existed:
            say(
                outcome(
                    options.output,
                    counters,
                    sessions=running.sessions,
                    seconds=running.seconds,
                )
            )
        else:
            # Never connected: leave no empty recording behind.
            options.output.unlink(missing_ok=True)
    if not (running.sessions or existed):
        say("nothing recorded: no runtime was there")


class _Run:
    def __init__(
        self, options: RecordOptions, recorder: Recorder, say: Callable[[str], None]
    ) -> None:
        self._options = options
        self._say = say
        self._started = monotonic()
        self._stopped = ""
        self.sessions = 0
        self._service = LoggerService(
            Logger(
                recorder,
                options.identity,
                events=options.events,
                validate=options.validate,
                on_session=self._on_session,
            ),
            options.identity,
            unix_socket(options.socket),
            wait=options.wait,
            once=options.once,
            on_end=self._on_end,
            on_wait=self._on_wait,
        )

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return monotonic() - self._started

    async def main(self) -> None:
        """Record until something says stop."""
        loop = asyncio.get_running_loop()
        if self._options.duration is not None:
            loop.call_later(self._options.duration, self._stop, 0, "the duration is over")
        with stop_signals(self._stop, loop=loop, ignored_afterwards=True):
            await self._serve()

    async def _serve(self) -> None:
        try:
            await self._service.run()
        except ConnectError as error:
            raise ConnectError(
                error.path,
                error.problem,
                error.hint or "run `nri-scope doctor` to see why, or use --wait to wait for it",
            ) from error
        except RpcError as error:
            raise UsageError(
                f"the runtime refused the registration: {error.message}",
                "another --index or --name may help",
            ) from error

    def _stop(self, _number: int, reason: str) -> None:
        self._stopped = reason
        self._service.stop(reason)

    def _on_session(self, report: SessionReport) -> None:
        self.sessions += 1
        start = report.start
        events = events_in(start.mask)
        self._say(
            f"recording {report.runtime} as {start.plugin_index}-{start.plugin_name}, "
            f"{counted(len(events), 'event')} subscribed, to {self._options.output}"
        )
        for warning in report.warnings:
            self._say(f"warning: {warning}")
        if Event.ValidateContainerAdjustment in events:
            self._say("warning: --validate: if this process dies or stalls, containers may fail")

    def _on_end(self, end: SessionEnd) -> None:
        if not self._stopped:
            more = "" if self._options.once else "; waiting for the runtime to come back"
            self._say(f"session ended: {end.reason}{more}")

    def _on_wait(self, error: NriScopeError) -> None:
        # That its socket is gone was told when the session ended.
        if not (self.sessions and isinstance(error, ConnectError)):
            self._say(f"waiting for a runtime: {error}")
