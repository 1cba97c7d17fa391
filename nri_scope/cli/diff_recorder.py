# SPDX-License-Identifier: Apache-2.0
"""The recorder process of ``diff --live``: replies to the runtime, and forwards events to a writer.

Decoding, writing, reading, comparing, CRI queries and printing are done in other processes, as they
would delay replies.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from nri_scope.differ.live import ChainSeen, Closed, ReadPosition, Unread, decode, encode
from nri_scope.errors import NriScopeError, RecordingError
from nri_scope.logger.probes import INITIAL_INDICES, Placer, ProbeListener, Probes
from nri_scope.logger.recorder_process import Viewer, serve
from nri_scope.nri.events import Event, events_in
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.plugin import Identity
from nri_scope.process.signals import stop_signals
from nri_scope.recording.reader import Recording
from nri_scope.transport.loop import prepare_process, run
from nri_scope.writer.messages import CriSource, RecordingOptions
from nri_scope.writer.supervisor import WriterProcess

if TYPE_CHECKING:
    from nri_scope.logger.logger import SessionReport
    from nri_scope.plugin import SessionEnd
    from nri_scope.recorder.inbox import RecorderCounters, Sink
    from nri_scope.share.redaction.rules import Rules

PRIVATE_MAX = 256 << 20
"""Maximum size in bytes of a temporary recording, without -o; its oldest parts are removed."""
UNREAD = "the output was closed"


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Options of a recording by probes."""

    output: Path | None
    """Path of the recording; None for a private file, removed at the end."""
    socket: Path
    name: str
    probes: tuple[str, ...] | None
    """Indices of the probes; None for places around the plugins of the chain."""
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
        self._started = monotonic()
        self._stopped = ""
        self._probes: Probes | None = None
        self._placer: Placer | None = None
        self._sessions = 0
        self._printed: set[str] = set()
        self.is_orphaned = False
        """Whether the viewer has ended."""
        self.needless = False
        """Whether the file is new and empty."""

    async def main(self) -> None:
        """Record until stopped."""
        loop = asyncio.get_running_loop()

        def receive(kind: int, payload: bytes) -> None:
            loop.call_soon_threadsafe(self._handle, kind, payload)

        def on_viewer_exit() -> None:
            self.is_orphaned = True
            with suppress(RuntimeError):
                # The loop may already be closed.
                loop.call_soon_threadsafe(self._handle, *encode(Unread()))

        self._viewer.listen(receive, on_viewer_exit)
        with stop_signals(lambda _, words: self._stop(words), loop=loop, ignore_afterwards=True):
            await self._record()

    async def _record(self) -> None:
        options = self._options
        first = Identity(min(options.probes or INITIAL_INDICES), options.name)
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
            counters = await writer.close()
            self.needless = not (self._sessions or self._existed)
            if not self.needless:
                self._say(self._summary(counters))
            self._viewer.tell(*encode(Closed(self.needless)))
        if not self._sessions:
            self._say("no events: no runtime was available")
        if writer.failure:
            raise RecordingError(options.path, writer.failure)

    async def _probe(self, sink: Sink) -> None:
        options = self._options
        self._probes = Probes(
            sink,
            options.socket,
            options.name,
            options.probes or INITIAL_INDICES,
            validate=options.validate,
            wait=options.wait,
            once=options.once,
            listener=self,
        )
        if options.probes is None:
            if options.validate:
                self._placer = Placer(self._probes, self._say)
            else:
                self._stay("without --validate, the plugins of the chain are unknown")
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

    # -- the viewer -------------------------------------------------------------------------

    def _handle(self, kind: int, payload: bytes) -> None:
        match decode(kind, payload):
            case ChainSeen(indices):
                if self._placer is not None:
                    self._placer.chain(tuple(indices))
            case Unread():
                self._stop(UNREAD)
            case _:
                pass

    # -- the probes -------------------------------------------------------------------------

    def began(self, report: SessionReport) -> None:
        """Report that a probe has connected."""
        self._sessions += 1
        start = report.start
        events = events_in(start.mask)
        self._say(f"probe {start.plugin_index}-{start.plugin_name} at {report.runtime}")
        limit = runtime_rules_of(start.runtime_name).blind_spot
        for warning in (*report.warnings, *filter(None, [limit])):
            if warning not in self._printed:
                self._printed.add(warning)
                self._say(f"warning: {warning}")
        validator = self._probes is not None and start.plugin_index == self._probes.validator
        if validator and Event.ValidateContainerAdjustment in events:
            self._say(
                "warning: --validate: if this process is killed or stalls, containers may not be "
                "created"
            )
        elif validator and self._options.probes is None:
            self._stay(f"NRI {report.nri_version} does not report the plugins of the chain")

    def ended(self, index: str, end: SessionEnd) -> None:
        """Report that a probe lost its connection."""
        if end.warning:
            self._say(f"warning: --validate: {end.warning}")
        if not self._stopped:
            more = "" if self._options.once else "; it connects again"
            self._say(f"probe {index}: session ended: {end.reason}{more}")

    def waits(self, index: str, error: NriScopeError) -> None:
        """Report that a probe cannot connect at present."""
        text = f"waiting for a runtime: {error}"
        if text not in self._printed:
            self._printed.add(text)
            self._say(text)

    def failed(self, index: str, error: NriScopeError) -> None:
        """Report that a probe was added later and refused."""
        self._say(f"no probe at {index}: {error}")

    def _stay(self, why: str) -> None:
        text = f"{why}: the probes stay at {', '.join(INITIAL_INDICES)}"
        if text not in self._printed:
            self._printed.add(text)
            self._say(text)

    def _summary(self, counters: RecorderCounters) -> str:
        lost = f", {counters.lost:,} lost" if counters.lost else ""
        kept = f": {self._options.output}" if self._options.output else ""
        return (
            f"{counters.recorded:,} events in {self._sessions:,} sessions of probes over "
            f"{monotonic() - self._started:.0f} s, {counters.gaps:,} gaps{lost}{kept}"
        )
