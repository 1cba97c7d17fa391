# SPDX-License-Identifier: Apache-2.0
"""``nri-scope diff --live``: probes in this process, and one beside it for all the rest.

Nothing but answering and recording is done here: reading, thinking, asking the CRI and printing
would take the interpreter from a reply that is due.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Literal

import click

from nri_scope.differ.live.channel import (
    Answer,
    Asked,
    ChainSeen,
    Closed,
    CriBegan,
    CriEnded,
    Failed,
    FinishAsking,
    Open,
    Ready,
    Waits,
    WatcherEnd,
)
from nri_scope.differ.live.cri_sessions import CriSessions
from nri_scope.differ.live.place import Place
from nri_scope.differ.live.placer import Placer
from nri_scope.differ.live.places import FIRST_PLACES
from nri_scope.differ.live.process import FAILED, WatcherProcess
from nri_scope.errors import NriScopeError, UsageError
from nri_scope.logger.background import Background
from nri_scope.logger.probes import ProbeListener, Probes, check_indices
from nri_scope.nri.events import Event, events_in
from nri_scope.nri.versions import runtime_title
from nri_scope.process.signals import stop_signals
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.redaction.capture import NOTE, AtSource, check_continued
from nri_scope.recorder.writer import Recorder, RecorderCounters, WriterLimits
from nri_scope.transport.loop import run
from nri_scope.transport.tuning import prepare_process

if TYPE_CHECKING:
    from nri_scope.logger import SessionReport
    from nri_scope.plugin import SessionEnd
    from nri_scope.recorder.filter import Filter
    from nri_scope.recorder.redaction.rules import Rules

PRIVATE_MAX = 256 << 20
"""Bytes of a recording that nobody asked to keep; its oldest parts go."""
ASKING_SECONDS = 10.0
"""How long to wait in the end for what the CRI is still asked."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What to watch, and how to show it."""

    socket: Path
    name: str
    probes: tuple[str, ...] | None
    """None: around the plugins that are there."""
    validate: bool
    cri: Path | None
    where: Filter | None
    """Which events to show; all are recorded."""
    output: Path | None
    """None: a private file, removed in the end."""
    output_format: Literal["text", "json", "markdown"]
    quiet_unchanged: bool
    duration: float | None
    """Seconds."""
    once: bool
    wait: bool
    redact: Rules | None = None
    """What to replace before it is recorded, and so before it is shown."""


def live(options: LiveOptions) -> int:
    """Watch until a signal, the duration, or the end of all who read; the exit status.

    0: nothing changed, 1: something did, 2: it could not be shown. Raises NriScopeError.
    """
    check_indices(options.probes or FIRST_PLACES)
    if options.output is not None:
        check_continued(options.output, redacts=options.redact is not None)
    private = None if options.output else Path(tempfile.mkdtemp(prefix="nri-scope-"))
    watcher: WatcherProcess | None = None
    notices: Background[str] | None = None
    try:
        path = options.output or (private or Path()) / "live.nriscope.db"
        redaction = None if options.redact is None else AtSource.to(path, options.redact)
        watcher = WatcherProcess.fork(lambda end: _watch(end, options, private))
        # In the background: a terminal that was stopped must not keep the runtime waiting.
        notices = Background(_say, waiting_max=200)
        running = _Run(options, path, watcher, notices, redaction)
        prepare_process()
        return run(running.main())
    finally:
        if watcher is not None:
            watcher.close()
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)
        if notices is not None:
            notices.close()


def _say(text: str) -> None:
    from nri_scope.recorder.escape import safe

    click.echo(safe(text), err=True)


