# SPDX-License-Identifier: Apache-2.0
"""``nri-scope diff --live``: probes in a process beside this one, which shows what they see."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nri_scope.cli.diff_recorder import ProbeOptions
from nri_scope.cli.diff_showing import Showing
from nri_scope.cli.output import Output
from nri_scope.differ.live.channel import ToRecorder, Unread, decode, encode
from nri_scope.differ.live.places import FIRST_PLACES
from nri_scope.differ.live.watching import Watcher
from nri_scope.differ.render import renderer
from nri_scope.logger.background import Background
from nri_scope.logger.probes import check_indices
from nri_scope.logger.recorder_process import FAILED, RecorderProcess
from nri_scope.process.signals import ignore_stop_signals, stop_signals
from nri_scope.recorder.redaction.capture import check_continued

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri_scope.recorder.filter import Filter
    from nri_scope.recorder.redaction.rules import Rules

NICER = 10
"""Steps of niceness between the process that answers the runtime and this one. They share no lock
for which the other could wait, so this one may be late."""


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


class _Stopped(BaseException):
    """A stop signal came before there was anything to bring to an end."""


class _Impatient(BaseException):
    """A second stop signal came."""


def live(options: LiveOptions) -> int:
    """Watch until a signal, the duration, or the end of all who read; the exit status.

    0: nothing changed, 1: something did, 2: it could not be shown. Raises NriScopeError.
    """
    check_indices(options.probes or FIRST_PLACES)
    if options.output is not None:
        check_continued(options.output, redacts=options.redact is not None)
    output = Output()
    private = None if options.output else Path(tempfile.mkdtemp(prefix="nri-scope-"))
    # In the background: a terminal that was stopped must not stop what it belongs to.
    notices: Background[str] = Background(_say, waiting_max=200)
    try:
        return _Viewing(options, output, private, notices.put).run()
    except _Impatient:
        status = FAILED
    finally:
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)
        notices.close()
    # The thread that prints may be waiting for who does not read, and Python would wait for it.
    os._exit(status)


def _say(text: str) -> None:
    from nri_scope.recorder.escape import safe

    click.echo(safe(text), err=True)


def _title(options: LiveOptions) -> str:
    at = ", ".join(options.probes) if options.probes else "places around the plugins"
    return f"changes as they happen at {options.socket}, seen by probes at {at}"


class _Viewing:
    """One run, as the process sees it that shows what is recorded."""

    def __init__(
        self,
        options: LiveOptions,
        output: Output,
        private: Path | None,
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._output = output
        self._private = private
        self._say = say
        self._begun = False

    def run(self) -> int:
        """Have it recorded, and show it; returns the exit status."""
        self._recorder = recorder = RecorderProcess(
            "nri_scope.cli.diff_recorder",
            nicer=NICER,
            on_notice=self._say,
            on_message=self._hear,
        )
        with suppress(OSError):
            # It does not take the processor away from who has just been woken.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        options, output = self._options, self._output
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
        self._watcher = watcher = Watcher(self._tell, showing, self._say, own_name=options.name)
        with stop_signals(self._stop, again=self._hurry, ignored_afterwards=True):
            try:
                if options.cri is not None:
                    watcher.ask(options.cri)
                path = options.output or (self._private or Path()) / "live.nriscope.db"
                recorder.begin(self._recorded(path))
                self._begun = True
                opened = watcher.watch(path, lambda: recorder.ended)
                if showing.nobody_reads:
                    self._tell(Unread())
                recorder.stop()
                if opened:
                    showing.finish()
            except _Stopped:
                return 0
            finally:
                recorder.stop(signal.SIGINT)
        recorder.check()
        return int(showing.changed)

    def _recorded(self, path: Path) -> ProbeOptions:
        options = self._options
        return ProbeOptions(
            path=path,
            private=self._private,
            socket=options.socket,
            name=options.name,
            probes=options.probes,
            validate=options.validate,
            asks_cri=options.cri is not None,
            duration=options.duration,
            once=options.once,
            wait=options.wait,
            redact=options.redact,
        )

    def _tell(self, message: ToRecorder) -> None:
        self._recorder.tell(*encode(message))

    def _hear(self, kind: int, payload: bytes) -> None:
        self._watcher.hear(decode(kind, payload))

    def _stop(self, number: int, _words: str) -> None:
        if not self._begun:
            raise _Stopped
        self._recorder.signal(number)

    def _hurry(self) -> None:
        # What is left to do then is bounded.
        ignore_stop_signals()
        raise _Impatient
