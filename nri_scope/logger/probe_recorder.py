# SPDX-License-Identifier: Apache-2.0
"""The recorder process of ``diff --live``: several passive plugins of one runtime, and a writer.

Decoding, writing, reading, comparing, CRI queries and printing are done in other processes, as they
would delay replies.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.capture.sink import Sink
from nri_scope.differ.live import Closed, ReadPosition, encode
from nri_scope.errors import ConnectError, NriScopeError, RecordingError, RpcError, UsageError
from nri_scope.events import Role
from nri_scope.nri.events import EventKind, events_in
from nri_scope.nri.identity import check_index
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.plugin import Identity, SessionEnd, unix_socket
from nri_scope.plugin.session import with_hint
from nri_scope.process.signals import stop_signals
from nri_scope.recording.reading.reader import Recording
from nri_scope.transport.loop import prepare_process, run
from nri_scope.writer.messages import CriSource, RecordingOptions
from nri_scope.writer.supervisor import WriterProcess

from .logger import VALIDATE_RISK, Logger, LoggerService, SessionReport
from .recorder_process import Viewer, serve

if TYPE_CHECKING:
    from nri_scope.share.redaction.rules import Rules

MIN_PROBES = 2
"""Minimum number of probes: a difference requires two."""


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Options of a recording by probes."""

    output: Path | None
    """Path of the recording; None for a private file, removed at the end."""
    socket: Path
    name: str
    probes: tuple[str, ...]
    """Indices of the probes."""
    validate: bool
    cri: Path | None
    duration: float | None
    """Duration in seconds."""
    once: bool
    wait: bool
    redact: Rules | None
    """Rules for redaction before events are recorded."""
    private: Path | None = None
    """Folder of a private file, removed by this process if the viewer has ended."""

    @property
    def path(self) -> Path:
        """Path of the file to record to."""
        return self.output or (self.private or Path()) / "live.nriscope.db"


class ProbeListener:
    """Observer of `Probes`. Its methods are called between replies and must not block."""

    def began(self, report: SessionReport) -> None:
        """Handle a probe that was connected and configured."""

    def ended(self, index: str, end: SessionEnd) -> None:
        """Handle a probe that lost its connection; it will reconnect."""

    def waits(self, index: str, error: NriScopeError) -> None:
        """Handle a probe that cannot connect yet; it will retry."""


@dataclass(slots=True)
class _Probe:
    service: LoggerService
    task: asyncio.Task[None]
    connected: bool = False


class Probes:
    """Probes at several indices, which reconnect after the runtime's restarts.

    Each probe is a separate `Logger`, which replies immediately and without changes. All share the
    sink. With ``validate``, only the first probe is a validator: further validators would observe
    nothing more, and each could make creations of containers fail.
    """

    def __init__(self, sink: Sink, options: ProbeOptions, listener: ProbeListener) -> None:
        """Check the indices. Raises UsageError."""
        self._sink = sink
        self._options = options
        self._indices = check_indices(options.probes)
        self._listener = listener
        self._probes: dict[str, _Probe] = {}
        self._stopped = ""
        self._end = asyncio.Event()
        self._failure: NriScopeError | None = None

    @property
    def validator(self) -> str:
        """Index of the probe that is a validator; "" for none."""
        return self._indices[0] if self._options.validate else ""

    async def run(self) -> None:
        """Observe until `stop`, or with ``once`` until all connections have ended.

        Raises ConnectError if there is no runtime at first, and UsageError if the runtime refuses a
        probe.
        """
        for index in self._indices:
            self._begin(index)
        try:
            await self._end.wait()
        finally:
            for probe in self._probes.values():
                probe.service.stop(self._stopped or "another probe could not connect")
            await asyncio.gather(
                *(probe.task for probe in self._probes.values()), return_exceptions=True
            )
        if self._failure is not None:
            raise self._failure

    def stop(self, reason: str) -> None:
        """End all connections and `run`."""
        self._stopped = self._stopped or reason
        self._end.set()

    def _begin(self, index: str) -> None:
        identity = Identity(index=index, name=self._options.name)
        logger = Logger(
            self._sink,
            identity,
            validate=index == self.validator,
            role=Role.PROBE,
            on_session=lambda report: self._began(index, report),
        )
        service = LoggerService(
            logger,
            unix_socket(self._options.socket),
            wait=self._options.wait,
            on_end=lambda end: self._ended(index, end),
            on_wait=lambda error: self._listener.waits(index, error),
        )
        task = asyncio.create_task(service.run())
        self._probes[index] = _Probe(service, task)
        task.add_done_callback(lambda task: self._done(index, task))

    def _began(self, index: str, report: SessionReport) -> None:
        self._probes[index].connected = True
        self._listener.began(report)

    def _ended(self, index: str, end: SessionEnd) -> None:
        probe = self._probes[index]
        probe.connected = False
        if end.warning or not self._end.is_set():
            self._listener.ended(index, end)
        if self._options.once and not any(probe.connected for probe in self._probes.values()):
            self.stop(end.reason)

    def _done(self, index: str, task: asyncio.Task[None]) -> None:
        error = None if self._end.is_set() or task.cancelled() else task.exception()
        if error is None:
            return
        if isinstance(error, NriScopeError):
            self._failure = _usage_error(index, error)
        else:
            self._failure = UsageError(f"probe {index}: internal error: {error}")
            self._failure.__cause__ = error
        self._end.set()