def _watch(end: WatcherEnd, options: LiveOptions, private: Path | None) -> int:
    """The work of the other process."""
    from nri_scope.cli.diff_showing import Showing
    from nri_scope.cli.output import Output
    from nri_scope.differ.live.watching import Watcher
    from nri_scope.differ.render import renderer

    def clean_up() -> None:
        # Only when the process that made it could not.
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)

    def give_up() -> None:
        clean_up()
        os._exit(FAILED)

    try:
        output = Output()
    except UsageError as error:
        end.send(Failed(error))
        return FAILED
    showing = Showing(
        output,
        renderer(
            options.output_format,
            width=output.width,
            colour=output.colour,
            live=True,
            quiet_unchanged=options.quiet_unchanged,
        ),
        _title(options),
        options.where,
    )
    watcher = Watcher(end, showing, own_name=options.name, cri=options.cri, abandoned=give_up)
    well = watcher.run()
    if well and watcher.opened:
        try:
            showing.finish()
        except NriScopeError as error:
            end.send(Failed(error))
            well = False
    if watcher.left_alone:
        clean_up()
    return int(showing.changed) if well else FAILED


def _title(options: LiveOptions) -> str:
    at = ", ".join(options.probes) if options.probes else "places around the plugins"
    return f"changes as they happen at {options.socket}, seen by probes at {at}"


