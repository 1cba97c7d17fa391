# SPDX-License-Identifier: Apache-2.0
"""Replay the marked or shown events to a plugin, in the same terminal."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from nri_scope.recording.display import many
from nri_scope.recording.reader import Recording
from nri_scope.text.escape import safe

from .command import Command
from .copy import pasteable
from .job import Jobs, Progress
from .mark import Chooser, Marker
from .save import ShownEvents, shown_events

if TYPE_CHECKING:
    from nri_scope.share.extract import Selection

_MAX_EXAMINED = 1_000
"""Maximum number of events examined to choose the session to replay."""


@dataclass
class Replayer(Command):
    """Command that runs ``nri-scope replay`` on a temporary recording, in place of the screen."""

    marker: Marker
    jobs: Jobs
    chooser: Chooser
    open_input: Callable[[str], None]
    """Open the input of the plugin's command line, with a note."""
    _marked: bool = False
    """Whether the marked events are meant."""

    async def ask(self) -> None:
        """Choose the events, and open the input of the plugin's command line."""
        if self.jobs.is_free():
            await self.chooser.marked_or_shown(self._begin)

    def _begin(self, marked: bool) -> None:
        self._marked = marked
        view = self.views.events.view
        count = len(self.marker.numbers()) if marked else view.events
        noun = "marked event" if marked else f"shown {view.noun}"
        self.open_input(f"replays {many(count, noun)}")

    def replay(self, text: str) -> None:
        """Replay to the plugin started by a command line, in shell syntax."""
        words = shlex.split(text)
        if words:
            self.jobs.begin(lambda: self._replay(words))

    async def _replay(self, words: Sequence[str]) -> None:
        shown = await shown_events(
            self.marker, self.views.events.view, self.context, marked=self._marked
        )
        folder = Path(tempfile.mkdtemp(prefix="nri-scope-replay-"))
        file, keep = folder / "shown.nriscope.db", False

        def make(recording: Recording, progress: Progress) -> int | None:
            from nri_scope.share.extract import extract

            selection = shown.selection()
            extract(recording, file, selection, on_progress=progress)
            return _session(recording, selection)

        try:
            session = await self.jobs.run(f"preparing {shown.words}", make)
            arguments = ["replay", str(file)]
            arguments += ["--session", str(session)] if session is not None else []
            arguments += ["--", *words]
            try:
                with self.app.suspend():
                    _in_terminal(shown, arguments)
            except SuspendNotSupported:
                keep = True
                self.jobs.made.append(file)
                command = pasteable(["nri-scope", *arguments])
                self.app.copy_to_clipboard(command)
                self.frame.say(f"copied; run it in another terminal: {command}")
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)


def _session(recording: Recording, selection: Selection) -> int | None:
    """Return the session of the first event to replay; None if all events are included."""
    if selection.numbers is None:
        return None
    sessions = {one.id for one in recording.sessions() if one.is_connection}
    for number in selection.numbers[:_MAX_EXAMINED]:
        event = recording.event(number)
        if event is not None and event.session in sessions:
            return event.session
    return None


def _in_terminal(shown: ShownEvents, arguments: Sequence[str]) -> None:
    """Run ``nri-scope`` in place of the screen; wait for Enter after it has exited."""
    _print(f"replaying {shown.words}; ^C ends it")
    _print(f"$ nri-scope {safe(shlex.join(arguments))}\n")
    with _sigint_for_child():
        status = subprocess.run([sys.executable, "-P", "-m", "nri_scope", *arguments]).returncode
        _print(f"\nexited with status {status}; Enter returns to the recording")
        sys.stdin.readline()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def _sigint_for_child() -> Iterator[None]:
    # Not SIG_IGN: the child would inherit it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
