# SPDX-License-Identifier: Apache-2.0
"""What the key for replaying does: the shown events, fed to a plugin, in the terminal itself."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from nri_scope.recorder.escape import safe
from nri_scope.recorder.model import Role
from nri_scope.recorder.reader import Recording
from nri_scope.tui.jobs import Progress
from nri_scope.tui.shown import Shown, shown_events
from nri_scope.tui.taking import pasteable

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp

_LOOKED_AT = 1_000
"""Events among which the session to be replayed is looked for."""


class Replayer:
    """Makes a temporary recording and hands the terminal over to ``nri-scope replay``."""

    def __init__(self, app: ScopeApp) -> None:
        self._app = app

    def replay(self, text: str) -> None:
        """Replay to the plugin that this command line starts, which a shell could read."""
        words = shlex.split(text)
        if words:
            self._app.jobs.begin(lambda: self._replay(words))

    async def _replay(self, words: Sequence[str]) -> None:
        app = self._app
        shown = await shown_events(app)
        folder = Path(tempfile.mkdtemp(prefix="nri-scope-replay-"))
        file, keep = folder / "shown.nriscope.db", False

        def make(recording: Recording, progress: Progress) -> int | None:
            from nri_scope.recorder.rebuild import rebuild

            rebuild(recording, file, shown.selection, on_progress=progress)
            return _session(recording, shown)

        try:
            session = await app.jobs.run(f"preparing {shown.words}", make)
            arguments = ["replay", str(file)]
            arguments += ["--session", str(session)] if session is not None else []
            arguments += ["--", *words]
            try:
                with app.suspend():
                    _in_terminal(shown, arguments)
            except SuspendNotSupported:
                keep = True
                app.made.append(file)
                command = pasteable(["nri-scope", *arguments])
                app.copy_to_clipboard(command)
                app.say(f"copied, to be run elsewhere: {command}")
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)


def _session(recording: Recording, shown: Shown) -> int | None:
    """The session of the first of these events; None where all events are taken."""
    if shown.selection.is_all:
        return None
    asked = {one.id for one in recording.sessions() if one.role != Role.CRI}
    for number in shown.numbers[:_LOOKED_AT]:
        event = recording.event(number)
        if event is not None and event.session in asked:
            return event.session
    return None


def _in_terminal(shown: Shown, arguments: Sequence[str]) -> None:
    """Run it where the screen was, until the user has read what it printed."""
    _say(f"replaying {shown.words}; ^C ends it")
    _say(f"$ nri-scope {safe(shlex.join(arguments))}\n")
    with _interrupts_are_for_the_child():
        status = subprocess.run([sys.executable, "-P", "-m", "nri_scope", *arguments]).returncode
        _say(f"\nended with status {status}; Enter goes back to the recording")
        sys.stdin.readline()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def _interrupts_are_for_the_child() -> Iterator[None]:
    # Not SIG_IGN, which the child would inherit.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