def check_indices(indices: Iterable[str]) -> tuple[str, ...]:
    """Return the indices in order. Raises UsageError for too few, duplicate or invalid ones."""
    checked = [check_index(index) for index in indices]
    duplicates = sorted({index for index in checked if checked.count(index) > 1})
    if duplicates:
        raise UsageError(f"index {duplicates[0]} is listed twice", "list each index once")
    if len(checked) < MIN_PROBES:
        given = f"only one probe, at {checked[0]}" if checked else "no probe"
        raise UsageError(
            f"{given}: a difference needs at least two probes", "list two indices, such as 00,99"
        )
    return tuple(sorted(checked))


def _usage_error(index: str, error: NriScopeError) -> NriScopeError:
    match error:
        case ConnectError():
            return with_hint(error)
        case RpcError():
            refused = UsageError(
                f"the runtime refused the registration of the probe at index {index}: "
                f"{error.message}",
                "try another index or --name",
            )
            refused.__cause__ = error
            return refused
    return error


PRIVATE_MAX = 256 << 20
"""Maximum size in bytes of a temporary recording, without -o; its oldest parts are removed."""
UNREAD = "the output was closed"


def main(descriptor: int) -> int:
    """Run the process started by `diff_live`."""
    return serve(descriptor, _record)


def _record(viewer: Viewer, options: ProbeOptions) -> None:
    running = _Run(viewer, options)
    prepare_process()
    try:
        run(running.main())
    finally:
        if running.is_orphaned:
            # A live viewer may still be reading the file, and removes it.
            if running.needless:
                options.path.unlink(missing_ok=True)
            if options.private is not None:
                shutil.rmtree(options.private, ignore_errors=True)


class _Run(ProbeListener):
    def __init__(self, viewer: Viewer, options: ProbeOptions) -> None:
        self._options = options
        self._viewer = viewer
        self._say = viewer.say
        self._existed = os.path.lexists(options.path)
        self._stopped = ""
        self._probes: Probes | None = None
        self._sessions = 0
        self._printed: set[str] = set()
        self.is_orphaned = False
        """Whether the viewer has left or ended."""
        self.needless = False
        """Whether the file is new and empty."""

    async def main(self) -> None:
        """Record until stopped."""
        loop = asyncio.get_running_loop()

        def on_viewer_exit() -> None:
            self.is_orphaned = True
            with suppress(RuntimeError):
                # The loop may already be closed.
                loop.call_soon_threadsafe(self._stop, UNREAD)

        self._viewer.listen(on_viewer_exit)
        with stop_signals(lambda _, reason: self._stop(reason), loop=loop, ignore_afterwards=True):
            await self._record()

    async def _record(self) -> None:
        options = self._options
        first = Identity(min(options.probes), options.name)
        writer = WriterProcess(
            RecordingOptions(
                options.path,
                # The viewer reads the file, and removes it when it is no longer needed.
                existed=True,
                max_size=PRIVATE_MAX if options.private else None,
                redact=options.redact,
                cri=CriSource(options.cri, options.wait) if options.cri is not None else None,
                validator=(options.socket, first) if options.validate else None,
            ),
            self._say,
        )
        await writer.open()
        try:
            with Recording.open(options.path) as recording:
                self._viewer.tell(*encode(ReadPosition.end_of(recording)))
            await self._probe(writer)
        finally:
            await writer.close()
            self.needless = not (self._sessions or self._existed)
            if not self.needless:
                self._say(writer.summary(options.output, self._sessions))
            self._viewer.tell(*encode(Closed(self.needless)))
        if not self._sessions:
            self._say("no events: no runtime was available")
        if writer.failure:
            raise RecordingError(options.path, writer.failure)

    async def _probe(self, sink: Sink) -> None:
        options = self._options
        self._probes = Probes(sink, options, self)
        if options.duration is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(options.duration, self._stop, "the duration has elapsed")
        if self._stopped:
            self._probes.stop(self._stopped)
        await self._probes.run()

    def _stop(self, reason: str) -> None:
        self._stopped = self._stopped or reason
        if self._probes is not None:
            self._probes.stop(reason)

    # -- the probes -------------------------------------------------------------------------

    def began(self, report: SessionReport) -> None:
        """Report that a probe has connected."""
        self._sessions += 1
        start = report.start
        events = events_in(start.mask)
        self._say(f"probe {start.plugin_index}-{start.plugin_name} at {start.runtime}")
        limit = runtime_rules_of(start.runtime_name).blind_spot
        for warning in (*report.warnings, *filter(None, [limit])):
            self._say_once(f"warning: {warning}")
        validator = self._probes is not None and start.plugin_index == self._probes.validator
        if validator and EventKind.ValidateContainerAdjustment in events:
            self._say(f"warning: {VALIDATE_RISK}")

    def ended(self, index: str, end: SessionEnd) -> None:
        """Report that a probe lost its connection."""
        if end.warning:
            self._say(f"warning: --validate: {end.warning}")
        if not self._stopped:
            more = "" if self._options.once else "; it connects again"
            self._say(f"probe {index}: session ended: {end.reason}{more}")

    def waits(self, index: str, error: NriScopeError) -> None:
        """Report that a probe cannot connect at present."""
        self._say_once(f"waiting for a runtime: {error}")

    def _say_once(self, text: str) -> None:
        if text not in self._printed:
            self._printed.add(text)
            self._say(text)