class _Run(ProbeListener):
    def __init__(
        self,
        options: LiveOptions,
        path: Path,
        watcher: WatcherProcess,
        notices: Background[str],
        redaction: AtSource | None,
    ) -> None:
        self._options = options
        self._redaction = redaction
        self._path = path
        self._existed = os.path.lexists(path)
        self._watcher = watcher
        self._say = notices.put
        self._started = monotonic()
        self._stopped = ""
        self._impatient = False
        self._probes: Probes | None = None
        self._placer: Placer | None = None
        self._recorder: Recorder | None = None
        self._cri = CriSessions(self._say)
        self._ready = asyncio.Event()
        self._asked: Asked | None = None
        self._asked_all = asyncio.Event()
        self._failure: NriScopeError | None = None
        self._sessions = 0
        self._told: set[str] = set()

    async def main(self) -> int:
        """Everything between the two processes; the exit status."""
        loop = asyncio.get_running_loop()
        hearing = asyncio.create_task(self._hear())
        with stop_signals(lambda _, words: self._stop(words), loop=loop, ignored_afterwards=True):
            try:
                await self._ready.wait()
                if self._failure is not None:
                    raise self._failure
                if self._stopped:
                    # Before there was anything to show.
                    self._watcher.kill()
                    status = await self._watcher.ended()
                    return 0 if self._watcher.was_killed else status
                await self._record()
            finally:
                hearing.cancel()
        if self._failure is not None:
            raise self._failure
        status = await self._watcher.ended()
        if self._watcher.was_killed and not self._impatient:
            self._say("the process that shows the changes was killed")
        return status

    async def _record(self) -> None:
        options = self._options
        limits = WriterLimits() if options.output else WriterLimits(max_size=PRIVATE_MAX)
        recorder = Recorder.open(
            self._path, limits=limits, on_problem=self._say, redaction=self._redaction
        )
        if self._redaction is not None:
            recorder.note(None, time_ns(), NOTE)
        self._recorder = recorder
        try:
            with Recording.open(self._path) as recording:
                after = Place.end_of(recording)
            await self._watcher.send(Open(self._path, after))
            self._cri.record_to(recorder)
            await self._probe(recorder)
            await self._watcher.send(FinishAsking())
            await self._finish_asking()
        except BaseException:
            # There is nothing to show, and soon no file to look at.
            self._impatient = True
            self._watcher.kill()
            raise
        finally:
            self._cri.end("the run is over")
            counters = await asyncio.to_thread(recorder.close)
            if self._sessions or self._existed:
                self._say(self._summary(counters))
            else:
                # Never connected: leave no empty recording behind.
                self._path.unlink(missing_ok=True)
        await self._watcher.send(Closed())
        if not self._sessions and not self._failure:
            self._say("nothing was seen: no runtime was there")
        await self._watcher.ended()

    async def _probe(self, recorder: Recorder) -> None:
        options = self._options
        self._probes = Probes(
            recorder,
            options.socket,
            options.name,
            options.probes or FIRST_PLACES,
            validate=options.validate,
            wait=options.wait,
            once=options.once,
            listener=self,
        )
        if options.probes is None:
            if options.validate:
                self._placer = Placer(self._probes, self._say)
            else:
                self._stay("without --validate nobody tells which plugins are there")
        loop = asyncio.get_running_loop()
        if options.duration is not None:
            loop.call_later(options.duration, self._stop, "the duration is over")
        await self._probes.run()

    async def _finish_asking(self) -> None:
        try:
            await asyncio.wait_for(self._asked_all.wait(), ASKING_SECONDS)
        except TimeoutError:
            pass

    def _stop(self, reason: str) -> None:
        if self._stopped:
            # Somebody does not want to wait for what is still to be shown.
            self._impatient = True
            self._watcher.kill()
        self._stopped = self._stopped or reason
        if self._probes is not None:
            self._probes.stop(reason)
        self._ready.set()

    # -- the watcher ------------------------------------------------------------------------

    async def _hear(self) -> None:
        while (message := await self._watcher.receive()) is not None:
            match message:
                case Ready():
                    self._ready.set()
                case Failed(error):
                    self._failure = error
                case CriBegan():
                    self._cri.began(message)
                case CriEnded():
                    self._cri.ended(message)
                case Answer():
                    self._cri.answered(message)
                case ChainSeen(indices):
                    if self._placer is not None:
                        self._placer.chain(indices)
                case Waits(words):
                    self._say(words)
                case Asked():
                    self._asked = message
                    self._asked_all.set()
        # It ended: nobody reads any more, or it could not go on.
        self._asked_all.set()
        self._ready.set()
        if self._probes is not None:
            self._probes.stop("nobody reads the output any more")
        else:
            self._stopped = self._stopped or "nobody reads the output any more"

    # -- the probes -------------------------------------------------------------------------

    def began(self, report: SessionReport) -> None:
        """A probe is connected."""
        self._sessions += 1
        start = report.start
        version = start.nri_version or "unknown"
        if start.nri_version_inferred:
            version += ", inferred"
        events = events_in(start.mask)
        self._say(
            f"probe {start.plugin_index}-{start.plugin_name} at "
            f"{runtime_title(start.runtime_name)} {start.runtime_version} (NRI {version})"
        )
        for warning in report.warnings:
            if warning not in self._told:
                self._told.add(warning)
                self._say(f"warning: {warning}")
        validator = self._probes is not None and start.plugin_index == self._probes.validator
        if validator and Event.ValidateContainerAdjustment in events:
            self._say("warning: --validate: if this process dies or stalls, containers may fail")
        elif validator and self._options.probes is None:
            self._stay(f"NRI {version} does not tell which plugins are there")

    def ended(self, index: str, end: SessionEnd) -> None:
        """A probe lost its connection."""
        if not self._stopped:
            more = "" if self._options.once else "; it connects again"
            self._say(f"probe {index}: session ended: {end.reason}{more}")

    def waits(self, index: str, error: NriScopeError) -> None:
        """A probe cannot connect for now."""
        text = f"waiting for a runtime: {error}"
        if text not in self._told:
            self._told.add(text)
            self._say(text)

    def failed(self, index: str, error: NriScopeError) -> None:
        """A probe that was placed later was refused."""
        self._say(f"no probe at {index}: {error}")

    def _stay(self, why: str) -> None:
        text = f"{why}: the probes stay at {', '.join(FIRST_PLACES)}"
        if text not in self._told:
            self._told.add(text)
            self._say(text)

    def _summary(self, counters: RecorderCounters) -> str:
        lost = f", {counters.lost:,} lost" if counters.lost else ""
        asked = ""
        if self._asked is not None and self._options.cri is not None:
            asked = f"; the CRI answered {self._asked.answered:,} times"
            if self._asked.unanswered:
                asked += f" and did not for {self._asked.unanswered:,} containers"
        kept = f": {self._options.output}" if self._options.output else ""
        events = max(0, counters.recorded - self._cri.answers)
        return (
            f"{events:,} events in {self._sessions:,} sessions of probes over "
            f"{monotonic() - self._started:.0f} s, {counters.gaps:,} gaps{lost}{asked}{kept}"
        )
