# SPDX-License-Identifier: Apache-2.0
"""``nri-scope diff --live``: run probes in another process, and print the changes they observe."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.live import Seen, Watcher, decode
from nri_scope.differ.render import Renderer, renderer
from nri_scope.logger.probe_recorder import ProbeOptions
from nri_scope.logger.recorder_process import FAILED, RecorderProcess
from nri_scope.process.signals import ignore_stop_signals, stop_signals
from nri_scope.share.source_redaction import check_continued
from nri_scope.writer.background_output import Background

from .output import Output
from .params import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri_scope.filter import Filter

    from .diff_files import DiffOptions


AHEAD_MAX = 1_000
"""Maximum number of rounds queued for a slow terminal or pipe; more stay in the recording only
until the queue has room."""


class Showing:
    """Renders rounds, and prints them in a thread, so that a paused terminal blocks only it."""

    def __init__(
        self, output: Output, renderer: Renderer, title: str, where: Filter | None
    ) -> None:
        self._output = output
        self._renderer = renderer
        self._title = title
        self._where = where
        self._selected: set[int] = set()
        """Ids of events that the filter matches, until their round is complete."""
        self._lines: queue.Queue[list[str] | None] = queue.Queue(AHEAD_MAX)
        self._has_events = False
        self._has_title = False
        self.has_no_reader = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._print, name="output", daemon=True)
        self._thread.start()

    @property
    def changed(self) -> bool:
        """Whether any printed round had a change."""
        return self._renderer.changed

    def show(self, differ: Differ, seen: Seen) -> None:
        """Queue the completed rounds for printing; block only while the queue is full."""
        self._has_events = True
        if self._where is not None and seen.event is not None and self._where.matches(seen.event):
            self._selected.add(seen.event.id)
        for diff in seen.rounds:
            if self._is_selected(diff):
                self._put(self._renderer.round(diff, differ.name_of))

    def finish(self) -> None:
        """Print the end, and wait for the printing thread. Raise its error, if any.

        Without events, nothing is printed.
        """
        if self._has_events:
            self._put(self._renderer.end())
        self._hand_over(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _is_selected(self, diff: RoundDiff) -> bool:
        if self._where is None:
            return True
        found = not self._selected.isdisjoint(diff.events)
        self._selected -= {event for event in self._selected if event <= max(diff.events)}
        return found

    def _put(self, lines: Iterable[str]) -> None:
        output = list(lines)
        if not self._has_title:
            self._has_title = True
            output = [*self._renderer.head(self._title), *output]
        if output:
            self._hand_over(output)

    def _hand_over(self, lines: list[str] | None) -> None:
        while not self.has_no_reader:
            try:
                self._lines.put(lines, timeout=0.1)
                return
            except queue.Full:
                continue

    def _print(self) -> None:
        try:
            with self._output:
                while (lines := self._next()) is not None:
                    for line in lines:
                        self._output.line(line)
                    if self._lines.empty():
                        self._output.flush()
                return
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for this one
            self._error = error
        finally:
            self.has_no_reader = True

    def _next(self) -> list[str] | None:
        """Return the next lines to print; None at the end, or once the output has no reader."""
        while True:
            try:
                return self._lines.get(timeout=0.1)
            except queue.Empty:
                if self._output.wait(0):
                    return None


NICER = 10
"""Niceness added to this process, so that the recorder, which answers the runtime, is scheduled
first. The two share no lock, so a delay here cannot delay the recorder."""


class _Stopped(BaseException):
    """A stop signal arrived before the recording began."""


class _StoppedAgain(BaseException):
    """A second stop signal arrived."""


def live(probing: ProbeOptions, options: DiffOptions) -> int:
    """Print changes until a signal, the end of the duration or the loss of the reader.

    Returns the exit status: 0 nothing changed, 1 a change was shown, 2 stopped by a second signal.
    Raises NriScopeError.
    """
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

    def run(self, options: DiffOptions, output: Output) -> int:
        """Start the recorder and print its recording; return the exit status."""
        probing = self._probing
        recorder = RecorderProcess(
            "nri_scope.logger.probe_recorder",
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
        at = ", ".join(probing.probes)
        title = f"changes as they happen at {probing.socket}, with probes at {at}"
        showing = Showing(output, shown, title, options["where"])

        watcher = Watcher(showing, self._say)
        try:
            self._recorder = recorder
            recorder.begin(probing)
            opened = watcher.watch(probing.path, lambda: recorder.ended)
            if showing.has_no_reader:
                recorder.leave()
            recorder.stop()
            if opened:
                showing.finish()
        finally:
            recorder.stop(signal.SIGINT)
            if watcher.needless:
                probing.path.unlink(missing_ok=True)
        recorder.check()
        return int(showing.changed)
