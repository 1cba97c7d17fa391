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
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from nri_scope.errors import NriScopeError
from nri_scope.process.channel import LoopChannel, ThreadChannel
from nri_scope.process.child import spawn
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.recording.temporary_files import temporary_folder
from nri_scope.report.finding import Finding, FindingKind, Level

_RUN, _PROGRESS, _RESULT, _FAILURE = range(4)
_NICER = 10
"""Added to the niceness of the process: viewers and the node have priority."""
_STOP_S = 0.0
"""Seconds to wait for the process before SIGTERM, after which it removes its files."""


class SurveyState(NamedTuple):
    """State of the newest pass."""

    share: float = 0.0
    """Share of the events that were read, 0 to 1."""
    file: Path | None = None
    """The attribution file of the newest pass; None before the first results."""
    until: int = 0
    """Id of the event up to which ``file`` is complete."""
    is_over: bool = False
    """Whether the pass has ended."""
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
        self._files: set[Path] = set()
        self._child = spawn(
            __name__,
            str(path),
            failure="the recording cannot be analysed in the background",
            on_parents_death=signal.SIGTERM,
        )
        self.pid = self._child.pid
        """Process id."""
        self._channel = LoopChannel(self._child.socket, self._receive, self._ended)

    def run(self) -> None:
        """Start a pass. The file of the pass before stays valid until this one has ended."""
        self._state = SurveyState()
        self._channel.send(_RUN)

    def close(self) -> None:
        """End the process, and remove its files. Blocks for some milliseconds."""
        self._channel.close()
        self._child.stop(_STOP_S)
        for folder in {file.parent for file in self._files}:
            # The process removes it, too, unless it was killed.
            shutil.rmtree(folder, ignore_errors=True)

    def _receive(self, kind: int, payload: bytes) -> None:
        values = json.loads(payload)
        if kind == _FAILURE:
            self._show(self._state._replace(is_over=True, problem=values))
            return
        file = Path(values["file"])
        self._files.add(file)
        state = self._state._replace(
            file=file, until=values["until"], share=values.get("share", 1.0)
        )
        if kind == _RESULT:
            found = tuple(map(_finding, values["findings"]))
            state = state._replace(is_over=True, findings=found, problem=values["cut"])
        self._show(state)

    def _ended(self) -> None:
        self._channel.close()
        if not self._state.is_over:
            ended = f"the process has ended, {self._child.stop(_STOP_S).description}"
            self._show(self._state._replace(is_over=True, problem=ended))

    def _show(self, state: SurveyState) -> None:
        self._state = state
        self._on_state(state)


def _finding(values: dict[str, object]) -> Finding:
    found = Finding(**values)  # type: ignore[arg-type]
    return replace(
        found,
        kind=FindingKind(found.kind),
        level=Level(found.level),
        events=tuple(found.events),
        containers=tuple(found.containers),
    )


# -- in the process -------------------------------------------------------------------------


def main(descriptor: int, path: str) -> int:
    """Survey a recording for each request of the viewer, until it ends."""
    from .survey import survey

    os.nice(_NICER)
    channel = ThreadChannel(socket.socket(fileno=descriptor))
    former: Path | None = None
    try:
        with interrupted_by_signals(), temporary_folder() as folder:
            while channel.receive() is not None:
                descriptor, name = tempfile.mkstemp(".db", dir=folder)
                os.close(descriptor)
                file = Path(name)

                def report(share: float, until: int, file: Path = file) -> None:
                    _send(channel, _PROGRESS, file=str(file), share=share, until=until)

                try:
                    found = survey(Path(path), file, report)
                except NriScopeError as error:
                    _send_text(channel, str(error))
                    continue
                records = [asdict(one) for one in found.findings]
                _send(
                    channel,
                    _RESULT,
                    file=str(file),
                    until=found.until,
                    cut=found.cut,
                    findings=records,
                )
                for ending in ("", "-wal", "-shm") if former is not None else ():
                    Path(f"{former}{ending}").unlink(missing_ok=True)
                former = file
    except (KeyboardInterrupt, NriScopeError) as error:
        if isinstance(error, NriScopeError):
            _send_text(channel, str(error))
    return 0


def _send(channel: ThreadChannel, kind: int, **values: object) -> None:
    channel.send(kind, json.dumps(values).encode())


def _send_text(channel: ThreadChannel, text: str) -> None:
    channel.send(_FAILURE, json.dumps(text).encode())
