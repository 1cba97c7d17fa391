# SPDX-License-Identifier: Apache-2.0
"""Survey a recording in a process of its own, so that a viewer's screen never waits for it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nri_scope.errors import NriScopeError
from nri_scope.process.channel import LoopChannel, ThreadChannel
from nri_scope.process.child import spawn
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.recording.file.heartbeat import read_heartbeat
from nri_scope.recording.file.temporary_files import temporary_folder
from nri_scope.report.finding import Finding, FindingKind, Level

if TYPE_CHECKING:
    # Imported late, as the viewer does not need the differ.
    from .survey import Survey, SurveyRun

_RUN, _PROGRESS, _RESULT, _FAILURE = range(4)
_NICER = 10
"""Added to the niceness of the process: viewers and the node have priority."""
_STOP_S = 0.0
"""Seconds to wait for the process before SIGTERM, after which it removes its files."""


class SurveyState(NamedTuple):
    """State of the newest `SurveyProcess.run`."""

    share: float = 0.0
    """Share of the events that were read, 0 to 1."""
    file: Path | None = None
    """The attribution file; None before the first results."""
    until: int = 0
    """Id of the event up to which ``file`` is complete."""
    is_over: bool = False
    """Whether the pass is over."""
    has_more: bool = False
    """Whether the pass is over because its time was, before all events were read."""
    findings: tuple[Finding, ...] = ()
    """The findings; empty until ``is_over``."""
    problem: str = ""
    """Why some or all events were not read; "" if they were."""


class SurveyProcess:
    """Handle of the process, for an event loop."""

    def __init__(self, path: Path, on_state: Callable[[SurveyState], None]) -> None:
        """Start the process, which waits for `run`. Raises UsageError.

        ``on_state`` is called in the running loop with each new state.
        """
        self._on_state = on_state
        self._state = SurveyState()
        self._exit = ""
        """How the process ended by itself; "" while it runs."""
        with ExitStack() as cleanup:
            # A process that is killed cannot remove its files.
            folder = cleanup.enter_context(temporary_folder())
            self._child = spawn(
                __name__,
                str(path),
                str(folder),
                failure="the recording cannot be analysed in the background",
                on_parents_death=signal.SIGTERM,
            )
            self._cleanup = cleanup.pop_all()
        self.pid = self._child.pid
        """Process id."""
        self._channel = LoopChannel(self._child.socket, self._receive, self._ended)

    def run(self, *, may_restart: bool = True, most_s: float | None = None) -> None:
        """Read the events since the last call; see `SurveyRun.go_on` for ``most_s``.

        If earlier results are no longer valid, all events are read again into another file; the
        former one stays valid until the end. Without ``may_restart``, the former results are kept.
        """
        self._state = SurveyState()
        _send(self._channel, _RUN, may_restart=may_restart, most_s=most_s)
        if self._exit and not self._state.is_over:
            self._show_exit()

    def close(self) -> None:
        """End the process, and remove its files. Blocks for some milliseconds."""
        self._channel.close()
        self._child.stop(_STOP_S)
        self._cleanup.close()

    def _receive(self, kind: int, payload: bytes) -> None:
        values = json.loads(payload)
        if kind == _FAILURE:
            self._show(self._state._replace(is_over=True, problem=values))
            return
        state = self._state._replace(
            file=Path(values["file"]), until=values["until"], share=values.get("share", 1.0)
        )
        if kind == _RESULT:
            findings = tuple(map(_finding, values["findings"]))
            state = state._replace(
                is_over=True, has_more=values["has_more"], findings=findings, problem=values["cut"]
            )
        self._show(state)

    def _ended(self) -> None:
        self._channel.close()
        self._exit = self._child.stop(_STOP_S).description
        if not self._state.is_over:
            self._show_exit()

    def _show_exit(self) -> None:
        ended = f"the process has ended, {self._exit}"
        self._show(self._state._replace(is_over=True, problem=ended))

    def _show(self, state: SurveyState) -> None:
        self._state = state
        self._on_state(state)


def _finding(values: dict[str, object]) -> Finding:
    finding = Finding(**values)  # type: ignore[arg-type]
    return replace(
        finding,
        kind=FindingKind(finding.kind),
        level=Level(finding.level),
        events=tuple(finding.events),
        containers=tuple(finding.containers),
        known=tuple(finding.known),
    )


# -- in the process -------------------------------------------------------------------------


def main(descriptor: int, path: str, folder: str) -> int:
    """Survey a recording for each request of the viewer, until it ends.

    ``folder``: for temporary files; removed at the end, in case the viewer was killed.
    """
    os.nice(_NICER)
    channel = ThreadChannel(socket.socket(fileno=descriptor))
    try:
        with interrupted_by_signals(), ExitStack() as cleanup:
            cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
            surveys = _Surveys(Path(path), Path(folder), channel)
            while (request := channel.receive()) is not None:
                try:
                    surveys.go_on(**json.loads(request[1]))
                except NriScopeError as error:
                    _send_text(channel, str(error))
    except (KeyboardInterrupt, NriScopeError) as error:
        if isinstance(error, NriScopeError):
            _send_text(channel, str(error))
    return 0


class _Surveys:
    """The current run of the survey, replaced when its results are no longer valid."""

    def __init__(self, path: Path, folder: Path, channel: ThreadChannel) -> None:
        self._path = path
        self._folder = folder
        self._channel = channel
        self._run: SurveyRun | None = None
        self._newest: Survey | None = None
        self._file: Path | None = None

    def go_on(self, *, may_restart: bool, most_s: float | None) -> None:
        """Read the new events, and send the result. Raises NriScopeError."""
        former = self._file
        try:
            result = None if self._run is None else self._run.go_on(self._report, most_s=most_s)
            if result is None and not may_restart and self._newest is not None:
                result = self._newest._replace(has_more=False)
            while result is None:
                result = self._begin().go_on(self._report)
        except NriScopeError:
            self._end()
            raise
        self._newest = result
        _send(
            self._channel,
            _RESULT,
            file=str(self._file),
            until=result.until,
            cut=result.cut,
            has_more=result.has_more,
            findings=[asdict(finding) for finding in result.findings],
        )
        if former not in (None, self._file):
            for ending in ("", "-wal", "-shm"):
                Path(f"{former}{ending}").unlink(missing_ok=True)

    def _begin(self) -> SurveyRun:
        # First, as the former run may use much memory.
        self._end()
        descriptor, name = tempfile.mkstemp(".db", dir=self._folder)
        os.close(descriptor)
        self._file = Path(name)
        from .survey import SurveyRun

        self._run = SurveyRun(self._path, self._file, self._is_recorded)
        return self._run

    def _end(self) -> None:
        if self._run is not None:
            self._run.close()
        self._run = self._newest = None

    def _is_recorded(self) -> bool:
        return read_heartbeat(self._path) is not None

    def _report(self, share: float, until: int) -> None:
        _send(self._channel, _PROGRESS, file=str(self._file), share=share, until=until)


def _send(channel: LoopChannel | ThreadChannel, kind: int, **values: object) -> None:
    channel.send(kind, json.dumps(values).encode())


def _send_text(channel: ThreadChannel, text: str) -> None:
    channel.send(_FAILURE, json.dumps(text).encode())
