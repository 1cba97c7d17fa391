# SPDX-License-Identifier: Apache-2.0
"""``nri-scope diff --live``: run probes in another process, and print the changes they observe."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.differ.live.channel import ToRecorder, Unread, decode, encode
from nri_scope.differ.live.probe_mover import INITIAL_INDICES
from nri_scope.differ.live.viewer import Watcher
from nri_scope.differ.render import renderer
from nri_scope.logger.background_output import Background
from nri_scope.logger.probes import check_indices
from nri_scope.logger.recorder_process import FAILED, RecorderProcess
from nri_scope.process.signals import ignore_stop_signals, stop_signals
from nri_scope.share.source_redaction import check_continued

from .diff_recorder import ProbeOptions
from .diff_viewer import Showing
from .output import Output
from .params import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from .diff_files import Options

NICER = 10
"""Niceness added to this process, so that the recorder, which answers the runtime, is scheduled
first. The two share no lock, so a delay here cannot delay the recorder."""


class _Stopped(BaseException):
    """A stop signal arrived before the recording began."""


class _StoppedAgain(BaseException):
    """A second stop signal arrived."""


def live(probing: ProbeOptions, options: Options) -> int:
    """Print changes until a signal, the end of the duration or the loss of the reader.

    Returns the exit status: 0 nothing changed, 1 a change was shown, 2 stopped by a second signal.
    Raises NriScopeError.
    """
    check_indices(probing.probes or INITIAL_INDICES)
    if probing.output is not None:
        check_continued(probing.output, redacts=probing.redact is not None)
    output = Output()
    private = None if probing.output else Path(tempfile.mkdtemp(prefix="nri-scope-"))
    # In the background: a stopped terminal must not block this command.
    notices: Background[str] = Background(say, waiting_max=200)
    viewing = _Viewing(replace(probing, private=private), notices.put)
    try:
        with stop_signals(viewing.stop, on_repeat=_stop_again, ignore_afterwards=True):
            return viewing.run(options, output)
    except _Stopped:
        return 0
    except _StoppedAgain:
        status = FAILED
    finally:
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)
        notices.close()
    # The printing thread may be blocked by a stalled reader, and a normal exit would join it.
    os._exit(status)


def _stop_again() -> None:
    # The remaining work has a bounded duration.
    ignore_stop_signals()
    raise _StoppedAgain


class _Viewing:
    """One run, in the process that reads and prints the recording."""

    def __init__(self, probing: ProbeOptions, say: Callable[[str], None]) -> None:
        self._probing = probing
        self._say = say
        self._recorder: RecorderProcess | None = None
        """The recorder process; None before it is started."""

    def stop(self, number: int, _words: str) -> None:
        """Forward a stop signal to the recorder."""
        if self._recorder is None:
            raise _Stopped
        self._recorder.signal(number)

    def run(self, options: Options, output: Output) -> int:
        """Start the recorder and print its recording; return the exit status."""
        probing = self._probing
        recorder = RecorderProcess(
            "nri_scope.cli.diff_recorder",
            nicer=NICER,
            on_notice=self._say,
            on_message=lambda kind, payload: watcher.hear(decode(kind, payload)),
        )
        with suppress(OSError):
            # A batch process does not preempt a process that has just woken up.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        shown = renderer(
            options["output_format"],
            width=output.width,
            live=True,
            quiet_unchanged=not options["show_all"],
        )
        at = ", ".join(probing.probes) if probing.probes else "positions around the plugins"
        title = f"changes as they happen at {probing.socket}, with probes at {at}"
        showing = Showing(output, shown, title, options["where"])

        def send(message: ToRecorder) -> None:
            recorder.tell(*encode(message))

        watcher = Watcher(send, showing, self._say, own_name=probing.name)
        try:
            if probing.cri is not None:
                watcher.ask(probing.cri)
            self._recorder = recorder
            recorder.begin(probing)
            opened = watcher.watch(probing.path, lambda: recorder.ended)
            if showing.has_no_reader:
                send(Unread())
            recorder.stop()
            if opened:
                showing.finish()
        finally:
            recorder.stop(signal.SIGINT)
            if watcher.needless:
                probing.path.unlink(missing_ok=True)
        recorder.check()
        return int(showing.changed)
